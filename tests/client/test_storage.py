"""What stays on a device: nothing of a wave that is over."""

from pathlib import Path

import numpy as np

from voxpop.client import Memory
from voxpop.client.storage import Outgoing


def test_nothing_of_a_report_or_a_reward_is_on_the_device_after_its_wave(tmp_path: Path) -> None:
    def stored() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.iterdir())

    memory = Memory(tmp_path / "d.db")
    reward = 0.123456789
    memory.record(1, 0, reward)
    memory.keep(Outgoing(1, "http://x", "sesame", b"a report that nobody may find"))
    kept = (b"sesame", b"a report that nobody may find", np.float64(reward).byteswap().tobytes())
    assert all(part in stored() for part in kept)
    memory.forget(1)
    assert not any(part in stored() for part in kept)
    memory.close()

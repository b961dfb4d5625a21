"""What stays on a device: nothing of a wave that is over."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from voxpop.client import Memory
from voxpop.client.storage import Outgoing
from voxpop.errors import InputError


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


FORMER = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE rewards (
    phase INTEGER, arm INTEGER, count INTEGER NOT NULL, total REAL NOT NULL, PRIMARY KEY (phase, arm));
CREATE TABLE outbox (phase INTEGER PRIMARY KEY, address TEXT NOT NULL, token TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE twins (phase INTEGER PRIMARY KEY, address TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE made (number INTEGER PRIMARY KEY, phase INTEGER NOT NULL);
INSERT INTO facts VALUES ('key', 'a-key'), ('registered', '');
INSERT INTO rewards VALUES (1, 0, 2, 1.0), (2, 0, 4, 3.0);
INSERT INTO outbox VALUES (1, 'https://c.example/v1/studies/tea/phases/1/report', 'sesame', '{}');
INSERT INTO twins VALUES (1, 'https://h.example/v1/batches/b/report', '{}');
INSERT INTO made VALUES (1, 1);
"""


def test_a_file_from_before_there_were_shares_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    with sqlite3.connect(path) as file:
        file.executescript("\n".join(line for line in FORMER.splitlines() if "twins" not in line))
    file.close()
    memory = Memory(path)
    left = memory.outgoing()
    assert left is not None
    assert (left.address, left.twin) == ("https://c.example/v2/studies/tea/waves/1/report", None)
    assert memory.averages(2, [0]) == [0.75]
    memory.close()


def test_a_file_from_before_there_were_blocks_is_upgraded(tmp_path: Path) -> None:
    """What was recorded is of block 1, and the rewards of other blocks stay apart from it."""
    path = tmp_path / "d.db"
    with sqlite3.connect(path) as file:
        file.executescript(FORMER.replace("phases", "waves").replace("phase", "wave").replace("/v1/", "/v2/"))
    file.close()
    for _ in range(2):
        memory = Memory(path)
        assert [memory.averages(wave, [0]) for wave in (1, 2)] == [[0.5], [0.75]]
        memory.close()
    memory = Memory(path)
    memory.record(2, 0, 0.25, 4)
    memory.record(2, 0, 5.0, 2, block=2)
    memory.record(2, 0, 2.0, 1, block=2)
    assert [memory.averages(2, [0], block) for block in (1, 2)] == [[0.5], [4.0]]
    assert np.isnan(memory.averages(2, [0], 3)).all()
    memory.forget(2)
    assert np.isnan([memory.averages(2, [0], block) for block in (1, 2)]).all()
    with pytest.raises(InputError, match="block must be a whole number, at least 1, got 0"):
        memory.record(2, 0, 1.0, block=0)
    memory.close()


def test_metrics_are_kept_beside_the_reward_and_apart_from_it(tmp_path: Path) -> None:
    """In a file from before there were metrics, too; each has its own rounds."""
    path = tmp_path / "d.db"
    columns = "wave INTEGER, block INTEGER, arm INTEGER, count INTEGER NOT NULL, total REAL NOT NULL"
    with sqlite3.connect(path) as file:
        file.executescript(f"CREATE TABLE rewards ({columns}, PRIMARY KEY (wave, block, arm));")
        file.execute("INSERT INTO rewards VALUES (2, 2, 7, 4, 3.0)")
    file.close()
    memory = Memory(path)
    assert memory.averages(2, [7], 2) == [0.75]
    assert memory.record(2, 7, 1.75, 4, 2, {"retention": 1.0, "complaints": 0.5})
    assert memory.record(2, 7, None, 1, 2, {"retention": 0.0})
    found = [memory.averages(2, [7], 2, metric) for metric in ("", "retention", "complaints")]
    assert found == [[1.25], [0.8], [0.5]]
    assert np.isnan(memory.averages(2, [7], 2, "age")).all()
    with pytest.raises(InputError, match="retention must be a number"):
        memory.record(2, 7, 1.0, metrics={"retention": float("nan")})
    assert np.isnan(memory.averages(2, [7])).all()  # nothing of a round that is refused
    memory.forget(2)
    assert np.isnan(memory.averages(2, [7], 2, "retention")).all()
    memory.close()


def test_the_file_of_a_former_version_is_upgraded(tmp_path: Path) -> None:
    """Where waves were called phases; nothing is lost, and what was to be sent goes to the new addresses."""
    path = tmp_path / "d.db"
    with sqlite3.connect(path) as file:
        file.executescript(FORMER)
    file.close()
    for _ in range(2):
        memory = Memory(path)
        assert (memory.key, memory.registered, memory.reports) == ("a-key", True, 1)
        assert [memory.averages(wave, [0]) for wave in (1, 2)] == [[0.5], [0.75]]
        left = memory.outgoing()
        assert left is not None
        assert (left.wave, left.token) == (1, "sesame")
        assert left.address == "https://c.example/v2/studies/tea/waves/1/report"
        assert left.twin is not None
        assert left.twin[0] == "https://h.example/v2/batches/b/report"
        memory.close()
    memory = Memory(path)
    memory.forget(1)
    memory.record(3, 1, 0.25)
    assert memory.outgoing() is None
    memory.close()

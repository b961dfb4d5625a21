"""The command `voxpop`, for a machine whose clock can be set: `python -m tests.soak.clocked serve ...`.

The file named by VOXPOP_SOAK_CLOCK holds one float: the seconds by which the clock of this process is ahead of the
machine's. It may change at any time. Only the time of day is shifted, as when an operator or NTP sets a clock; what
measures durations (the monotonic clock) is not.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

CLOCK = "VOXPOP_SOAK_CLOCK"
OFFSET = struct.Struct("d")


def set_clock(path: Path, offset: float) -> None:
    """Set the clock of the processes that use this file."""
    if not path.exists():
        path.write_bytes(OFFSET.pack(0.0))
    with path.open("r+b") as file:  # in place: the processes have mapped it
        file.write(OFFSET.pack(offset))


def shifted(path: Path, real: Callable[[], float] = time.time) -> Callable[[], float]:
    """Return a clock that is ahead of the real one by the number in the file."""
    with path.open("rb") as file:
        offset = mmap.mmap(file.fileno(), OFFSET.size, prot=mmap.PROT_READ)
    return lambda: real() + float(OFFSET.unpack_from(offset)[0])


def main() -> None:
    """Set the clock before anything is imported that keeps a reference to it, then run the command."""
    time.time = shifted(Path(os.environ[CLOCK]))
    from voxpop.cli import main

    main()


if __name__ == "__main__":
    main()

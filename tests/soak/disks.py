"""Small disks that can be full: file systems in memory with a fixed size, which only root can mount."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

FILLER = "filler"
MEGABYTE = 2**20


@dataclass(frozen=True)
class SmallDisk:
    """A folder on a file system of its own."""

    folder: Path

    def fill(self) -> None:
        """Take all the space that is left."""
        with (self.folder / FILLER).open("wb") as file:
            size, block = 0, 16 * MEGABYTE
            while block >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), size, block)
                    size += block
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    block //= 4

    def clear(self) -> None:
        """Give the space back."""
        with suppress(FileNotFoundError):
            (self.folder / FILLER).unlink()


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk | None]:
    """Mount a small disk at this folder; without the right to do so, the folder is an ordinary one and yields None."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield SmallDisk(folder) if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)

"""Whole files: one process never takes the unfinished file of another for its own."""

import os
from pathlib import Path

import pytest

from voxpop.io.files import write_atomically


@pytest.mark.parametrize("private", [False, True])
def test_two_processes_with_the_same_number_write_a_file_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool
) -> None:
    """As in two containers that share a folder."""
    path, sync = tmp_path / "tea.json", os.fsync

    def write_meanwhile(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        write_atomically(path, "of the other one", private)
        sync(handle)

    monkeypatch.setattr(os, "fsync", write_meanwhile)
    write_atomically(path, "of this one", private)
    assert path.read_text() == "of this one"
    assert list(tmp_path.iterdir()) == [path]

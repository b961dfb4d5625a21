"""`python -m reproduction` with tiny runs, and a figure that it made."""

import subprocess
from pathlib import Path

import pytest

from reproduction import __main__ as reproduce
from tests.helpers_cli import main_of
from tests.reproduction.helpers import Page
from tests.reproduction.helpers_command import ARGUMENTS, STEM, TINY, Main, besides_progress, reproduction


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    """The command in this process, in a folder of its own, with tiny runs unless --quick is given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "FULL", TINY)
    return main_of(monkeypatch, reproduce.app)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One figure, made by the command in a process of its own with two seeds."""
    folder = tmp_path_factory.mktemp("made")
    done = reproduction(*ARGUMENTS, "--seeds", 2, "--out", "deep/down", cwd=folder)
    assert (done.returncode, besides_progress(done.stderr)) == (0, "")
    return done, folder / "deep/down"


@pytest.fixture(scope="session")
def folder(made: tuple[subprocess.CompletedProcess[str], Path]) -> Path:
    return made[1]


@pytest.fixture(scope="session")
def page(folder: Path) -> Page:
    return Page((folder / f"{STEM}.html").read_text())

"""`voxpop reproduce` with tiny runs, and a figure that it made."""

import subprocess
from pathlib import Path

import pytest

from tests.helpers_cli import main_of, voxpop
from tests.helpers_experiments import Page
from tests.helpers_reproduce import ARGUMENTS, STEM, TINY, Main, besides_progress
from tests.helpers_waiting import HANGING
from voxpop.cli import reproduce
from voxpop.simulation import sweep


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    """`voxpop ...` in this process, in a folder of its own, with tiny runs unless --quick is given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "FULL", TINY)
    return main_of(monkeypatch)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One figure, made by the installed command with two seeds."""
    folder = tmp_path_factory.mktemp("made")
    done = voxpop(*ARGUMENTS, "--seeds", 2, "--out", "deep/down", cwd=folder)
    assert (done.returncode, besides_progress(done.stderr)) == (0, "")
    return done, folder / "deep/down"


@pytest.fixture(scope="session")
def folder(made: tuple[subprocess.CompletedProcess[str], Path]) -> Path:
    return made[1]


@pytest.fixture(scope="session")
def page(folder: Path) -> Page:
    return Page((folder / f"{STEM}.html").read_text())


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a running cluster enough time to answer, however busy the machine is."""
    monkeypatch.setattr(sweep, "PATIENCE", HANGING)

"""`python -m reproduction` computes nothing twice, and resumes where it was interrupted."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reproduction import __main__ as reproduce
from reproduction.exhibits import FULL, QUICK
from reproduction.journal import Journal
from tests.helpers_cli import ENVIRONMENT
from tests.helpers_waiting import HANGING
from tests.reproduction.helpers_command import (
    ARGUMENTS,
    FILES,
    NAME,
    STEM,
    Main,
    besides_progress,
    counted,
    entries,
    exhibit_of,
    names_in,
    one_line,
    python,
    reproduction,
)

# The same seeds give the same pictures, and nothing is computed twice


def test_the_same_seeds_give_the_same_pictures(folder: Path, tmp_path: Path) -> None:
    """Fresh runs in another folder, there one after another, here side by side."""
    done = reproduction(NAME, "--quick", "--seeds", 2, "--jobs", 2, "--out", "again", cwd=tmp_path)
    assert (done.returncode, besides_progress(done.stderr)) == (0, "")
    assert {entry["key"] for entry in entries(tmp_path / "again")} == {entry["key"] for entry in entries(folder)}
    for ending in (".png", ".svg", "-curves.csv"):
        assert (tmp_path / "again" / f"{STEM}{ending}").read_bytes() == (folder / f"{STEM}{ending}").read_bytes()


def test_other_seeds_give_other_pictures(folder: Path, main: Main, tmp_path: Path) -> None:
    """Guards the test above."""
    shutil.copy(folder / "runs.jsonl", tmp_path)
    assert main(*ARGUMENTS, "--seeds", 1, "--out", ".").code == 0
    for ending in (".png", ".svg", "-curves.csv"):
        assert (tmp_path / f"{STEM}{ending}").read_bytes() != (folder / f"{STEM}{ending}").read_bytes()


def test_a_second_time_nothing_is_run(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "again")
    before = (tmp_path / "again/runs.jsonl").read_bytes()
    for path in (tmp_path / "again").glob("ablation*"):
        path.unlink()
    done = reproduction(*ARGUMENTS, "--seeds", 2, "--out", "again", cwd=tmp_path)
    assert (done.returncode, besides_progress(done.stderr)) == (0, "")
    assert (tmp_path / "again/runs.jsonl").read_bytes() == before
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name


def test_runs_are_shared_by_all_that_need_them(main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert main(NAME, "--jobs", 1, "--seeds", 1, "--out", "out").code == 0
    performed = counted(monkeypatch)
    assert main("fig:sphere", "--jobs", 1, "--out", "out").code == 0
    assert [trial.seed for trial in performed] == [1, 1, 1, 1]
    assert len(entries(tmp_path / "out")) == 8


# Interrupted

STALLS = """
import sys, time
from reproduction import __main__ as reproduce
finish, done = reproduce.perform, []
def perform(trial):
    if len(done) == 3:
        time.sleep(3600)
    done.append(trial)
    return finish(trial)
reproduce.perform = perform
reproduce.main(reproduce.app)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start processes in a session of their own, which obey Ctrl-C even if this one does not, and end with the test."""
    running: list[subprocess.Popen[str]] = []

    def run(*command: object) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        running.append(process)
        return process

    yield run
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for_runs(process: subprocess.Popen[str], journal: Path, count: int) -> None:
    while not (journal.exists() and journal.read_bytes().count(b"}\n") >= count):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_an_interrupted_sweep_goes_on_where_it_stopped(
    start: Callable[..., subprocess.Popen[str]], main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = [*ARGUMENTS, "--seeds", 2, "--out", "out"]
    process = start(sys.executable, "-c", STALLS, *command)
    wait_for_runs(process, tmp_path / "out/runs.jsonl", 3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANGING)
    assert (process.returncode, out) == (130, "")
    said = one_line(err)
    assert "3 of 8 runs" in said
    assert "out/runs.jsonl" in said
    assert names_in(tmp_path / "out") == {"runs.jsonl"}
    before = (tmp_path / "out/runs.jsonl").read_bytes()
    kept = Journal(tmp_path / "out/runs.jsonl").read(exhibit_of(replace(QUICK, seeds=2)).trials)
    assert len(kept) == 3

    performed = counted(monkeypatch)
    done = main(*command)
    assert (done.code, besides_progress(done.err)) == (0, "")
    assert len(performed) == 5
    assert set(performed).isdisjoint(kept)
    assert (tmp_path / "out/runs.jsonl").read_bytes().startswith(before)
    assert len({entry["key"] for entry in entries(tmp_path / "out")}) == len(entries(tmp_path / "out")) == 8
    assert names_in(tmp_path / "out") == FILES


def test_ctrl_c_stops_the_workers_too(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    """The terminal interrupts all processes of the command at once."""
    process = start(sys.executable, "-m", "reproduction", "peers/sphere", "--jobs", 2, "--out", "out")
    wait_for_runs(process, tmp_path / "out/runs.jsonl", 1)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=HANGING)
    assert (process.returncode, out) == (130, "")
    kept = len(entries(tmp_path / "out"))
    assert 1 <= kept < 320
    assert f"{kept} of 320 runs" in one_line(err)
    assert len(Journal(tmp_path / "out/runs.jsonl").read(exhibit_of(FULL, "peers/sphere").trials)) == kept


def test_ctrl_c_while_drawing_is_one_sentence(main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "write_exhibit", interrupt)
    done = main(NAME, "--jobs", 1, "--seeds", 1, "--out", "out")
    assert done.code == 130
    assert "stopped" in one_line(done.err)
    assert len(entries(tmp_path / "out")) == 4


# A full disk: files may not grow beyond a limit

FULL_DISK = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))"


def test_a_disk_that_fills_up_between_runs_keeps_what_is_finished(main: Main, tmp_path: Path) -> None:
    command = [*ARGUMENTS, "--seeds", 1, "--out", "out"]
    done = python(FULL_DISK.format(6000), *command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "out/runs.jsonl" in one_line(done.stderr)
    assert (tmp_path / "out/runs.jsonl").stat().st_size == 6000
    kept = entries(tmp_path / "out")
    assert 1 <= len(kept) < 4
    assert names_in(tmp_path / "out") == {"runs.jsonl"}
    assert main(*command).code == 0
    assert len({entry["key"] for entry in entries(tmp_path / "out")}) == len(entries(tmp_path / "out")) == 4
    assert entries(tmp_path / "out")[: len(kept)] == kept
    assert names_in(tmp_path / "out") == FILES


def test_a_disk_that_fills_up_between_pictures_leaves_no_halves(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "runs.jsonl", tmp_path)
    done = python(FULL_DISK.format(50_000), *ARGUMENTS, "--seeds", 2, "--out", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert f"{STEM}." in one_line(done.stderr)
    assert (tmp_path / "runs.jsonl").read_bytes() == (folder / "runs.jsonl").read_bytes()
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name

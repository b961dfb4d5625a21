"""The tutorial of docs/service.md, followed to the letter with real processes: the study finishes, and is shown."""

import csv
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.helpers_cli import ENVIRONMENT, ROOT, VOXPOP, main_of
from tests.helpers_waiting import HANGING, until

TUTORIAL = (ROOT / "docs/service.md").read_text(encoding="utf-8").split("### What a study says of itself")[0]


def block(kind: str, first: str = "") -> str:
    """Return the only code block of a kind that begins like this."""
    (text,) = re.findall(rf"^```{kind}\n({re.escape(first)}.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE)
    return str(text)


def commands(first: str) -> list[str]:
    return block("(?:sh|text)", first).splitlines()


class Folder:
    """An empty folder, in which the tutorial's commands are typed as they are."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.path, self.url = path, f"http://127.0.0.1:{port}"
        self.environment = {**ENVIRONMENT, "VOXPOP_PORT": str(port)}
        monkeypatch.setenv("VOXPOP_URL", self.url)
        monkeypatch.chdir(path)
        self.main = main_of(monkeypatch)

    def run(self, command: str) -> str:
        """Run a command that must succeed; return what it printed."""
        done = self.main(*shlex.split(command)[1:])
        assert (done.code, done.err) == (0, "")
        return done.out

    def play(self, command: str) -> str:
        """Run the program that plays and answers; return what it printed."""
        words = [sys.executable, *shlex.split(command)[1:]]
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=self.path, env=self.environment, timeout=HANGING, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run the coordinator in the background."""
        (command,) = commands("voxpop serve")
        with (self.path / "serve.log").open("w") as log:
            server = subprocess.Popen(
                [str(VOXPOP), *shlex.split(command)[1:]], cwd=self.path, env=self.environment, stderr=log
            )
        try:
            until(self._answers, "the coordinator's start", pause=0.05)
            yield
        finally:
            server.terminate()
            server.wait()

    def has_planned(self) -> bool:
        """Return True once the first wave is open, a moment after the study was created."""
        key = (self.path / "my.key").read_text().strip()
        answer = httpx.get(f"{self.url}/v2/studies/tea/decision", headers={"authorization": f"Bearer {key}"})
        return bool(answer.json()["wave"] == 1)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz").is_success
        except httpx.TransportError:
            return False


@pytest.mark.parametrize("first", ["voxpop fleet", "python people.py"])
def test_the_tutorial_finishes_and_shows_its_result(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The devices and the application are those of the command, or of the program that the page shows."""
    folder = Folder(tmp_path, monkeypatch)
    (tmp_path / "tea.toml").write_text(block("toml"))
    (tmp_path / "people.py").write_text(block("python").replace("http://127.0.0.1:8000", folder.url))
    with folder.serving():
        make_key, create, status = commands("voxpop keys")
        folder.run(make_key)
        created = folder.run(create)
        until(folder.has_planned, "the plan of the first wave", pause=0.05)
        for line, printed in zip(commands("wave 1 open"), folder.run(status).splitlines(), strict=True):
            assert printed.startswith(line.removesuffix("..."))
        suggested = re.search(r"watch it with: (voxpop .*)", created)
        assert suggested is not None
        assert "wave 1 asks 24 people" in folder.run(suggested[1])

        (play,) = commands(first)
        printed = folder.run(play) if first == "voxpop fleet" else folder.play(play)
        used = re.search(r"use (?:\{'price':|price =) ([\d.]+)", printed)
        shown, reported, _ = map(folder.run, commands("voxpop status"))

    assert used is not None
    liked = re.search(r"gain most from price = ([\d.]+)", printed)
    assert abs(float(used[1]) - (2.1 if liked is None else float(liked[1]))) < 0.7
    assert "Stopped because" in shown
    asked = re.search(
        r"ledger: [1-9] releases? about ([1-9]\d) people; the most exposed are exposed to epsilon 5", shown
    )
    assert asked is not None
    assert 20 <= int(asked[1]) <= 60
    assert f"voxpop-report{os.sep}tea-results.html" in reported
    assert "price = " in (tmp_path / "voxpop-report/tea-results.html").read_text(encoding="utf-8")
    with (tmp_path / "tea.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 11
    assert [float(row["price"]) for row in rows if row["best"] == "True"] == [float(used[1])]
    assert sum(int(row["people"]) for row in rows) >= 2 * int(asked[1])  # everyone answered about several prices

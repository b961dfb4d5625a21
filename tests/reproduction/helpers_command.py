"""The figure that the tests of `python -m reproduction` make, and functions to read it."""

import csv
import io
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reproduction import __main__ as reproduce
from reproduction import choose
from reproduction.exhibits import Exhibit, Scale
from tests import helpers_cli
from tests.helpers_cli import Outcome
from voxpop.simulation.comparison import RunSummary, perform
from voxpop.simulation.trials import Trial

Main = Callable[..., Outcome]
NAME = "ablation/sphere"
STEM = "ablation-sphere"
ARGUMENTS = (NAME, "--quick", "--jobs", 1)
RUN = "from reproduction.__main__ import app, main\nmain(app)"
TINY = Scale(seeds=2, horizon=300, private_horizon=400)
SERIES = ("DPBE", "DPBE-Fixed", "DPBE-NoBatching", "voxpop")
FILES = {
    *(f"{STEM}{ending}" for ending in (".png", ".svg", ".csv", "-curves.csv", "-table-1.csv", ".html")),
    "runs.jsonl",
}


def exhibit_of(scale: Scale, name: str = NAME) -> Exhibit:
    return choose([name], scale)[0]


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def entries(folder: Path) -> list[dict[str, Any]]:
    """Return the complete lines of the journal."""
    found = []
    for line in (folder / "runs.jsonl").read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def of_policy(folder: Path, policy: str) -> list[dict[str, Any]]:
    """Return the summaries of a policy's runs, in the order of seeds."""
    found = [entry for entry in entries(folder) if entry["trial"]["policy"] == policy]
    return [entry["summary"] for entry in sorted(found, key=lambda entry: int(entry["trial"]["seed"]))]


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def besides_progress(text: str) -> str:
    """Return the text on standard error without the lines that say how far the work is."""
    return re.sub(r"^[\d,]+ of [\d,]+ (runs|figures)\n", "", text, flags=re.MULTILINE)


def one_line(text: str) -> str:
    """Return the text on standard error; besides progress it must be one sentence, without a traceback."""
    lines = besides_progress(text).splitlines()
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """Return a list to which every performed trial is added."""
    performed: list[Trial] = []

    def count(trial: Trial) -> RunSummary:
        performed.append(trial)
        return perform(trial)

    monkeypatch.setattr(reproduce, "perform", count)
    return performed


def python(code: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command after some preparation, in a process of its own."""
    return helpers_cli.python(f"{code}\n{RUN}", *arguments, cwd=cwd)


def reproduction(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return python("", *arguments, cwd=cwd)

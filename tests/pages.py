"""The pages of the documentation as programs: every block is run in page order, in a folder of its own.

A fence says what it holds: `python` and `sh` are run, and what others hold (`text`, `toml`, `json`, `js`) is shown. A
comment on the lines before a fence says more:

    <!-- not run: the reason -->         commands are only parsed, and Python is only compiled
    <!-- file: tea.toml -->              the block is the file of that name
    <!-- files: pilot.csv -->            the commands below need such files; PROPS has stand-ins
    <!-- output -->                      what the `sh` block before it prints; numbers may differ in the last digit

`python -m tests.pages docs/gallery/*.md` runs pages and writes their outputs and pictures into them.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.helpers_cli import ENVIRONMENT, ROOT, pilot_csv
from tests.helpers_waiting import HANGING

BLOCK = re.compile(
    r"^(?:<!-- (?P<note>(?:(?!-->).)*?) -->\n)?```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
LANGUAGES = {"python", "sh", "text", "toml", "json", "js"}
NOTES = ("", "not run", "file", "files", "output")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
PICTURE = re.compile(r"!\[[^]]*\]\(([\w-]+\.png)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block, and what the comment before it says."""

    language: str
    text: str
    kind: str = ""  # of NOTES
    said: str = ""  # the rest of the comment

    @property
    def run(self) -> bool:
        """True if this block is executed."""
        return self.language in ("python", "sh") and self.kind in ("", "files")


def blocks_of(page: str) -> list[Block]:
    """List the blocks of a page; directives of the site, such as ```{toctree}, are not blocks."""
    found = []
    for match in BLOCK.finditer(page):
        kind, _, said = (match["note"] or "").partition(":")
        if not match["language"].startswith("{"):
            found.append(Block(match["language"], match["text"], kind.strip(), " ".join(said.split())))
    return found


def commands_of(block: Block) -> list[list[str]]:
    """Split a block into commands, without comments, settings of the environment and the `&` at the end."""
    lines = block.text.replace("\\\n", " ").splitlines()
    split = [shlex.split(line.rstrip(" &"), comments=True) for line in lines]
    return [words[next(i for i, word in enumerate(words) if "=" not in word) :] for words in split if words]


def answer_the_open_wave(path: Path) -> None:
    """Write what people answer to the question of study.json: the best price is in the middle."""
    from voxpop import Study

    question = Study.load(path.with_name("study.json")).ask()
    assert question is not None
    prices = [decision["price"] for decision in question.decisions]
    tastes = np.random.default_rng(question.wave).normal(2.0, 0.3, question.people)
    told = [(person, price, 1 - (price - taste) ** 2) for person, taste in enumerate(tastes) for price in prices]
    rows = [f"{person},{1 + person % question.blocks},{price},{reward:.4f}" for person, price, reward in told]
    path.write_text("\n".join(["person,block,price,reward", *rows]) + "\n", encoding="utf-8")


def metric_csv(path: Path) -> None:
    """Write the history of a metric: ten weeks of days."""
    days = [date(2024, 5, 6) + timedelta(number) for number in range(70)]
    noise = np.random.default_rng(0).normal(0.8, 0.1, 70)
    rows = [f"{day},{value + 0.2 * (day.weekday() > 4):.3f},812" for day, value in zip(days, noise, strict=True)]
    path.write_text("\n".join(["date,revenue,visits", *rows]) + "\n", encoding="utf-8")


PROPS: dict[str, Callable[[Path], object]] = {
    "pilot.csv": pilot_csv,
    "people.csv": partial(pilot_csv, people=150),
    "metric.csv": metric_csv,
    "answers.csv": answer_the_open_wave,
}


def perform(page: str) -> Iterator[str]:
    """Run a page in the current folder; yield what each of its `sh` blocks prints."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.kind == "file":
            Path(block.said).write_text(block.text, encoding="utf-8")
        for prop in block.said.split(", ") if block.kind == "files" else ():
            PROPS[prop](Path(prop))
        if block.run and block.language == "python":
            exec(compile(block.text, "page", "exec", dont_inherit=True), names)
        elif block.run:
            yield "".join(map(printed_by, commands_of(block)))


def printed_by(command: list[str]) -> str:
    """Run one command, `voxpop` in this process and a Python program in another; return what it prints."""
    if command[0] == "python":
        done = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), f"{shlex.join(command)}: {done.stderr}"
        return done.stdout
    assert command[0] == "voxpop", f"{shlex.join(command)}: only voxpop and python can be run; say 'not run: ...'"
    from voxpop.cli import main

    out, err, code = io.StringIO(), io.StringIO(), None
    with patch("sys.argv", command), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    if code:
        raise RuntimeError(f"{shlex.join(command)}: {err.getvalue()}")
    return out.getvalue()


def play(page: Path, folder: Path) -> list[str]:
    """Run a page in a new process and a folder of its own, with the files beside a page of the gallery."""
    for path in page.parent.glob("*"):
        if path.suffix in (".py", ".csv") and page.parent.name == "gallery":
            shutil.copy(path, folder)
    command = [sys.executable, "-m", "tests.pages", "--perform", str(page)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=HANGING,
        check=False,
        env={**ENVIRONMENT, "COLUMNS": "96", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "MPLBACKEND": "agg"},
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{page}:\n{done.stderr}"
    return [tidy(text) for text in json.loads(done.stdout.splitlines()[-1])]


def tidy(text: str) -> str:
    """Drop spaces at the ends of lines, and empty lines at both ends."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"


def alike(real: str, said: str) -> bool:
    """Return True if two outputs have the same words and, to the last digit or to one percent, the same numbers.

    >>> alike("gain  0.237, 1,204 people", "gain 0.238, 1,205 people"), alike("gain 0.237", "gain 0.31")
    (True, False)
    """
    if NUMBER.sub("#", real).split() != NUMBER.sub("#", said).split():
        return False
    pairs = zip(NUMBER.findall(real), NUMBER.findall(said), strict=True)
    return all(_close(a.replace(",", ""), b.replace(",", "")) for a, b in pairs)


def _close(real: str, said: str) -> bool:
    digits = len(said.partition(".")[2])
    return math.isclose(float(real), float(said), rel_tol=0.01, abs_tol=1.01 * 10**-digits)


def expected_outputs(page: str) -> list[str | None]:
    """List for each `sh` block that is run what the page says it prints; None if it says nothing."""
    outputs: list[str | None] = []
    for block in blocks_of(page):
        if block.language == "sh" and block.run:
            outputs.append(None)
        elif block.kind == "output":
            outputs[-1] = block.text
    return outputs


def rewrite(page: Path) -> None:
    """Run a page, and write what was printed and drawn into it."""
    with tempfile.TemporaryDirectory() as folder:
        printed = play(page, Path(folder))
        text, place = page.read_text(encoding="utf-8"), -1

        def renewed(match: re.Match[str]) -> str:
            nonlocal place
            block = (blocks_of(match[0]) or [Block("", "")])[0]
            place += block.language == "sh" and block.run
            return match[0] if block.kind != "output" else f"<!-- output -->\n```text\n{printed[place]}```"

        page.write_text(BLOCK.sub(renewed, text), encoding="utf-8")
        for picture in PICTURE.findall(text):
            for made in Path(folder).rglob(picture):
                shutil.copy(made, page.with_name(picture))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--perform"]:
        print("\n" + json.dumps(list(perform(Path(sys.argv[2]).read_text(encoding="utf-8")))))  # noqa: T201
    else:
        for name in sys.argv[1:]:
            rewrite(Path(name).resolve())

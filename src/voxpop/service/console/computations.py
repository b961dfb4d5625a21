"""The long computations: calibrating a pilot, rehearsing a new study, whether it would begin, and drawing its report.

They run in a process of their own, so that nobody who asks or answers has to wait for them. The service starts this
module as a program, gives it some seconds, and ends it if it takes longer. It reads what it needs from its input and
writes what it found to its output, and nothing touches a disk.
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

import msgspec
import numpy as np

from voxpop.calibration.doubts import FEW_PEOPLE, FEW_VALUES, doubts
from voxpop.calibration.fit import calibrate
from voxpop.calibration.shocks import WINDOW, ShockEstimate
from voxpop.errors import Array, InputError, require_integer
from voxpop.io.columns import Roles
from voxpop.io.history import read_history
from voxpop.io.ranges import Ranges, menu_of
from voxpop.io.studyfile import write_study
from voxpop.io.tables import read_pilot_table
from voxpop.journal.journal import Course
from voxpop.journal.wave import next_wave
from voxpop.model.direction import Direction
from voxpop.model.problem import REWARD_RANGE
from voxpop.model.waves import End
from voxpop.model.words import counted, number
from voxpop.policies import DEFAULT
from voxpop.report.summary import constant_rows, pilot_sentences, shock_sentences
from voxpop.runtime.machine import end_with_parent
from voxpop.service.console.findings import Chart, Series
from voxpop.service.console.forms import whole
from voxpop.service.refusals import Refusal
from voxpop.service.study.definition import Definition, definition_of
from voxpop.simulation.rehearsals import HORIZON, Outcome, rehearse

MOST_SECONDS = 20.0  # of one computation; a pilot or a study that needs more is one for the command line
BY_HAND = "voxpop calibrate, voxpop run, voxpop report"
MOST_WAITING = 4  # computations that may wait for their turn
PRIVATE = "VOXPOP_"  # settings and secrets of the service, which a computation does not need
READING = {  # how to read a pilot: the form's fields, by the options of the command line
    "person": "The column of people",
    "reward": "The column of answers",
    "ignore": "Leave out",
    "choice": "Names, not numbers",
    "integer": "Whole numbers",
    "log": "By their logarithm",
    "horizon": "Rounds",
    "values": "Values that exist",
    "step": "Steps",
    "points": "Values of a number",
    "only": "Only such decisions",
    "history_column": "Column of the history",
    "minimize": "Less is better: people answer with costs",
}
NAMING, SAYING = "ignore|choice|integer|log|person|reward", "values|step|points|only"  # options that errors name
FEWEST = 3  # rehearsals that say something
NO_TIME = "there was no time to rehearse this often enough; try it alone, or again in a moment"

Promise = tuple[str, Mapping[str, Any] | None]  # what it is called, and the table [privacy], if anything is promised


class Computations:
    """Runs one computation at a time, each for so many seconds at most."""

    def __init__(self, seconds: float = MOST_SECONDS) -> None:
        self._seconds, self._turn, self._waiting = seconds, asyncio.Semaphore(1), 0

    async def run(self, task: str, **given: Any) -> Any:
        """Compute something, or refuse if that is impossible, takes too long, or too many wait for the same."""
        if self._waiting >= MOST_WAITING:
            raise Refusal(503, "too many plans are being computed at once; try again in a moment", retry_after=10)
        self._waiting += 1
        try:
            async with self._turn:
                said = await self._compute(pickle.dumps((task, given)))
        finally:
            self._waiting -= 1
        try:
            reply = msgspec.json.decode(said)
        except msgspec.DecodeError:
            raise Refusal(500, f"the computation failed; try it with: {BY_HAND}") from None
        if "error" in reply:
            raise InputError(reply["error"])
        return reply["found"]

    async def _compute(self, given: bytes) -> bytes:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __name__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # nothing of a pilot may get into a log
            env={**environment, "OMP_NUM_THREADS": "1"},
            preexec_fn=end_with_parent(signal.SIGKILL),  # otherwise a pilot could stay in memory without a service
        )
        try:
            async with asyncio.timeout(self._seconds):
                return (await process.communicate(given))[0]
        except TimeoutError:
            raise Refusal(
                422, f"this takes longer than {self._seconds:g} s; use fewer decisions, or: {BY_HAND}"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


# -- the pilot


@dataclass(frozen=True)
class Pilot:
    """What a pilot says. Its averages are part of the study file; single answers are nowhere."""

    file: str
    text: str  # the study file
    columns: tuple[str, ...]  # how each was read
    sentences: tuple[str, ...]
    doubts: tuple[str, ...]
    constants: tuple[tuple[str, str, str], ...]
    kernel: str
    few: str = ""  # why it is too small to be trusted
    shocks: tuple[str, ...] = ()  # what happens to everybody alike
    history: Chart | None = None


def for_form(text: str) -> str:
    """Name fields of the form instead of options of the command line.

    >>> for_form("if only whole numbers make sense, add --integer seats")
    'if only whole numbers make sense, write seats under “Whole numbers”'
    """
    text = text.replace("add --minimize if", "tick “Less is better” if")
    text = text.replace("; --history estimates them", "; a history of the metric shows them")
    text = text.replace("say which is meant with --history-column", "write one under “Column of the history”")
    text = text.replace("add --reward-range :", f"write : under “{REWARD_RANGE.label}”")
    text = re.sub(rf"add --({NAMING}) ", r"write --\1 ", text.replace(", --only or --allowed", " or --only"))
    named = re.sub(rf"--({NAMING}) ([^\s;,]+)", lambda it: f"{it[2]} under “{READING[it[1]]}”", text)
    return re.sub(rf"--({NAMING}|{SAYING})\b", lambda it: f"“{READING[it[1]]}”", named)


def calibrated(file: str, content: bytes, typed: Mapping[str, str], history: tuple[str, bytes] = ("", b"")) -> Pilot:
    """Read and calibrate a pilot, perhaps with a history of the metric; refuse them in the words of the form."""
    try:
        return _calibrated(Path(Path(file).name or "pilot.csv"), content, typed, history)
    except InputError as error:
        raise InputError(for_form(str(error))) from None


def _calibrated(path: Path, content: bytes, typed: Mapping[str, str], history: tuple[str, bytes]) -> Pilot:
    if not content:
        raise InputError(f"{path} is empty; its first line names the columns: person, price, reward, rounds")
    person, reward = (typed.get(name) or None for name in ("person", "reward"))
    roles = Roles((), _names(typed, "ignore"), _names(typed, "choice"), person=person, reward=reward)
    points = whole(READING["points"], typed["points"]) if typed.get("points") else None
    menu = menu_of(points, _names(typed, "values", ";"), _names(typed, "step", ";"), typed.get("only"))
    ranges = Ranges(log=_names(typed, "log"), integer=_names(typed, "integer"), menu=menu)
    towards = Direction.MINIMIZE if typed.get("minimize") else Direction.MAXIMIZE
    table = read_pilot_table(path, roles=roles, ranges=ranges, direction=towards, content=content)
    horizon = whole(READING["horizon"], typed["horizon"]) if typed.get("horizon") else HORIZON
    require_integer(READING["horizon"], horizon, least=1)
    shown = None
    if any(history):
        name = Path(Path(history[0]).name or "history.csv")
        shown = read_history(name, typed.get("history_column") or None, history[1])
    elif typed.get("history_column"):
        raise InputError(f"“{READING['history_column']}” is about a history; choose its file, or leave it empty")
    found = calibrate(table.pilot, table.space, history=shown)
    open_questions = doubts(found, table.pilot, table.people.__getitem__, table.line)
    text = write_study(found, table.space, horizon, table.menu, path.stem, {"name": DEFAULT}, reward or "")
    return Pilot(
        path.name,
        text,
        tuple(map(for_form, table.said)),
        tuple(map(for_form, pilot_sentences(found))),
        tuple(map(for_form, open_questions)),
        tuple(constant_rows(found)),
        found.kernel_name,
        _few(found.people, len(found.pilot)),
        tuple(map(for_form, shock_sentences(found))),
        None if shown is None else history_chart(shown),
    )


def history_chart(found: ShockEstimate) -> Chart:
    """Draw the history, with one shock around the mean of every ten rounds, and its weekly cycle if there is one."""
    rounds, windows = np.arange(len(found.series)), np.arange(len(found.series)) // WINDOW
    means = np.array([_mean(found.series[windows == window]) for window in windows])
    title = f"Shocks of about {number(found.shock_std)} in a round"
    series = [
        Series.of(f"{WINDOW} rounds, one shock below", "likely", means - found.shock_std),
        Series.of("one shock above", "likely", means + found.shock_std),
        Series.of("history", "estimate", found.series),
    ]
    if found.weekly:
        series.append(Series.of("weekly cycle", "loss", _mean(found.series) + found.cycle))
    return Chart(title, "round of the history", "metric", tuple(map(float, rounds + 1)), tuple(series))


def _mean(values: Array) -> float:
    """Return the mean of the rounds in which something was measured; nan if there is none."""
    return float(np.nanmean(values)) if np.isfinite(values).any() else math.nan


def _few(people: int, decisions: int) -> str:
    """Say that a pilot is too small; empty if it is not."""
    if people >= FEW_PEOPLE and decisions >= FEW_VALUES:
        return ""
    return (
        f"This pilot is too small: {counted(people, 'person', 'people')} and {counted(decisions, 'decision')}. What "
        "the study assumes is then hardly more than a guess; ask a few dozen people about a dozen decisions."
    )


def _names(typed: Mapping[str, str], name: str, separator: str = ",") -> tuple[str, ...]:
    """Read a list of columns, or of what is said about each."""
    return tuple(part.strip() for part in typed.get(name, "").split(separator) if part.strip())


# -- rehearsals: what a study would take and what it would find, if the model is right
#
# All trust models are rehearsed with the same truths and the same people, so that the difference is the price of the
# promise. Losses are means and not medians: most truths cost little, and asking is for those that cost much.


@dataclass(frozen=True)
class Price:
    """What some rehearsals with the same promise took, as means."""

    label: str
    runs: int
    people: float = 0.0  # 0: nobody was asked in any of them
    waves: float = 0.0
    lost: float = 0.0
    most_lost: float = 0.0
    not_asking: float = 0.0  # what was lost without asking, whatever is promised
    rounds: float = 0.0  # of all waves
    error: str = ""  # why there are none


def prices(tables: Mapping[str, Any], promises: Sequence[Promise], most: int, seconds: float) -> tuple[Price, ...]:
    """Rehearse a study file with each promise up to `most` times, as long as there is time for it.

    Promises take turns, and only truths that all of them have met count, so that every mean is about the same truths.
    """
    end, took, runs = monotonic() + seconds, 0.0, 0
    studies = [_study({**tables, "privacy": privacy}) for _, privacy in promises]
    found: list[list[Outcome]] = [[] for _ in promises]
    while runs < most and monotonic() + took < end:  # another turn would be done in time
        began = monotonic()
        for place, study in enumerate(studies):
            if isinstance(study, Definition) and monotonic() < end:
                try:
                    found[place].append(rehearse(study.problem, study.policy, study.privacy, runs))
                except InputError as refused:
                    studies[place] = str(refused)
        if any(isinstance(study, Definition) and len(done) == runs for study, done in zip(studies, found, strict=True)):
            break  # the time was over before the turn was
        took, runs = monotonic() - began, runs + 1
    least = min(FEWEST, most)
    made = zip(promises, studies, found, strict=True)
    return tuple(_price(label, study, done[:runs], least) for (label, _), study, done in made)


def _study(tables: Mapping[str, Any]) -> Definition | str:
    """Make the study of a study file's tables, or say why that is impossible."""
    try:
        return definition_of(Path("the study"), {name: it for name, it in tables.items() if it is not None})[1]
    except InputError as refused:
        return str(refused)


def _price(label: str, study: Definition | str, found: Sequence[Outcome], least: int) -> Price:
    """Say what rehearsals took."""
    if isinstance(study, str) or len(found) < least:
        return Price(label, 0, error=study if isinstance(study, str) else NO_TIME)
    people, waves, lost, not_asking, rounds, *_ = zip(*map(astuple, found), strict=True)
    return Price(
        label, len(found), fmean(people), fmean(waves), fmean(lost), max(lost), fmean(not_asking), fmean(rounds)
    )


# -- the process


def begin(definition: Mapping[str, Any]) -> str:
    """Find why a study would end before anyone is asked; empty if it would not."""
    study = Definition.decode(definition)
    first = next_wave(study.problem, study.policy, study.privacy, study.policy.init(study.problem))
    return first.reason if isinstance(first, End) else ""


def report(course: Course) -> str:
    """Make the page about a study."""
    from voxpop.report.page import render  # which needs what draws pictures

    return render(course)


TASKS: dict[str, Callable[..., Any]] = {"calibrate": calibrated, "rehearse": prices, "begin": begin, "report": report}


def main() -> None:
    """Do the task that the input names, with what else is in it."""
    os.nice(5)  # those who answer come first
    task, given = pickle.load(sys.stdin.buffer)  # from the service itself
    try:
        reply = {"found": TASKS[task](**given)}
    except InputError as error:
        reply = {"error": str(error)}
    sys.stdout.buffer.write(msgspec.json.encode(reply))


if __name__ == "__main__":
    main()

"""The long computations: calibrating a pilot, rehearsing a new study, whether it would begin, and drawing its report.

They run in a process of their own, so that nobody who asks or answers has to wait for them. The service starts this
module as a program, gives it some seconds, and ends it if it takes longer. It reads what it needs from its input and
writes what it found to its output, and nothing touches a disk.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import pickle
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

import msgspec
import numpy as np

from voxpop.calibration.doubts import FEW_PEOPLE, FEW_VALUES, doubts
from voxpop.calibration.fit import calibrate
from voxpop.calibration.pilot import round_among
from voxpop.calibration.shocks import WINDOW, ShockEstimate
from voxpop.errors import Array, InputError
from voxpop.io.columns import SYNONYMS, Roles
from voxpop.io.csv_text import read_table
from voxpop.io.history import read_history
from voxpop.io.ranges import Ranges, menu_of
from voxpop.io.recovered import label_of, space_of
from voxpop.io.studyfile import write_study
from voxpop.io.tables import read_pilot_table
from voxpop.journal.journal import Course
from voxpop.journal.wave import next_wave
from voxpop.model.decisions import Choice, Float, Integer, Space
from voxpop.model.direction import Direction
from voxpop.model.menu import Menu
from voxpop.model.problem import REWARD_RANGE
from voxpop.model.waves import End
from voxpop.model.words import counted, describe, number
from voxpop.policies import DEFAULT
from voxpop.report.summary import constant_rows, pilot_sentences, shock_sentences
from voxpop.runtime.machine import end_with_parent
from voxpop.service import logs
from voxpop.service.console.findings import Chart, Series
from voxpop.service.refusals import Refusal
from voxpop.service.study.definition import Definition, definition_of
from voxpop.simulation.rehearsals import HORIZON, Outcome, rehearse

MOST_SECONDS = 20.0  # of one computation; a pilot or a study that needs more is one for the command line
BY_HAND = "voxpop calibrate, voxpop run, voxpop report"
MOST_JOBS = 32  # that are remembered
MOST_REPLY = 2**27  # bytes
DONE = b"done "  # begins a line that says how many parts are done
MOST_WAITING = 4  # computations that may wait for their turn
PRIVATE = "VOXPOP_"  # settings and secrets of the service, which a computation does not need
ROLES = {  # what a column of a pilot can be
    "person": "people",
    "reward": "answers",
    "rounds": "rounds",
    "number": "numbers",
    "integer": "whole numbers",
    "log": "numbers, by their logarithm",
    "choice": "names",
    "when": "when it was tried",
    "ignore": "leave out",
}
DECIDED = ("number", "integer", "log", "choice")  # the roles of parameters
ROLE = "role "  # before the name of a column: the field that says what it is
FEWEST = 3  # rehearsals that say something
NO_TIME = "there was no time to rehearse this often enough; try it alone, or again in a moment"

Promise = tuple[str, Mapping[str, Any] | None]  # what it is called, and the table [privacy], if anything is promised


@dataclass
class Job:
    """A computation that goes on while nobody waits for it."""

    over: bool = False  # set last, and first in a copy: what is over has all else
    done: int = 0  # parts of it
    found: Any = None
    error: str = ""


class Computations:
    """Runs one computation at a time, each for so many seconds at most."""

    def __init__(self, seconds: float = MOST_SECONDS) -> None:
        self._seconds, self._turn, self._waiting = seconds, asyncio.Semaphore(1), 0
        self._jobs: dict[str, Job] = {}  # by what they compute: whoever asks for the same gets the same
        self._tasks: set[asyncio.Task[None]] = set()

    def known(self, key: str) -> Job | None:
        """Return the job that computes this; None if there is none, or no longer."""
        return self._jobs.get(key)

    async def begin(self, key: str, task: str, **given: Any) -> Job:
        """Begin a job, and forget the oldest that are over."""
        over = [key, *(other for other, job in self._jobs.items() if job.over)]
        for old in over[: max(1, len(self._jobs) - MOST_JOBS)]:
            self._jobs.pop(old, None)
        job = self._jobs[key] = Job()
        work = asyncio.create_task(self._work(job, task, given))
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)
        return job

    async def _work(self, job: Job, task: str, given: Mapping[str, Any]) -> None:
        def tell(done: int) -> None:
            job.done = done

        try:
            job.found = await self.run(task, tell, **given)
        except (InputError, Refusal) as error:
            job.error = str(error)
        except Exception as error:  # whatever it is, the page must not wait for ever
            logs.fault("job", error)
            job.error = f"the computation failed; try it with: {BY_HAND}"
        finally:
            job.over = True

    async def run(self, task: str, tell: Callable[[int], None] = lambda done: None, /, **given: Any) -> Any:
        """Compute something, or refuse if that is impossible, takes too long, or too many wait for the same."""
        if self._waiting >= MOST_WAITING:
            raise Refusal(503, "too many plans are being computed at once; try again in a moment", retry_after=10)
        self._waiting += 1
        try:
            async with self._turn:
                said = await self._compute(pickle.dumps((task, given)), tell)
        finally:
            self._waiting -= 1
        try:
            reply = msgspec.json.decode(said)
        except msgspec.DecodeError:
            raise Refusal(500, f"the computation failed; try it with: {BY_HAND}") from None
        if "error" in reply:
            raise InputError(reply["error"])
        return reply["found"]

    async def _compute(self, given: bytes, tell: Callable[[int], None]) -> bytes:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __name__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # nothing of a pilot may get into a log
            limit=MOST_REPLY,
            env={**environment, "OMP_NUM_THREADS": "1"},
            preexec_fn=end_with_parent(signal.SIGKILL),  # otherwise a pilot could stay in memory without a service
        )
        try:
            async with asyncio.timeout(self._seconds):
                return await _last_line(process, given, tell)
        except TimeoutError:
            said = f"this takes longer than {self._seconds:g} s; use fewer decisions, or: {BY_HAND}"
            raise Refusal(422, said) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _last_line(process: asyncio.subprocess.Process, given: bytes, tell: Callable[[int], None]) -> bytes:
    """Hand a process its input, tell of the parts that it has done, and return its reply."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # it has ended, and its reply is missing
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()
    while (line := await process.stdout.readline()).startswith(DONE):
        tell(int(line[len(DONE) :]))
    return line


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
    roles: tuple[tuple[str, str], ...] = ()  # of the columns, in the order of the file; none of a wide table
    error: str = ""  # why it cannot be used; then there is no study file
    blamed: str = ""  # the field of the form that the error is about


def for_form(text: str) -> str:
    """Name fields of the form instead of options of the command line.

    >>> for_form("if only whole numbers make sense, add --integer seats")
    'if only whole numbers make sense, choose “whole numbers” for seats'
    >>> for_form("add --ignore region, or, if everything is decided, --parameter price --parameter region")
    'choose “leave out” for region, or, if everything is decided, “numbers” for price and region'
    """
    for said, instead in WORDS.items():
        text = text.replace(said, instead)
    text = text.replace("--reward-range :", f": under “{REWARD_RANGE.label}”").replace("--round-column", "--when")
    parts = re.findall(r"--parameter ([^\s;,]+)", text)
    text = re.sub(r"--parameter \S+( --parameter \S+)*", f"“numbers” for {' and '.join(parts)}", text)
    names = "|".join(ROLES)
    text = re.sub(rf"(?:add|with) --({names}) ", r"choose --\1 ", text)
    text = re.sub(rf"--({names}) ([^\s;,]+)", lambda it: f"“{ROLES[it[1]]}” for {it[2]}", text)
    return re.sub(rf"--({names})\b", lambda it: f"“{ROLES[it[1]]}”", text)


WORDS = {
    " (--values, --step, --points, --only or --allowed say otherwise)": "",
    "say which holds it: --person NAME and --reward NAME": "choose “people” and “answers” for those that hold it",
    "say which holds it: --person NAME": "choose “people” for the one that holds it",
    "say which holds it: --reward NAME": "choose “answers” for the one that holds it",
    "add --minimize if": "choose “minimize” if",
    "; --history estimates them": "; a history of the metric shows them",
    "say which is meant with --history-column": "write one under “Column of the history”",
    "add --reward-range : (no limits)": f"write : under “{REWARD_RANGE.label}” (no limits)",
}


def read(file: str, content: bytes, typed: Mapping[str, str], history: tuple[str, bytes] = ("", b"")) -> Pilot:
    """Read a pilot as the form says; what cannot be used is said together with how its columns are read so far."""
    path = Path(Path(file).name or "pilot.csv")
    said = {name.removeprefix(ROLE): role for name, role in typed.items() if name.startswith(ROLE)}
    try:
        names = read_table(path, {}, content).names
    except InputError:
        names = ()
    said = said if {*names} == {*said} else {}  # what is said about the columns of another file does not count
    options = {name: text for name, text in typed.items() if not name.startswith(ROLE)}
    try:
        return calibrated(file, content, options | _options_of(said), history)
    except InputError as error:
        guessed = tuple((name, said.get(name) or _role(name)) for name in names)
        about = [ROLE + name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error))]
        blamed = "history" if str(error).startswith(Path(history[0]).name or "\0") else next(iter(about), "pilot")
        return Pilot(path.name, "", (), (), (), (), "", roles=guessed, error=str(error), blamed=blamed)


def _options_of(roles: Mapping[str, str]) -> dict[str, str]:
    """Return what the roles of columns are as options of the command line."""
    made = {name: ", ".join(each for each, role in roles.items() if role == name) for name in ROLES}
    return made | {"parameter": ", ".join(each for each, role in roles.items() if role in DECIDED)} if roles else {}


def _role(name: str, space: Space | None = None, chosen: Roles | None = None) -> str:
    """Return what a column is taken for."""
    if (parameter := None if space is None else space.parameters.get(name)) is not None:
        logarithmic = isinstance(parameter, Float) and parameter.log
        return "log" if logarithmic else {Choice: "choice", Integer: "integer", Float: "number"}[type(parameter)]
    if chosen is not None and name in (chosen.person, chosen.reward, chosen.round):
        return {chosen.person: "person", chosen.reward: "reward", chosen.round: "when"}[name]
    known = {**SYNONYMS, "cost": "reward"}.get(name.lower(), "")
    return known or ("number" if space is None else "when" if round_among([name], ()) else "ignore")


def calibrated(file: str, content: bytes, typed: Mapping[str, str], history: tuple[str, bytes] = ("", b"")) -> Pilot:
    """Read and calibrate a pilot, perhaps with a history of the metric; refuse them in the words of the form."""
    try:
        return _calibrated(Path(Path(file).name or "pilot.csv"), content, typed, history)
    except InputError as error:
        raise InputError(for_form(str(error))) from None


def _calibrated(path: Path, content: bytes, typed: Mapping[str, str], history: tuple[str, bytes]) -> Pilot:
    if not content:
        raise InputError(f"{path} is empty; its first line names the columns: person, price, reward, rounds")
    person, reward, when = (_alone(typed, name) for name in ("person", "reward", "when"))
    ignored, choices = _names(typed, "ignore"), _names(typed, "choice")
    roles = Roles(_names(typed, "parameter"), ignored, choices, when, person, reward)
    menu = menu_of(int(typed["points"])) if typed.get("points") else Menu()
    ranges = Ranges(log=_names(typed, "log"), integer=_names(typed, "integer"), menu=menu)
    towards = Direction.MINIMIZE if typed.get("minimize") == Direction.MINIMIZE else Direction.MAXIMIZE
    table = read_pilot_table(path, roles=roles, ranges=ranges, direction=towards, content=content)
    horizon = int(typed.get("horizon") or HORIZON)
    names = read_table(path, {}, content).names
    shape = tuple((name, _role(name, table.space, roles)) for name in names)
    shown = None
    if any(history):
        name = Path(Path(history[0]).name or "history.csv")
        shown = read_history(name, typed.get("history_column") or None, history[1])
    elif typed.get("history_column"):
        raise InputError("“Column of the history” is about a history; choose its file, or leave it empty")
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
        shape if "reward" in [role for _, role in shape] else (),
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


def _names(typed: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Read a list of columns."""
    return tuple(part.strip() for part in typed.get(name, "").split(",") if part.strip())


def _alone(typed: Mapping[str, str], name: str) -> str | None:
    """Return the only column of a role; None if there is none."""
    found = _names(typed, name)
    if len(found) > 1:
        raise InputError(f"{' and '.join(found)} are both “{ROLES[name]}”; choose that for one column")
    return found[0] if found else None


@dataclass(frozen=True)
class PilotView:
    """The pilot of a study as a picture, and in numbers."""

    charts: tuple[Chart, ...]
    rows: tuple[tuple[str, str, str], ...]  # decision, average, and within what it is for certain; the first


MOST_ROWS = 12


def pilot_view(study: Definition) -> PilotView | None:
    """Draw what the people of a pilot answered along every numeric parameter; None without a pilot."""
    if not (problem := study.direction.problem(study.problem)).pilot:
        return None
    space = space_of(problem.decisions)
    told = defaultdict[str, Array](partial(np.zeros, 3))  # by decision: all answers, their variance, and how many
    for group in problem.pilot:
        counts = np.full(len(group.mean), group.people) if group.answers is None else group.answers
        spread = np.nan if group.variances is None else group.variances
        for point, *parts in zip(group.points, group.mean * counts, spread * counts, counts, strict=True):
            told[json.dumps(label_of(space, point))] += parts
    labels, sums = list(map(json.loads, told)), np.array(list(told.values()))  # (decisions, 3)
    mean, error = sums[:, 0] / sums[:, 2], 2 * np.sqrt(sums[:, 1]) / sums[:, 2]
    charts, apart = [], float(np.ptp(mean))
    for name, parameter in space.parameters.items():
        values = sorted({label[name] for label in labels})
        if isinstance(parameter, Choice) or len(values) < 2:
            continue
        same = [[at for at, label in enumerate(labels) if label[name] == value] for value in values]
        means = [float(np.average(mean[at], weights=sums[at, 2])) for at in same]
        errors = [float(np.sqrt((error[at] ** 2).sum()) / len(at)) for at in same]
        series = [
            Series.of("twice the error from", "likely", np.subtract(means, errors)),
            Series.of("to", "likely", np.add(means, errors)),
            Series.of("average of the pilot", "estimate", means),
        ]
        others = " (averages over the other parameters)" if len(space.parameters) > 1 else ""
        title = f"What people answered along {name}{others}"
        shown = tuple(series[2 * math.isnan(errors[0]) :])
        charts.append(Chart(title, name, "answer", tuple(map(float, values)), shown))
    order = np.argsort(-mean, kind="stable")[:MOST_ROWS].tolist()
    rows = tuple(
        (describe(labels[at]), number(mean[at], apart), "–" if math.isnan(error[at]) else number(error[at], apart))
        for at in order
    )
    return PilotView(tuple(charts), rows)


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


def prices(
    tables: Mapping[str, Any],
    promises: Sequence[Promise],
    most: int,
    seconds: float,
    tell: Callable[[int], None] = lambda done: None,
) -> tuple[Price, ...]:
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
        tell(runs)
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
    means = fmean(people), fmean(waves), fmean(lost), max(lost), fmean(not_asking), fmean(rounds)
    return Price(label, len(found), *means)


# -- the process


def begin(definition: Mapping[str, Any]) -> str:
    """Find why a study would end before anyone is asked; empty if it would not."""
    study = Definition.decode(definition)
    first = next_wave(study.problem, study.policy, study.privacy, study.policy.init(study.problem))
    return first.reason if isinstance(first, End) else ""


def _tell(done: int) -> None:
    """Tell the service how many parts of a computation are done."""
    sys.stdout.buffer.write(DONE + str(done).encode() + b"\n")
    sys.stdout.buffer.flush()


def report(course: Course) -> str:
    """Make the page about a study."""
    from voxpop.report.page import render  # which needs what draws pictures

    return render(course)


TASKS: dict[str, Callable[..., Any]] = {
    "read": read,
    "rehearse": partial(prices, tell=_tell),
    "begin": begin,
    "report": report,
}


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

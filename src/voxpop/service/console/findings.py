"""What a study has found, as its page shows it: estimates of its decisions, its waves, what it promised, and its log.

Estimates are charts along parameters, a map, and a list with bars. Which of these a study gets follows from its
decisions (`report/view.py`), as in its report: one number is drawn as a line with its bands; two numbers as a map;
several are drawn one by one, through the chosen decision. Every study has the list of the decisions that can still be
best. Charts are plain data, which the page's script hands to uPlot; what they show is also in a table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from voxpop.errors import Array
from voxpop.io.schema import decode
from voxpop.journal.journal import Course, Known
from voxpop.journal.tables import decision_rows
from voxpop.journal.wave import ClosedWave
from voxpop.model.problem import Indices
from voxpop.model.waves import Plan
from voxpop.model.words import certified, counted, number
from voxpop.privacy import Entry
from voxpop.report.summary import Line, headline, summarise
from voxpop.report.tables import WaveTable, wave_table
from voxpop.report.view import AHEAD, ANSWERS, TRYING, Column, Ends, View, window
from voxpop.service.study.log import Record
from voxpop.service.study.stages import Kind

DIGITS = 6  # of numbers in charts: finer than any screen
MOST_RAW = 2_000  # characters of an event that are part of the page
MOST_POINTS = 300  # along a line
MOST_LISTED = 6  # decisions
MOST_CELLS = 28  # along each side of a map
LEVELS = 9  # colours of a map
FEWEST = 3  # points that make a line

Role = Literal["certified", "likely", "estimate", "pilot", "answers", "chosen", "loss"]  # says how it is drawn


@dataclass(frozen=True)
class Series:
    """One line, or the dots, or one edge of a band: two neighbours with the same role are a band."""

    label: str
    role: Role
    values: tuple[float | None, ...]

    @classmethod
    def of(cls, label: str, role: Role, values: Iterable[float | None]) -> Series:
        """Make a series; what is not finite is a gap."""
        return cls(label, role, tuple(map(_plain, values)))


@dataclass(frozen=True)
class Chart:
    """Some series over a common axis."""

    title: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    series: tuple[Series, ...]
    logarithmic: bool = False  # the axis below


@dataclass(frozen=True)
class Bar:
    """A decision in the list: what is known of it, and where its bars lie, from 0 to 100."""

    name: str
    known: Mapping[str, Any]  # a row of the table of decisions
    estimate_at: float
    likely: tuple[float, float]
    likely_at: tuple[float, float]
    certified_at: tuple[float, float] | None  # None: nothing is certified


@dataclass(frozen=True)
class Cost:
    """A bar of what something costs: its parts by their style, where they begin and how long they are, of 100."""

    name: str
    total: float
    parts: tuple[tuple[str, str, float, float, float], ...]  # style, name, amount, beginning, length
    cut: bool  # it is far longer


STYLES = {ANSWERS: "answers", TRYING: "trying", AHEAD: "ahead"}


def _costs(view: View) -> tuple[Cost, ...]:
    """Draw what the study costs beside what not asking would, as the report does."""
    (rows, end), made = view.costs, list[Cost]()
    for row in rows:
        lefts = accumulate((value for _, value in row.parts), initial=0.0)
        parts = tuple(
            (STYLES.get(name, "lost"), name, value, 100 * left / end, 100 * max(0.0, min(value, end - left)) / end)
            for (name, value), left in zip(row.parts, lefts, strict=False)
        )
        made.append(Cost(row.name, row.total, parts, row.total > end))
    return tuple(made)


@dataclass(frozen=True)
class Map:
    """The estimates of decisions with two numbers, as levels from 0 to 8, from the top left."""

    x_label: str
    y_label: str
    x_ends: tuple[str, str]
    y_ends: tuple[str, str]
    rows: tuple[tuple[int, ...], ...]
    chosen: tuple[int, int]  # column and row
    least: str
    most: str


def _charts(view: View) -> tuple[Chart, ...]:
    """Draw the estimate along every parameter with enough numbers, if anybody has answered."""
    columns = view.layout.varied if view.informed else ()
    return tuple(_along(view, column) for column in columns if len(_slice(view, column)) >= FEWEST)


def _slice(view: View, column: Column) -> Indices:
    """Return the decisions that differ from the chosen one in this parameter only, in its order; none for words."""
    if not column.numeric:
        return np.empty(0, dtype=np.intp)
    best = view.answer.index
    found = view.layout.along(best, column)
    if len(found) <= MOST_POINTS:
        return found
    kept = np.unique(np.linspace(0, len(found) - 1, MOST_POINTS).astype(int))
    return np.asarray(found[np.union1d(kept, np.flatnonzero(found == best))])


def _along(view: View, column: Column) -> Chart:
    """Draw the estimate along one parameter, with its bands and what people answered there."""
    course, at, best = view.course, _slice(view, column), view.answer.index
    estimate, answers = course.direction.turn(view.estimate()), _answers(course)[at]
    bands: list[tuple[Role, Ends | None]] = [("certified", view.bounds()), ("likely", view.likely())]
    series = [
        Series.of(f"{role} {end}", role, edge[at])
        for role, ends in bands
        if ends is not None and np.isfinite(ends[0][at]).any()
        for end, edge in zip(("from", "to"), course.direction.bounds(*ends), strict=True)
    ]
    series.append(Series.of("estimate", "estimate", estimate[at]))
    series.append(Series.of("chosen", "chosen", np.where(at == best, estimate[at], np.nan)))
    if not np.isnan(answers).all():
        series.append(Series.of("answers", "answers", answers))
    fixed = [other for other in view.layout.varied if other is not column]
    others = ", ".join(f"{other.name} = {other.write(other.values[best])}" for other in fixed)
    title = f"{course.reward} along {column.name}" + (f", at {others}" if others else "")
    places = tuple(column.places[at].tolist())
    return Chart(title, column.name, course.reward, places, tuple(series), column.logarithmic)


def _answers(course: Course) -> Array:
    """Return the average of what people have answered about each decision; nan where nobody has."""
    people, total = np.zeros(course.problem.size), np.zeros(course.problem.size)
    for wave in course.closed:
        people[wave.plan.arms] += wave.people
        total[wave.plan.arms] += wave.people * course.direction.turn(wave.objective.mean)
    return np.asarray(np.divide(total, people, out=np.full(len(people), np.nan), where=people > 0))


def _map(view: View) -> Map | None:
    """Colour every place of a map like the decision that is nearest to it; None if there is no map to draw."""
    if not view.informed or view.layout.kind != "map":
        return None
    from scipy.spatial import cKDTree

    x, y = view.layout.varied
    estimate = view.course.direction.turn(view.estimate())
    across, down = (min(MOST_CELLS, len(column.options)) for column in (x, y))
    known = np.column_stack([x.shares, y.shares])
    grid = np.stack(np.meshgrid(np.linspace(0, 1, across), np.linspace(1, 0, down)), axis=-1).reshape(-1, 2)
    values = estimate[cKDTree(known).query(grid)[1]]
    least, most = float(np.nanmin(estimate)), float(np.nanmax(estimate))
    levels = np.nan_to_num((values - least) / ((most - least) or 1.0)) * (LEVELS - 1)
    rows = np.rint(levels).astype(int).reshape(down, across)
    share_x, share_y = known[view.answer.index]
    chosen = round(share_x * (across - 1)), round((1 - share_y) * (down - 1))
    ends = [(column.write(column.options[0]), column.write(column.options[-1])) for column in (x, y)]
    cells = tuple(tuple(row) for row in rows.tolist())
    return Map(x.name, y.name, ends[0], ends[1], cells, chosen, number(least), number(most))


def _bars(view: View) -> tuple[Bar, ...]:
    """List the decisions that can still be best, the chosen one first and then by their estimates.

    The bars show all estimates and likely ranges, and the certified bounds of the first.
    """
    course, state = view.course, view.course.state
    order = np.lexsort([-state.centre[state.active], state.active != view.answer.index])
    shown = state.active[order][:MOST_LISTED].tolist()
    rows = decision_rows(course, shown)
    estimate = course.estimates[shown]
    known = view.likely() or (view.estimate(), view.estimate())
    likely, certified = ([end[shown] for end in course.direction.bounds(*ends)] for ends in (known, view.bounds()))
    left, right = window([estimate, *likely, *(end[:1] for end in certified)], share=1e-6)  # hardly any room

    def place(value: float) -> float:
        return round(100 * min(max((value - left) / (right - left), 0.0), 1.0), 1)

    return tuple(
        Bar(
            view.layout.name(index),
            row,
            place(row["estimate"]),
            (likely[0][at], likely[1][at]),
            (place(likely[0][at]), place(likely[1][at])),
            None if row["low"] is None else (place(row["low"]), place(row["high"])),
        )
        for at, (index, row) in enumerate(zip(shown, rows, strict=True))
    )


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")


def _known(name: str, view: View, then: Known) -> tuple[str, str, str, str]:
    loss = "–" if then.expected_loss is None else view.said(then.expected_loss)
    noun = "decision that keeps the guardrails" if view.course.problem.guardrails else ""
    return name, view.layout.name(then.best), certified(then.certified, then.left == 1, noun=noun), loss


def _waves_chart(course: Course) -> Chart | None:
    """Draw what was certified and what was expected after each wave; None before there is a line to draw."""
    known = course.known
    if len(known) < 2 or not any(math.isfinite(then.certified) for then in known):
        return None
    series = [Series.of("certified: nothing is better by more", "certified", (then.certified for then in known))]
    if known[-1].expected_loss is not None:
        series.append(Series.of("expected loss per round", "loss", (then.expected_loss for then in known)))
    title = "What may still be lost per round, after each wave"
    return Chart(title, "wave", course.reward, tuple(map(float, range(len(known)))), tuple(series))


@dataclass(frozen=True)
class Promise:
    """What everybody was promised, and what was released about them so far."""

    promised: str  # one sentence
    exposed: str  # one sentence without its end, about the most exposed person
    releases: tuple[Entry, ...]
    caveats: tuple[str, ...]


def promise_of(course: Course) -> Promise | None:
    """Say what was released about people; None if nothing is promised to them."""
    budget, trust = course.ledger.budget, course.privacy.describe()
    if budget is None:
        return None
    often = "once" if budget.participations == 1 else f"at most {budget.participations} times"
    promised = (
        f"Everyone takes part {often} and is promised ({budget.epsilon:g}, {budget.delta:g})-differential privacy for "
        f"the whole study, in the {trust['privacy']} model."
    )
    return Promise(promised, str(course.ledger), tuple(course.ledger.entries), tuple(trust["caveats"]))


@dataclass(frozen=True)
class LogEntry:
    """An event of the log: when, what, and the beginning of how it is stored."""

    seq: int
    at: float
    words: str
    raw: str
    whole: bool  # False: the raw text goes on


def log_of(course: Course, events: Sequence[Record]) -> tuple[LogEntry, ...]:
    """Say what the events of a log are, the newest first; `course` is what follows from them."""
    closed, entries = {wave.plan.wave: wave for wave in course.closed}, []
    for event in reversed(events):
        raw = json.dumps(event.body, indent=1, ensure_ascii=False)
        words = _words(event, closed, course.early)
        entries.append(LogEntry(event.seq, event.at, words, raw[:MOST_RAW], len(raw) <= MOST_RAW))
    return tuple(entries)


def _words(event: Record, closed: Mapping[int, ClosedWave], early: bool) -> str:
    wave = (event.seq + 1) // 2  # a log is created, opened, closed, opened, closed, ..., finished
    if event.kind == Kind.CREATED:
        return "The study was created."
    if event.kind == Kind.FINISHED:
        reason = event.body.get("reason") or "no further wave is planned"
        return "An operator ended the study." if early else f"The study finished: {reason}."
    if event.kind == Kind.OPENED:
        plan = decode(Plan, event.body["plan"])
        asked = f"{counted(plan.people, 'person', 'people')} about {counted(len(plan.arms), 'decision')}"
        return f"Wave {wave} was planned: it asks {asked}, after {counted(plan.asked, 'round')}."
    done = closed[wave]
    left, people = counted(done.info.active_after, "decision"), counted(done.people, "person", "people")
    warning = f" Model check: {done.info.warning}" if done.info.warning else ""
    return f"Wave {wave} was released: {people} answered, and {left} can still be best.{warning}"


@dataclass(frozen=True, eq=False)
class Findings:
    """What follows from the log alone."""

    view: View
    headline: str  # for whoever has ten seconds
    lines: list[Line]
    costs: tuple[Cost, ...]
    charts: tuple[Chart, ...]
    map: Map | None
    bars: tuple[Bar, ...]
    asked: WaveTable  # the waves, and what was expected of them
    known: tuple[tuple[str, str, str, str], ...]  # after each wave: its name, the choice, what is certified, the loss
    waves_chart: Chart | None
    promise: Promise | None
    log: tuple[LogEntry, ...]


def findings_of(course: Course, events: Sequence[Record]) -> Findings:
    """Say what a study has found; `events` are those of its log, from which its course follows."""
    lines, view = summarise(course), View(course)
    names = ["before", *(f"wave {wave.plan.wave}" for wave in course.closed)]
    return Findings(
        view,
        headline(course),
        [line for line in lines if line.name != "Model check"],
        _costs(view),
        _charts(view),
        _map(view),
        _bars(view),
        wave_table(course),
        tuple(_known(name, view, then) for name, then in zip(names, course.known, strict=True)),
        _waves_chart(course),
        promise_of(course),
        log_of(course, events),
    )

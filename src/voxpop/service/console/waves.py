"""A study wave by wave: what was known after each, what it cost those who were asked, and the log in words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from voxpop.io.schema import decode
from voxpop.journal.journal import Known
from voxpop.journal.wave import ClosedWave
from voxpop.model.waves import Plan
from voxpop.model.words import certified, counted, number
from voxpop.privacy import Entry
from voxpop.report.decisions import Layout
from voxpop.report.waves import WaveTable, wave_table
from voxpop.service.console.estimates import Chart, Series
from voxpop.service.study.log import Record, Snapshot
from voxpop.service.study.stages import Kind

MOST_RAW = 2_000  # characters of an event that are part of the page


@dataclass(frozen=True)
class Waves:
    """All waves so far."""

    checked: bool  # the policy compares answers with its model
    asked: WaveTable  # and what was expected of it
    known: tuple[tuple[str, str, str, str], ...]  # after each: its name, the choice, what is certified, the loss
    chart: Chart | None


def waves_of(snapshot: Snapshot) -> Waves:
    """List the waves of a study."""
    course, standings = snapshot, snapshot.known
    layout = Layout(course.problem)
    names = ["before", *(f"wave {wave.plan.wave}" for wave in snapshot.closed)]
    known = tuple(_known(name, layout, standing) for name, standing in zip(names, standings, strict=True))
    return Waves(course.policy.name == "waves", wave_table(course), known, _chart(snapshot))


def _known(name: str, layout: Layout, standing: Known) -> tuple[str, str, str, str]:
    loss = "–" if standing.expected_loss is None else number(standing.expected_loss)
    return name, layout.name(standing.best), certified(standing.certified, standing.left == 1), loss


def _chart(snapshot: Snapshot) -> Chart | None:
    """Draw what was certified and what was expected after each wave; None before there is a line to draw."""
    standings = snapshot.known
    if len(standings) < 2 or not any(math.isfinite(standing.certified) for standing in standings):
        return None
    series = [Series.of("certified: nothing is better by more", "certified", (each.certified for each in standings))]
    if standings[-1].expected_loss is not None:
        series.append(Series.of("expected loss per round", "loss", (each.expected_loss for each in standings)))
    title = "What may still be lost per round, after each wave"
    places = tuple(float(place) for place in range(len(standings)))
    return Chart(title, "wave", snapshot.definition.reward, places, tuple(series))


@dataclass(frozen=True)
class Promise:
    """What everybody was promised, and what was released about them so far."""

    promised: str  # one sentence
    exposed: str  # one sentence, about the most exposed person
    releases: tuple[Entry, ...]
    caveats: tuple[str, ...]


def promise_of(snapshot: Snapshot) -> Promise | None:
    """Say what was released about people; None if nothing is promised to them."""
    budget, trust = snapshot.ledger.budget, snapshot.definition.privacy.describe()
    if budget is None:
        return None
    often = "once" if budget.participations == 1 else f"at most {budget.participations} times"
    promised = (
        f"Everyone takes part {often} and is promised ({budget.epsilon:g}, {budget.delta:g})-differential privacy for "
        f"the whole study, in the {trust['privacy']} model."
    )
    totals = snapshot.ledger.totals(budget.delta)
    exposed = f"The most exposed person is exposed to epsilon {number(totals['epsilon'] or 0.0)} of {budget.epsilon:g}."
    if not totals["releases"]:
        exposed = "Nothing was released so far."
    elif totals["epsilon"] is None:
        exposed = "The most exposed person is exposed without limit."
    return Promise(promised, exposed, tuple(snapshot.ledger.entries), tuple(trust["caveats"]))


@dataclass(frozen=True)
class LogEntry:
    """An event of the log: when, what, and the beginning of how it is stored."""

    seq: int
    at: float
    words: str
    raw: str
    whole: bool  # False: the raw text goes on


def log_of(snapshot: Snapshot, events: Sequence[Record]) -> tuple[LogEntry, ...]:
    """Say what the events of a log are, the newest first; `snapshot` is what follows from them."""
    closed, entries = {wave.plan.wave: wave for wave in snapshot.closed}, []
    for event in reversed(events):
        raw = json.dumps(event.body, indent=1, ensure_ascii=False)
        words = _words(event, closed, snapshot.early)
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

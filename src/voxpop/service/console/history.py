"""A study wave by wave: what was asked, what was known afterwards, and what it cost those who were asked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from voxpop.model.words import certified
from voxpop.report.decisions import Layout
from voxpop.report.summary import number
from voxpop.report.waves import wave_table
from voxpop.service.console.charts import Chart, Series
from voxpop.service.console.words import in_waves
from voxpop.service.study.snapshot import Snapshot, Standing


@dataclass(frozen=True)
class WaveRow:
    """What was known after a wave, or before the first one."""

    name: str  # "wave 2", or "before"
    chosen: str
    certified: str
    expected_loss: str


@dataclass(frozen=True)
class History:
    """All waves so far."""

    checked: bool  # the policy compares answers with its model
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # what was asked, and what was expected of it
    notes: tuple[str, ...]
    waves: tuple[WaveRow, ...]
    chart: Chart | None


@dataclass(frozen=True)
class Charge:
    """What the release of a wave cost a person who was in it."""

    wave: int
    people: int
    epsilon: str
    delta: str
    protected: str  # by what


@dataclass(frozen=True)
class Ledger:
    """What everybody was promised, and what the most exposed person was exposed to so far."""

    model: str
    promised: str  # one sentence
    exposed: str  # one sentence
    charges: tuple[Charge, ...]
    caveats: tuple[str, ...]


def history_of(snapshot: Snapshot) -> History:
    """List the waves of a study."""
    course = snapshot.course
    table, layout = wave_table(course), Layout(course.problem)
    names = ["before", *(f"wave {wave.plan.wave}" for wave in snapshot.closed)]
    told = list(zip(names, snapshot.standings, strict=True))
    waves = tuple(_wave(name, layout, standing) for name, standing in told)
    headings, notes = tuple(map(in_waves, table.headings)), tuple(map(in_waves, table.notes))
    return History(course.policy.name == "waves", headings, tuple(table.rows), notes, waves, _chart(snapshot))


def _wave(name: str, layout: Layout, standing: Standing) -> WaveRow:
    loss = standing.expected_loss
    proved = certified(standing.certified, standing.left == 1)
    return WaveRow(name, layout.name(standing.best), proved, "" if loss is None else number(loss))


def _chart(snapshot: Snapshot) -> Chart | None:
    """Draw what was certified and what was expected after each wave; None before there is a line to draw."""
    standings = snapshot.standings
    if len(standings) < 2 or not any(math.isfinite(standing.certified) for standing in standings):
        return None
    series = [Series.of("certified: nothing is better by more", "certified", (each.certified for each in standings))]
    if standings[-1].expected_loss is not None:
        series.append(Series.of("expected loss per round", "loss", (each.expected_loss for each in standings)))
    title = "What may still be lost per round, after each wave"
    places = tuple(float(place) for place in range(len(standings)))
    return Chart(title, "wave", snapshot.definition.reward, places, tuple(series))


def ledger_of(snapshot: Snapshot) -> Ledger | None:
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
    spent = totals["epsilon"]
    if not totals["releases"]:
        exposed = "Nothing was released so far."
    elif spent is None:
        exposed = "The most exposed person is exposed without limit."
    else:
        exposed = f"The most exposed person is exposed to epsilon {spent:.3g} of {budget.epsilon:g}."
    charges = tuple(
        Charge(
            entry.wave,
            entry.people,
            f"{entry.epsilon:.3g}" if entry.private else "no limit",
            f"{entry.delta:.3g}",
            "Gaussian noise" if entry.multiplier is not None else "noise of all devices together",
        )
        for entry in snapshot.ledger.entries
    )
    return Ledger(str(trust["privacy"]), promised, exposed, charges, tuple(trust["caveats"]))

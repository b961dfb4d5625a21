"""Gauges of all studies for Prometheus, from a constant number of queries and at most once in a few seconds.

They carry the names of studies, and are therefore only for those who may see the studies: operators, and the viewers of
one study. Nothing in them is about a person.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from voxpop.service.operators import Principal
from voxpop.service.refusals import Refusal
from voxpop.service.study import overview
from voxpop.service.study.context import Context
from voxpop.service.study.log import Snapshot
from voxpop.service.study.overview import Glance
from voxpop.service.study.stages import Life, Stage, time_of

SHARED_SECONDS = 5.0  # for which a look at the studies holds
GAUGES = {  # each with the label `study`
    "stage": "1, with the stage of the study and what operators want of it as labels",
    "wave": "The wave that is under way, or the last one",
    "registered": "People who are registered",
    "withdrawn": "People who have withdrawn",
    "people_needed": "People whose reports the open wave needs",
    "people_missing": "People who must still register before the wave can go on",
    "asked": "Invitations of the wave, also those in place of others",
    "answered": "Reports of the wave that were counted",
    "lapsed": "Invitations of the wave that ended without an answer",
    "refused": "Reports of the wave with a valid token that were not counted",
    "seconds_left": "Seconds until the last invitation of the wave ends; below 0 if its end is overdue",
    "budget_spent_ratio": "What the most exposed person has spent, as a share of the privacy budget",
    "model_warning": "1 if the model check found something in a study that goes on, 0 if not",
}
Sample = tuple[str, dict[str, str], float]  # the name of a gauge, labels besides the study, and the value


@dataclass
class StudyMetrics:
    """The gauges of all studies, as of a few seconds ago."""

    context: Context
    clock: Callable[[], float] = time.monotonic
    _samples: dict[str, list[Sample]] = field(default_factory=dict)  # by study
    _until: float = 0.0  # the samples hold
    _spent: dict[str, tuple[int, float]] = field(default_factory=dict)  # by study: closed waves, and the share then
    _lock: Lock = field(default_factory=Lock)

    def text(self, principal: Principal) -> bytes:
        """Return the gauges of the studies that somebody may see, as Prometheus reads them."""
        seen = {study: samples for study, samples in self._look().items() if principal.sees(study)}
        return bytes(generate_latest(_Families(seen)))

    def _look(self) -> dict[str, list[Sample]]:
        with self._lock:
            if self.clock() >= self._until:
                found = overview.look(self.context)
                self._samples = {glance.study: list(self._samples_of(glance)) for glance in found}
                self._spent = {study: spent for study, spent in self._spent.items() if study in self._samples}
                self._until = self.clock() + SHARED_SECONDS
            return self._samples

    def _samples_of(self, glance: Glance) -> Iterable[Sample]:
        yield "stage", {"stage": glance.stage, "life": glance.life}, 1
        yield "registered", {}, glance.registered
        yield "withdrawn", {}, glance.withdrawn
        if glance.life == Life.DRAFT:
            return
        yield "wave", {}, glance.wave
        for name in ("asked", "answered", "lapsed", "refused"):
            yield name, {}, getattr(glance.funnel, name)
        if glance.closes_at is not None:
            yield "seconds_left", {}, glance.closes_at - time_of(glance, self.context.clock())
        try:
            snapshot = self.context.snapshots.known(glance.study) or self.context.snapshots.current(glance.study)
        except Refusal:  # deleted meanwhile
            return
        needed = 0 if glance.summary is None else glance.summary.people
        yield "people_needed", {}, needed
        yield "people_missing", {}, _missing(glance, snapshot, needed)
        if glance.summary is not None:
            # Of a study that is over, nobody can do anything about it: an alert would never end.
            yield "model_warning", {}, bool(glance.summary.warning) and glance.stage != Stage.FINISHED
        if snapshot.ledger.budget is not None:
            yield "budget_spent_ratio", {}, self._share(glance.study, snapshot)

    def _share(self, study: str, snapshot: Snapshot) -> float:
        """Compute the share of the budget that is spent; composing releases takes a while, so it is kept."""
        budget, closed = snapshot.ledger.budget, len(snapshot.closed)
        assert budget is not None
        if self._spent.get(study, (-1, 0.0))[0] != closed:
            spent = snapshot.ledger.totals(budget.delta)["epsilon"]
            self._spent[study] = closed, float("inf") if spent is None else spent / budget.epsilon
        return self._spent[study][1]


def _missing(glance: Glance, snapshot: Snapshot, needed: int) -> int:
    """Return how many people must register before the wave can go on."""
    if glance.short or glance.begun or glance.stage != Stage.OPEN:
        return glance.short
    once = snapshot.definition.rules.participations == 1
    return max(0, needed - (glance.never_asked if once else glance.registered))


@dataclass(frozen=True)
class _Families:
    """Samples in the form that the metrics library writes."""

    samples: dict[str, list[Sample]]

    def collect(self) -> Iterable[Metric]:
        """Return one family for each gauge that has a value."""
        found: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name in GAUGES}
        for study, samples in self.samples.items():
            for name, labels, value in samples:
                found[name].append(({"study": study, **labels}, value))
        for name, rows in found.items():
            if rows:
                yield _family(name, rows)


def _family(name: str, rows: list[tuple[dict[str, str], float]]) -> Any:
    family = GaugeMetricFamily(f"voxpop_study_{name}", GAUGES[name], labels=list(rows[0][0]))
    for labels, value in rows:
        family.add_metric(list(labels.values()), value)
    return family

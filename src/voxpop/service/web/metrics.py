"""Metrics and logs: what a service counts of its requests, which anyone may read, and gauges of its studies.

The gauges carry the names of studies, and are therefore only for those who may see the studies: operators, and the
viewers of one study. Nothing in them is about a person. They take a constant number of queries, at most once in a few
seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from voxpop import __version__
from voxpop.service.operators import Principal
from voxpop.service.refusals import Refusal
from voxpop.service.study import overview
from voxpop.service.study.log import Context, Snapshot
from voxpop.service.study.overview import Glance
from voxpop.service.study.stages import Life, Stage, time_of

METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH")
SHARED = "PROMETHEUS_MULTIPROC_DIR"  # the variable that makes the metrics library count in files of a folder
SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)  # bounds of the histogram

Sample = tuple[str, dict[str, str], float]  # the name of a gauge, its labels, and the value

SERVICE_GAUGES = {  # of this process, when it is asked
    "voxpop_build_info": "Which voxpop this is",
    "voxpop_database_up": "1 if a small write reached the database, 0 if not",
    "voxpop_scheduler_lag_seconds": "Seconds since studies were last looked at; it grows if something is stuck",
}


@dataclass(frozen=True, eq=False)
class Gauges(Collector):
    """Gauges whose values are asked for when metrics are read."""

    about: Mapping[str, str]  # by name
    samples: Callable[[], Iterable[Sample]]
    prefix: str = ""  # of the names

    def collect(self) -> Iterable[Metric]:
        """Return one family for each gauge that has a value."""
        found: dict[str, GaugeMetricFamily] = {}
        for name, labels, value in self.samples():
            if name not in found:
                found[name] = GaugeMetricFamily(self.prefix + name, self.about[name], labels=list(labels))
            found[name].add_metric(list(labels.values()), value)
        return found.values()


class Telemetry:
    """Prometheus metrics of one service, and a log line for every request."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        if SHARED in os.environ:  # one of several workers: when asked, it adds up what all of them have counted
            MultiProcessCollector(self.registry)  # type: ignore[no-untyped-call]
            registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("voxpop_requests", "Requests answered", labels, registry=registry)
        self._seconds = Histogram(
            "voxpop_request_seconds", "Time to answer", ("route",), buckets=SECONDS, registry=registry
        )
        self.refused = Counter("voxpop_connections_refused", "Connections beyond the limits", registry=registry)
        self.reports = Counter("voxpop_reports", "Reports counted", registry=registry)
        self.events = Counter("voxpop_events", "Events of studies", ("kind",), registry=registry)
        self.database_up = True  # as of the last look
        self.lag: Callable[[], float] | None = None  # of the scheduler, if there is one
        self.registry.register(Gauges(SERVICE_GAUGES, self._gauges))
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}  # looking up labels is slow
        self._log = structlog.get_logger().bind()

    def _gauges(self) -> Iterable[Sample]:
        yield "voxpop_build_info", {"version": __version__}, 1.0
        yield "voxpop_database_up", {}, float(self.database_up)
        if self.lag is not None:
            yield "voxpop_scheduler_lag_seconds", {}, self.lag()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count and log a request. `route` is the pattern of the route, because an address may contain secrets."""
        method = method if method in METHODS else "other"
        key = method, route, status
        if key not in self._known:
            self._known[key] = self._requests.labels(method, route, str(status)), self._seconds.labels(route)
        requests, histogram = self._known[key]
        requests.inc()
        histogram.observe(seconds)
        log = self._log.debug if status < 400 else self._log.info
        log("request", method=method, route=route, status=status, seconds=round(seconds, 4))


SHARED_SECONDS = 5.0  # for which a look at the studies holds
STUDY_GAUGES = {  # each with the label `study`
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
        every = [(name, {"study": study} | labels, value) for study in seen for name, labels, value in seen[study]]
        return bytes(generate_latest(Gauges(STUDY_GAUGES, lambda: every, "voxpop_study_")))

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

"""Metrics and logs of a service; no label reveals anything about a study or a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from voxpop import __version__

METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH")
SHARED = "PROMETHEUS_MULTIPROC_DIR"  # the variable that makes the metrics library count in files of a folder
SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)  # bounds of the histogram

GAUGES = {  # of this process, when it is asked
    "voxpop_database_up": "1 if a small write reached the database, 0 if not",
    "voxpop_scheduler_lag_seconds": "Seconds since studies were last looked at; it grows if something is stuck",
}


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
        self.registry.register(_Build())
        self.observe(lambda: {"voxpop_database_up": float(self.database_up)})
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}  # looking up labels is slow
        self._log = structlog.get_logger().bind()

    def observe(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        """Ask for the values of some of the gauges in `GAUGES` whenever metrics are read."""
        self.registry.register(_Gauges(gauges))

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


@dataclass(frozen=True)
class _Gauges(Collector):
    """Gauges whose values are asked for when metrics are read."""

    values: Callable[[], Mapping[str, float]]

    def collect(self) -> Iterator[Metric]:
        for name, value in self.values().items():
            yield GaugeMetricFamily(name, GAUGES[name], value=value)


class _Build(Collector):
    """Which voxpop this is."""

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("voxpop_build", "Which voxpop this is", value={"version": __version__})

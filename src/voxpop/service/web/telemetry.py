"""Metrics and logs of a service's requests; no label reveals anything about a study or a person."""

from __future__ import annotations

import os

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH")
SHARED = "PROMETHEUS_MULTIPROC_DIR"  # the variable that makes the metrics library count in files of a folder
SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)  # bounds of the histogram


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
        self.reports = Counter("voxpop_reports", "Reports counted", registry=registry)
        self.events = Counter("voxpop_events", "Events of studies", ("kind",), registry=registry)
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}  # looking up labels is slow
        self._log = structlog.get_logger().bind()

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

"""Structured logs: one JSON object per line on standard error, without any key, token or report."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import structlog

from voxpop.errors import require_choice
from voxpop.service.stores.database import cause

MOST = 10  # lines of a kind in each period
PERIOD = 60.0  # seconds
# What is repeated for as long as its cause lasts. Errors are limited too; what happens to a study never is.
REPEATED = ("request", "library", "no_shuffler", "not_announced", "not_taken", "clock_back", "restored")
WARNINGS = ("clock_back", "restored", "not_verified", "not_sealed", "voided")  # events that an operator should look at
KIND = ("event", "service", "study", "method", "route", "status", "error", "cause", "logger", "line")  # of a line

Line = MutableMapping[str, Any]
recent: deque[tuple[float, str, str, str]] = deque(maxlen=10)  # the last faults: when, of what, their cause and study


@dataclass
class _Window:
    start: float
    lines: int = 0
    suppressed: int = 0


class LogLimit:
    """A processor for structlog that drops what was said often enough, and says later how much it dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._windows: dict[tuple[Any, ...], _Window] = {}
        self._next = 0.0  # when to look for kinds that have fallen silent

    def __call__(self, logger: Any, method: str, line: Line) -> Line:
        for summary in self._summaries():
            structlog.get_logger().warning("suppressed", of=summary.pop("event"), **summary)
        if line["level"] == "debug" or (line["level"] != "error" and line["event"] not in REPEATED):
            return line
        kind, now = tuple(line.get(name) for name in KIND), self._clock()
        with self._lock:
            window = self._windows.setdefault(kind, _Window(now))
            if window.lines < MOST:
                window.lines += 1
                return line
            window.suppressed += 1
        raise structlog.DropEvent

    def _summaries(self) -> list[dict[str, Any]]:
        """Forget the kinds whose period is over, and return what was dropped of each."""
        now = self._clock()
        with self._lock:
            if now < self._next:
                return []
            over = [kind for kind, window in self._windows.items() if now - window.start >= PERIOD]
            dropped = {kind: self._windows.pop(kind).suppressed for kind in over}
            self._next = min((window.start for window in self._windows.values()), default=now) + PERIOD
        named = [dict(zip((*KIND, "count"), (*kind, count), strict=True)) for kind, count in dropped.items() if count]
        return [{name: value for name, value in kind.items() if value is not None} for kind in named]


LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _LibraryHandler(logging.Handler):
    """Logs the source and level of a library's message, but not its text, which may quote anything."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().log(record.levelno, "library", logger=record.name, line=record.lineno)


def set_up(level: str = "info") -> None:
    """Send every log line of the process through one format."""
    threshold = LEVELS[require_choice("log level", level, LEVELS)]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            LogLimit(),
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.root.handlers[:] = [_LibraryHandler()]
    logging.root.setLevel(max(threshold, logging.WARNING))


def event_logger(service: str) -> Callable[..., None]:
    """Return a function that logs an event of a service: its kind, and named values."""
    bound = structlog.get_logger().bind(service=service)

    def note(kind: str, **values: Any) -> None:
        (bound.warning if kind in WARNINGS else bound.info)(kind, **values)

    return note


def warn(event: str, **values: Any) -> None:
    """Log what an operator should change."""
    structlog.get_logger().warning(event, **values)


def fault(event: str, error: BaseException, **values: Any) -> None:
    """Log an unexpected error by its type, cause and place: its message may quote what must not be logged."""
    recent.appendleft((time.time(), event, cause(error), str(values.get("study", ""))))
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames[-6:]]
    structlog.get_logger().error(event, error=type(error).__name__, cause=cause(error), places=places, **values)

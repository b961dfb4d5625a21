"""Structured logs: one JSON object per line on standard error, without any key, token or report."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from typing import Any

import structlog

from voxpop.core.errors import require_choice
from voxpop.service.log_limit import LogLimit
from voxpop.stores.causes import cause

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
    log = structlog.get_logger().bind(service=service)

    def note(event: str, **values: Any) -> None:
        log.info(event, **values)

    return note


def warn(event: str, **values: Any) -> None:
    """Log what an operator should change."""
    structlog.get_logger().warning(event, **values)


def fault(event: str, error: BaseException, **values: Any) -> None:
    """Log an unexpected error by its type, cause and place: its message may quote what must not be logged."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames[-6:]]
    structlog.get_logger().error(event, error=type(error).__name__, cause=cause(error), places=places, **values)

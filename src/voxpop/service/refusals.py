"""Requests that are refused: a status for programs and one sentence for people."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from voxpop.service.stores.database import ReplacedFileError

Answer = TypeVar("Answer")
# The database cannot be reached, is too busy, or would not keep what it is given.
DATABASE_AWAY = (OperationalError, InterfaceError, NoConnectionError, ReplacedFileError)


class Refusal(Exception):  # noqa: N818
    """A request that is answered with a status and one sentence; nothing was counted."""

    def __init__(self, status: int, sentence: str, retry_after: float | None = None, allow: str | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.retry_after = retry_after  # seconds
        self.allow = allow  # methods that the address takes, if it does not take this one


def no_study(study: str) -> Refusal:
    """Make the refusal for a study that does not exist."""
    return Refusal(404, f"there is no study {study!r}; check the name")


def no_database() -> Refusal:
    """Make the refusal for a database that does not answer now but may do so soon."""
    return Refusal(503, "the database does not answer; nothing was counted, try again in a moment", retry_after=2)


def too_large(most: int) -> Refusal:
    """Make the refusal for a body of more than `most` bytes."""
    return Refusal(413, f"the body is larger than {most} bytes; send less")


def accepted(answer: Answer | Refusal) -> Answer:
    """Return the answer, or raise it if it is a refusal."""
    if isinstance(answer, Refusal):
        raise answer
    return answer

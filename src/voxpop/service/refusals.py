"""A request that is refused: the status that says why to programs, and the sentence that says it to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError

Answer = TypeVar("Answer")
AWAY = (OperationalError, InterfaceError, NoConnectionError)  # the database is not there, or too busy


class Refusal(Exception):  # noqa: N818
    """Answered with its status and one sentence; nothing was counted."""

    def __init__(self, status: int, sentence: str, retry_after: float | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.retry_after = retry_after


def no_study(study: str) -> Refusal:
    """There is no study of that name."""
    return Refusal(404, f"there is no study {study!r}; check the name")


def no_database() -> Refusal:
    """The database does not answer; it may soon."""
    return Refusal(503, "the database does not answer; nothing was counted, try again in a moment", retry_after=2)


def too_large(most: int) -> Refusal:
    """The body does not fit."""
    return Refusal(413, f"the body is larger than {most} bytes; send less")


def one(answers: Sequence[Answer | Refusal]) -> Answer:
    """The only answer of many, or its refusal."""
    (answer,) = answers
    if isinstance(answer, Refusal):
        raise answer
    return answer

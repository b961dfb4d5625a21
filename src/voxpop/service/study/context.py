"""What every part of a coordinator has at hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from voxpop.privacy import Secure, Source
from voxpop.privacy.batch import Batch
from voxpop.service.study.log import Snapshots
from voxpop.stores.database import Database


@dataclass(frozen=True)
class BatchProgress:
    """How far a batch is, as the shuffler says."""

    count: int
    withdrawn: tuple[bytes, ...]  # of the overdue tokens, those that can no longer answer
    answered: tuple[bytes, ...]  # and those that had


class ShufflerLink(Protocol):
    """The shuffler, as the coordinator knows it."""

    def announce(self, name: str, batch: Batch, tokens: list[bytes], overdue: list[bytes]) -> BatchProgress:
        """Tell it of a batch, of new tokens, and of tokens whose time is over; may be repeated."""

    def upload_address(self, name: str) -> str:
        """Where devices send their reports."""


def _silent(kind: str, **values: Any) -> None: ...


@dataclass
class Context:
    """The database, the secrets, the clock, and the other parties."""

    database: Database
    secret: bytes
    shuffler: ShufflerLink | None = None
    noise: Source = field(default_factory=Secure)
    clock: Callable[[], float] = time.time
    note: Callable[..., None] = _silent  # says what happened: never a key, a token or a report
    shuffled: dict[str, int] = field(default_factory=dict)  # answers that the shuffler has, only for watching

    def __post_init__(self) -> None:
        self.snapshots = Snapshots(self.database)

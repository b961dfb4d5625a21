"""What all parts of a coordinator share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import Protocol

from voxpop.privacy import Secure, Source
from voxpop.privacy.release import Batch
from voxpop.service.keys import Keyring
from voxpop.service.shuffler.batches import BatchProgress, SealedBatch
from voxpop.service.stores.database import Database
from voxpop.service.study.log import Snapshots
from voxpop.service.study.released import ReleaseRecord


class ShufflerLink(Protocol):
    """The shuffler or helper as the coordinator sees it."""

    def announce(
        self, name: str, batch: Batch, tokens: list[bytes], overdue: list[bytes], forget: Sequence[bytes] = ()
    ) -> BatchProgress:
        """Announce a batch, new tokens, those whose time is over, and those of people who withdrew; may be repeated."""

    def seal(self, name: str, tokens: list[bytes]) -> SealedBatch:
        """Have a helper add up its shares of exactly these tokens; may be repeated with the same tokens only."""

    def call_off(self, name: str) -> None:
        """Have a batch deleted with all its reports, because nothing will be released; may be repeated."""

    def upload_address(self, name: str) -> str:
        """Return the URL to which devices send their reports."""


@dataclass
class Context:
    """The database, the secrets, the shuffler, the source of noise, the clock and the snapshots."""

    database: Database
    secrets: Keyring
    shuffler: ShufflerLink | None = None
    noise: Source = field(default_factory=Secure)
    clock: Callable[[], float] = time.time
    note: Callable[..., None] = lambda kind, **values: None  # logs an event, never a key, a token or a report
    released: ReleaseRecord | None = None  # outside the database; None: a restored database is not recognised
    noted: dict[str, int] = field(default_factory=dict)  # by study: the closed waves that the record knows
    attempts: dict[str, str] = field(default_factory=dict)  # by study: the last attempt of this process to release
    shuffled: dict[str, int] = field(default_factory=dict)  # by study: reports that the shuffler has; for display only
    crowd: tuple[int, float] = (0, -math.inf)  # people who may be asked, and how long that count holds
    writer: str = field(default_factory=partial(token_hex, 8))  # whose counters this process adds to

    def __post_init__(self) -> None:
        self.snapshots = Snapshots(self.database)

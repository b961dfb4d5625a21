"""What a step works with while it holds the lock on a study's row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from voxpop.journal.wave import Wave
from voxpop.service.study.context import Context
from voxpop.service.study.snapshot import Snapshot


@dataclass(frozen=True)
class Turn:
    """A transaction that has locked a study's row, with the study's snapshot and current wave."""

    context: Context
    connection: sa.Connection
    row: Any  # from the table `studies`
    snapshot: Snapshot
    wave: Wave

    @property
    def study(self) -> str:
        """The study's name."""
        return str(self.row.id)

    @property
    def now(self) -> float:
        """The time on the coordinator's clock."""
        return self.context.clock()

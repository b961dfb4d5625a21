"""A step of one study while its row is locked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from voxpop.drivers.phase import Phase
from voxpop.service.study.context import Context
from voxpop.service.study.snapshot import Snapshot


@dataclass(frozen=True)
class Turn:
    """A transaction that holds a study's row, and what the log says about the study at this moment."""

    context: Context
    connection: sa.Connection
    row: Any  # of the table `studies`
    snapshot: Snapshot
    phase: Phase

    @property
    def study(self) -> str:
        """The study's name."""
        return str(self.row.id)

    @property
    def now(self) -> float:
        """The time on the coordinator's clock."""
        return self.context.clock()

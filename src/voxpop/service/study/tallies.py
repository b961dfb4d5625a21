"""Counters of a wave: how many people were asked, have answered, let their time pass, or sent what was refused.

They are kept in the transactions that change what they count, so that nobody has to count rows. Each process that
stores reports adds to a row of its own, and whoever holds the lock on the study's row adds to the row without a name;
so nobody waits for another's counter. Readers add the rows up.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from voxpop.service.stores.schema import tallies

LOCKED = ""  # the writer of those who hold the lock on the study's row
NAMES = ("asked", "answered", "lapsed", "refused")


@dataclass(frozen=True)
class Funnel:
    """What became of the people of a wave."""

    asked: int = 0  # invitations, also those that were made in place of others
    answered: int = 0  # reports that were counted
    lapsed: int = 0  # invitations that ended without an answer
    refused: int = 0  # reports with a valid token that were not counted


def funnel(connection: sa.Connection, study: str, wave: int) -> Funnel:
    """Return the counters of a wave."""
    sums = (sa.func.coalesce(sa.func.sum(tallies.c[name]), 0) for name in NAMES)
    found = connection.execute(sa.select(*sums).where(tallies.c.study == study, tallies.c.wave == wave)).one()
    return Funnel(*map(int, found))


def add(connection: sa.Connection, study: str, wave: int, *, writer: str = LOCKED, **more: int) -> None:
    """Add to the counters of a wave; without a writer's name, only under the lock on the study's row."""
    if not any(more.values()):
        return
    insert = sqlite.insert(tallies) if connection.dialect.name == "sqlite" else postgresql.insert(tallies)
    sums = {name: tallies.c[name] + number for name, number in more.items()}
    connection.execute(
        insert.values(study=study, wave=wave, writer=writer, **more).on_conflict_do_update(
            index_elements=["study", "wave", "writer"], set_=sums
        )
    )

"""What the databases of a soak hold, looked at from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa

from voxpop.service.stores.database import Database
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import inbox, invitations, people, receipts, studies, tokens
from voxpop.service.study.stages import Stage

Answer = TypeVar("Answer")


def patiently(call: Callable[[], Answer]) -> Answer:
    """Repeat a call that needs the database until the database is there."""
    while True:
        try:
            return call()
        except sa.exc.OperationalError:
            time.sleep(0.5)


@dataclass(frozen=True)
class Stored:
    """What the coordinators' database holds of a study."""

    participations: dict[str, int]  # by the hash of a person's key
    receipts: int
    inbox: dict[int, int]  # reports by wave
    batch: str | None  # of the open wave, at the shuffler


def stored(database: Database, study: str) -> Stored:
    """Read it."""
    mine = sa.select(people.c.key_hash, people.c.participations).where(people.c.study == study)
    joined = receipts.join(invitations, receipts.c.invitation == invitations.c.id)
    many = sa.select(sa.func.count()).select_from(joined).where(invitations.c.study == study)
    waiting = sa.select(inbox.c.wave, sa.func.count()).where(inbox.c.study == study).group_by(inbox.c.wave)
    with database.read() as connection:
        return Stored(
            {row.key_hash.hex(): row.participations for row in connection.execute(mine)},
            int(connection.execute(many).scalar_one()),
            {int(wave): int(number) for wave, number in connection.execute(waiting)},
            connection.execute(sa.select(studies.c.batch).where(studies.c.id == study)).scalar_one(),
        )


def held_by_shuffler(path: str, batch: str) -> int:
    """Count the reports of a batch in the database of the shuffler."""
    wanted = sa.select(sa.func.count()).select_from(tokens)
    with closing(open_store(path, "shuffler")) as store, store.read() as connection:
        found = connection.execute(wanted.where(tokens.c.batch == batch, tokens.c.digest.is_not(None)))
        return int(found.scalar_one())


def calls(database: Database) -> dict[str, dict[str, Any]]:
    """Find out who is invited in each study and has not answered, as far as the coordinators know."""
    waves = sa.select(studies.c.id, studies.c.wave, studies.c.stage)
    asked = (invitations.c.study == studies.c.id) & (invitations.c.wave == studies.c.wave)
    joined = studies.join(invitations, asked).join(people, people.c.id == invitations.c.person)
    joined = joined.outerjoin(receipts, receipts.c.invitation == invitations.c.id)
    waiting = sa.select(studies.c.id, people.c.key_hash).select_from(joined)
    waiting = waiting.where(studies.c.stage == Stage.COLLECTING, invitations.c.ready, ~invitations.c.expired)
    with database.read() as connection:
        rows = list(connection.execute(waves))
        found = {r.id: {"wave": r.wave, "invited": [], "finished": r.stage == Stage.FINISHED} for r in rows}
        for study, key in connection.execute(waiting.where(receipts.c.invitation.is_(None))):
            found[study]["invited"].append(key.hex())
    return found

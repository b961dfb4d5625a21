"""Sealing a batch: the reports of a whole batch are added up and deleted, and only their total is kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from functools import reduce
from operator import add
from typing import Any

import sqlalchemy as sa

from voxpop.privacy.release import Batch
from voxpop.service.reports import FORWARDED, matrix
from voxpop.service.stores.database import scrub_after
from voxpop.service.stores.schema import batches, reports, tokens

CHUNK = 2_000  # reports added up at a time


class BatchStage(StrEnum):
    """How far a batch is."""

    COLLECTING = "collecting"
    SEALED = "sealed"  # whole: only its total is left, to be forwarded
    FORWARDED = "forwarded"
    CALLED_OFF = "called off"  # nothing will be released: nothing but its name is left


def constants_of(row: Any) -> Batch:
    """Return the batch that a row describes."""
    return Batch(row.size, row.coordinates, row.levels, row.bits - row.levels, row.chance, row.shared)


def seal(connection: sa.Connection, batch: Any, stage: BatchStage) -> None:
    """Add up the reports of a whole batch, keep the total, and delete the reports."""
    wanted = sa.select(reports.c.body).where(reports.c.batch == batch.id)
    bodies = connection.execute(wanted).scalars().partitions(CHUNK)
    constants = constants_of(batch)
    parts = (constants.tally(matrix(part, constants.coordinates)) for part in bodies)
    tally = reduce(add, parts)
    assert tally.count == batch.size, "only a whole batch is sealed"
    took_part = sa.select(tokens.c.token_hash).where(tokens.c.batch == batch.id, tokens.c.digest.is_not(None))
    # Sorted by hash, so that their order does not reveal who answered first.
    names = sorted(token.hex() for token in connection.execute(took_part).scalars())
    numbers = [number % constants.modulus for number in tally.total]
    total = json.dumps({"count": tally.count, "total": numbers, "tokens": names})
    connection.execute(sa.update(batches).where(batches.c.id == batch.id).values(state=stage, total=total))
    connection.execute(sa.delete(reports).where(reports.c.batch == batch.id))
    if stage is BatchStage.FORWARDED:
        erase_digests(connection, batch.id)
    scrub_after(connection)


def drop_surplus(connection: sa.Connection, name: str, surplus: Iterable[bytes]) -> None:
    """Delete the shares that are not added up, and take no more: their twins were refused, or never sent."""
    delete_reports(connection, list(surplus))
    silent = sa.update(tokens).where(tokens.c.batch == name, tokens.c.digest.is_(None))
    connection.execute(silent.values(withdrawn=True))


def delete_reports(connection: sa.Connection, hashes: list[bytes]) -> None:
    """Delete the reports of these tokens, and what could be compared with guesses of them."""
    if not hashes:
        return
    given = [{"token": hashed} for hashed in hashes]
    connection.execute(sa.delete(reports).where(reports.c.token_hash == sa.bindparam("token")), given)
    unmarked = sa.update(tokens).where(tokens.c.token_hash == sa.bindparam("token"))
    connection.execute(unmarked.values(digest=None), given)
    scrub_after(connection)


def erase_digests(connection: sa.Connection, batch: str) -> None:
    """Erase what could be compared with guesses of reports; empty digests remain, and show who answered."""
    marked = sa.update(tokens).where(tokens.c.batch == batch, tokens.c.digest.is_not(None))
    connection.execute(marked.values(digest=FORWARDED))

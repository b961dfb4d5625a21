"""What is to be told: found in the log, and in how a study stands.

The log is the outbox: a wave that opens or closes is written into it in the transaction in which that happens, and
`told` says up to where it was made into deliveries. What no transaction does, such as a decision that a clock changes,
is compared with what was told last. Both are done in one transaction, so that nothing is lost, and nothing told twice,
whatever is killed. A delivery may arrive twice, if who sends it dies after sending: it has the same number then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from voxpop.service.outbox.deliveries import logged, tell
from voxpop.service.outbox.receivers import Happening
from voxpop.service.stores.database import insert_into
from voxpop.service.stores.schema import hooks, studies, told
from voxpop.service.study import log
from voxpop.service.study.log import Context
from voxpop.service.study.stages import Cause, Life, Stage
from voxpop.service.study.status import Status, status_of

LACKING = (Cause.FEW_PEOPLE, Cause.NOBODY_LEFT)
Told = dict[str, Any]


def heard(context: Context) -> dict[str, tuple[Any, ...]]:
    """Return the studies that somebody wants to hear of, and what changes when something happens in them."""
    signs = (studies.c.seq, studies.c.stage, studies.c.life, studies.c.newest, studies.c.short, studies.c.played)
    wanted = sa.select(studies.c.id, told.c.seq, *signs).outerjoin(told, told.c.study == studies.c.id)
    ours = sa.exists().where(hooks.c.study.is_(None) | (hooks.c.study == studies.c.id))
    goes_on = (studies.c.stage != Stage.FINISHED) | told.c.seq.is_(None) | (told.c.seq != studies.c.seq)
    with context.database.read() as connection:
        rows = connection.execute(wanted.where(studies.c.life != Life.DRAFT, ours, goes_on)).all()
        return {name: tuple(signs) for name, *signs in rows}


def collect(context: Context, study: str) -> bool:
    """Make deliveries of what has happened in a study since the last time; return True if there were any."""
    ours = sa.select(told).where(told.c.study == study)
    with context.database.read() as connection:
        last = connection.execute(ours).first()
    status = status_of(
        context, study
    )  # after what was told last: otherwise an older status could take back a newer one
    holds = {f"{hold.cause} {status.wave}": hold.sentence for hold in status.holds}
    before: Told = {} if last is None else json.loads(last.body)
    now: Told = {"decision": status.in_force.index, "holds": sorted(holds), "warning": status.warning}
    with context.database.write() as connection:
        log.row_of(connection, study)
        if last is None:
            begun = insert_into(connection, told).values(study=study, seq=0, body="{}").on_conflict_do_nothing()
            connection.execute(begun)
        row = connection.execute(ours.with_for_update()).one()
        if (row.seq, json.loads(row.body)) != (0 if last is None else last.seq, before):
            return False  # another coordinator has just told it
        events = logged(connection, study, row.seq)
        found = [*events, *((context.clock(), *change) for change in _changes(before, now, status, holds))]
        if not found and now == before:
            return False
        tell(connection, study, found, wave=status.wave, decision=status.in_force.decision)
        values = {"seq": row.seq + len(events), "body": json.dumps(now)}
        connection.execute(sa.update(told).where(told.c.study == study).values(**values))
    return bool(found)


def _changes(before: Told, now: Told, status: Status, holds: Mapping[str, str]) -> Iterator[tuple[Happening, str]]:
    """Say how a study stands otherwise than it was told last."""
    if now["decision"] != before.get("decision", now["decision"]):
        yield Happening.DECISION, status.says[0]
    for key in set(holds).difference(before.get("holds", ())):
        lacks = key.startswith(tuple(cause.value for cause in LACKING))
        yield (Happening.LACKING if lacks else Happening.ALERT), holds[key]
    if now["warning"] and now["warning"] != before.get("warning", ""):
        yield Happening.ALERT, f"Warning: {now['warning']}"

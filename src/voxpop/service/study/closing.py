"""Closing a wave: add noise, append to log and ledger, and delete the raw reports, in one transaction.

Where reports are shared, the two totals are put together here. If no people can have such a total, because the helper's
is wrong or the shares of some device do not belong together, nobody can tell whose fault it is: then the batch is void.
"""

from __future__ import annotations

import json
from functools import reduce
from operator import add

import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.journal.wave import release_wave
from voxpop.model.waves import Tally
from voxpop.privacy.release import SHUFFLER
from voxpop.service.keys import new_key
from voxpop.service.reports import matrix
from voxpop.service.stores.database import scrub_after
from voxpop.service.stores.schema import inbox, plays, totals
from voxpop.service.study import invitations, log, withdrawal
from voxpop.service.study.events import Event, Kind, closed_body
from voxpop.service.study.released import LastRelease, created_at
from voxpop.service.study.stages import Stage
from voxpop.service.study.turn import Turn

CHUNK = 2_000  # reports added up at a time, to bound memory


def close(turn: Turn, total: Tally | None = None) -> None:
    """Release the wave from the shuffler's total or from the reports in the inbox."""
    context, connection, study, wave = turn.context, turn.connection, turn.study, turn.wave
    number = wave.plan.wave
    tally = _tally(turn, total)
    if tally is None:
        give_up(turn)
        return
    people = invitations.settle(connection, study, number)
    named = people if turn.snapshot.definition.rules.participations > 1 else ()  # otherwise nobody takes part twice
    feedback, entry = release_wave(wave, tally, turn.snapshot.ledger, context.noise, named)
    event = Event(turn.row.seq + 1, Kind.CLOSED, turn.now, closed_body(feedback, entry))
    log.append(connection, study, event, stage=Stage.CLOSED, short=0, batch=None)
    _delete_reports(turn)
    connection.execute(sa.delete(plays).where(plays.c.study == study))
    invitations.forget(connection, study, number)
    withdrawal.erase_rest(connection, study, number)
    scrub_after(connection)
    if context.released is not None:  # last, because what follows is the commit
        created = created_at(connection, study)
        assert created is not None
        context.released.note(LastRelease(study, created, number, turn.row.attempt))
    context.shuffled.pop(study, None)
    context.note("closed", study=study, wave=number, people=tally.count)


def _tally(turn: Turn, total: Tally | None) -> Tally | None:
    """Return the inbox's total, the second server's, or both put together; None if no people can have that."""
    if turn.wave.release.second == SHUFFLER:
        return total
    ours = _add_up(turn)
    if total is None:
        return ours
    try:
        return turn.wave.release.join(ours, total)
    except InputError:
        return None


def give_up(turn: Turn) -> None:
    """Begin a new batch with other people: those of this one have answered, and their answers are spent."""
    connection, study, number = turn.connection, turn.study, turn.wave.plan.wave
    invitations.settle(connection, study, number)
    invitations.spend(connection, study, number, turn.snapshot.definition.rules.participations)
    counted = invitations.answered(connection, study, number)
    _delete_reports(turn)
    invitations.take_back(connection, study, number, counted)
    withdrawal.erase_rest(connection, study, number)
    log.update_study(connection, study, batch=new_key(), invited=0, short=0)
    turn.context.note("voided", study=study, wave=number, people=len(counted))


def _delete_reports(turn: Turn) -> None:
    for table in (inbox, totals):
        ours = (table.c.study == turn.study, table.c.wave == turn.wave.plan.wave)
        turn.connection.execute(sa.delete(table).where(*ours))


def _add_up(turn: Turn) -> Tally:
    """Add up the reports in the inbox, one chunk at a time."""
    wave = turn.wave
    wanted = sa.select(inbox.c.body).where(inbox.c.study == turn.study, inbox.c.wave == wave.plan.wave)
    rows = turn.connection.execute(wanted.execution_options(stream_results=True))
    arms = len(wave.plan.arms)
    parts = (wave.release.tally(matrix(chunk, arms)) for chunk in rows.scalars().partitions(CHUNK))
    tally = reduce(add, parts)
    counted = invitations.funnel(turn.connection, turn.study, wave.plan.wave).answered
    if tally.count != counted:
        raise RuntimeError(f"the inbox holds {tally.count} reports of the wave, and {counted} were counted")
    return tally


def second_total(turn: Turn) -> Tally | None:
    """Return the total of the shuffler or helper, or None if there is none yet."""
    number = turn.wave.plan.wave
    wanted = sa.select(totals.c.body).where(totals.c.study == turn.study, totals.c.wave == number)
    body = turn.connection.execute(wanted).scalar_one_or_none()
    if body is None:
        return None
    total = json.loads(body)
    return Tally(total["count"], tuple(total["total"]), 1.0)

"""Asking people: who can be asked about a wave, and inviting them in short transactions, so that others can write too.

Only people who registered before the rounds of a wave began are asked about it: the others have not lived through all
of them. The rounds begin when enough people are registered. If some of these do not answer, and nobody else who lived
through the rounds is left, the rounds are played again, as soon as enough others have registered; the reports that are
in stay.
"""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa

from voxpop.journal.wave import Wave
from voxpop.privacy.release import HELPER, SHUFFLER
from voxpop.service.stores.schema import counts, people
from voxpop.service.study import log
from voxpop.service.study.context import Context
from voxpop.service.study.invitations import Invitations, all_here, count_later, made
from voxpop.service.study.log import Snapshot
from voxpop.service.study.stages import Stage

CHUNK = 500  # invitations in one transaction, for which uploads to the study wait
PAUSE = 0.01  # seconds between two of them


def askable(connection: sa.Connection, study: str, snapshot: Snapshot) -> int:
    """Count the people who are registered now and may take part in the current wave."""
    most = snapshot.most_participations
    known = connection.execute(sa.select(counts).where(counts.c.study == study)).one()
    if most <= 1:
        return int(known.never_asked) if most else 0
    assert snapshot.wave is not None
    may_be_void = snapshot.wave.release.second == HELPER  # and a void batch spends people who are in no release
    if len(snapshot.closed) < most and not may_be_void:  # nobody can have taken part so often
        return int(known.registered)
    spent = sa.select(sa.func.count()).select_from(people)  # who are fewer than those who may
    spent = spent.where(people.c.study == study, people.c.participations >= most, ~people.c.withdrawn)
    return int(known.registered) - int(connection.execute(spent).scalar_one())


def enough(connection: sa.Connection, study: str, snapshot: Snapshot) -> bool:
    """Return True if the rounds of the current wave can begin: as many people as it needs are registered."""
    assert snapshot.wave is not None
    return askable(connection, study, snapshot) >= snapshot.wave.plan.people


def recount(invited: Invitations) -> None:
    """Count again how many invitations to the wave are answered or open, after some have ended."""
    log.update_study(invited.connection, invited.study, invited=invited.held)


def ask(context: Context, study: str, snapshot: Snapshot, wave: Wave) -> bool:
    """Invite as many people as are missing; return False if nobody is missing or nobody is left.

    All are drawn at once and invited in chunks; the wave collects from the first chunk on. If the process is killed in
    between, the next one draws the rest from those who were not invited: together they are a uniform sample, too.
    """
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        missing = wave.plan.people - row.invited
        if row.seq != snapshot.seq or missing <= 0:
            return bool(row.seq != snapshot.seq)
        invited, most = Invitations(connection, study, wave.plan.wave), snapshot.most_participations
        chosen = invited.draw(missing, most, row.newest)
        short = missing - len(chosen)
        others = (
            short > 0 and row.stage == Stage.COLLECTING and count_later(connection, study, most, row.newest) >= short
        )
        if short and not others:
            chosen += invited.draw_again(short, most, row.newest)
        alone = others and not chosen
        waiting = alone and wave.release.second != SHUFFLER and invited.waits
    if alone and not waiting:
        return _play_again(context, study, snapshot, row.invited)
    if not chosen and row.short == short and row.stage == Stage.COLLECTING:
        return False
    stage, held = row.stage, row.invited
    for start in range(0, max(len(chosen), 1), CHUNK):
        if start:
            time.sleep(PAUSE)
        part = chosen[start : start + CHUNK]
        if not _invite(context, study, snapshot, wave, part, (stage, held), short):
            return True  # another coordinator is asking people, or has closed the wave
        stage, held = Stage.COLLECTING, held + len(part)
    context.note("asked", study=study, wave=wave.plan.wave, people=len(chosen), short=short)
    return bool(chosen)


def _invite(
    context: Context,
    study: str,
    snapshot: Snapshot,
    wave: Wave,
    chosen: list[int],
    before: tuple[Stage, int],
    short: int,
) -> bool:
    """Invite these people in one transaction, unless the stage or the number of the invited is not as `before`."""
    ready = wave.release.batch is None  # otherwise the second server must know the token first
    deadline = context.clock() + snapshot.definition.rules.deadline
    rows = made(context.secret, study, wave.plan.wave, chosen, deadline, ready)
    with context.database.write() as connection:
        row: Any = log.lock_unmoved(connection, study, snapshot.seq)
        if row is None or (row.stage, row.invited) != before:
            return False
        invited = Invitations(connection, study, wave.plan.wave)
        # The number may be the same although others were invited since: nobody gets two invitations at a time.
        if invited.holders(chosen):
            return False
        if not all_here(connection, chosen, row.newest):
            return False
        invited.insert(rows)
        changes = {"stage": Stage.COLLECTING, "played": wave.plan.asked, "invited": before[1] + len(rows)}
        log.update_study(connection, study, **changes, short=short)
    return True


def _play_again(context: Context, study: str, snapshot: Snapshot, invited: int) -> bool:
    """Let the rounds of the wave begin again, for people who registered after they were played."""
    with context.database.write() as connection:
        row: Any = log.lock_unmoved(connection, study, snapshot.seq)
        if row is not None and (row.stage, row.invited) == (Stage.COLLECTING, invited):
            log.update_study(connection, study, stage=Stage.OPEN, newest=None, played=0, short=0)
            context.note("played_again", study=study, wave=row.wave)
    return True

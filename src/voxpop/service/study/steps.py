"""The steps of a study: open a wave, begin its rounds, invite people when they are played, replace no-shows, close it.

Any coordinator may take any step at any time. Each transaction of a step locks the study's row and checks that the log
has not grown; if another coordinator has already taken the step, it does nothing.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from voxpop.journal.journal import Finished, Opened
from voxpop.model.waves import End
from voxpop.model.words import counted
from voxpop.privacy.prio3 import SEED
from voxpop.privacy.release import HELPER, SHUFFLER
from voxpop.service import audit
from voxpop.service.audit import COMMAND_LINE, Action
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal
from voxpop.service.stores.schema import newest_person
from voxpop.service.study import collecting, life, log, participants
from voxpop.service.study.invitations import Invitations
from voxpop.service.study.log import Context, Snapshot, SqlJournal
from voxpop.service.study.stages import UNRELEASED, Life, Stage

LOOK_AGAIN = 5.0  # seconds until a wave that collects is looked at if nothing happens: a coordinator may have died
TELL_AGAIN = 1.0  # seconds between messages to the shuffler
LEAST_JUMP = 1.0  # seconds by which a clock must be behind to be called wrong: two coordinators' clocks differ a little


@dataclass(frozen=True)
class Step:
    """A step of a study: what a look without locks found due, and whether taking it changed anything."""

    act: Callable[[Context, Snapshot], bool] | None = None  # takes the step; returns True if anything changed
    wake: float = 0.0  # the time of the next look if nothing happens
    lacking: int = 0  # the reports that the wave lacked before it; 0: not counted
    moved: bool = False


def step(context: Context, study: str) -> Step:
    """Take the next step of a study if one is due; one that was deleted before is deleted again."""
    if life.delete_again(context, study):
        return Step(moved=True)
    snapshot = context.snapshots.current(study)
    closed = len(snapshot.closed)
    with context.database.read() as connection:
        wanted = log.row_of(connection, study).life
        if context.released is not None and closed > context.noted.get(study, 0):
            context.released.catch_up(connection, study)  # so that this process, too, recognises an older database
            context.noted[study] = closed
    if snapshot.ended is not None or wanted != Life.RUNNING:
        cleaned = collecting.clean_up(context, snapshot)
        return Step(wake=context.clock() + LOOK_AGAIN, moved=cleaned)
    if snapshot.wave is None:
        _open(context, snapshot)
        return Step(moved=True)
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        due = _look(context, connection, row, snapshot)
    if behind := clock_behind(snapshot, row, context.clock()):
        context.note("clock_back", study=study, wave=snapshot.wave.plan.wave, seconds=round(behind))
    return due if due.act is None else replace(due, moved=due.act(context, snapshot))


def _look(context: Context, connection: sa.Connection, row: Any, snapshot: Snapshot) -> Step:
    """Find out what is due, without the lock that uploads need."""
    now, study, wave = context.clock(), row.id, snapshot.open_wave
    if row.seq != snapshot.seq:
        return Step(moved=True)  # another coordinator was quicker: the log is read again
    if row.newest is None:
        return Step(_begin) if collecting.enough(connection, snapshot) else Step(wake=math.inf)
    if row.stage != Stage.COLLECTING:
        played = rounds_played(snapshot, row, now) >= wave.plan.asked
        return Step(collecting.ask) if played else Step(wake=_end_of_rounds(snapshot, row))
    if wave.release.batch is not None and collecting.total_of(connection, study, row.wave):
        return Step(_close, now + LOOK_AGAIN)
    if wave.release.second == SHUFFLER:
        asks = row.invited < wave.plan.people
        return Step(collecting.ask if asks and not row.short else collecting.collect, now + TELL_AGAIN)
    invited = Invitations(connection, study, row.wave)
    lacking = wave.plan.people - invited.funnel.answered
    if wave.release.second == HELPER:
        if lacking <= 0:
            return Step(collecting.seal, now + TELL_AGAIN)
        if invited.unready or participants.pending(connection, study, row.wave):
            return Step(collecting.collect, now + TELL_AGAIN, lacking)
    if lacking <= 0:
        return Step(_close, now + LOOK_AGAIN)
    over = _wave_deadline(invited, snapshot)
    if over <= now and not collecting.why_open(invited, snapshot):
        return Step(_close, now + LOOK_AGAIN, lacking)
    if invited.overdue(now):
        return Step(_expire, lacking=lacking)
    asks = collecting.lags(context, invited, row, snapshot)
    wake = min(now + LOOK_AGAIN, invited.next_deadline(now), over if over > now else math.inf)
    return Step(collecting.ask if asks else None, wake, lacking)


def _begin(context: Context, snapshot: Snapshot) -> bool:
    """Let the rounds of the wave be played: enough people are registered."""
    with context.database.write() as connection:
        row = log.lock_unmoved(connection, snapshot)
        if row is None or row.newest is not None:  # another coordinator was quicker, or an operator paused the study
            return row is None
        log.update_study(connection, snapshot.study, **_beginning(connection, snapshot, context.clock()))
        log.note_stand(connection, snapshot.study, context.clock())
    return True


def _expire(context: Context, snapshot: Snapshot) -> bool:
    """End the invitations of those whose time is over, and ask others."""
    with context.database.write() as connection:
        row = log.lock_unmoved(connection, snapshot)
        if row is None:
            return True
        invited = Invitations(connection, row.id, row.wave)
        if not invited.expire(context.clock()):
            return False
        collecting.recount(invited)
    collecting.ask(context, snapshot)
    return True


def _close(context: Context, snapshot: Snapshot) -> bool:
    """Release the wave: all reports are in."""
    if not _name_attempt(context, snapshot):
        return False
    with context.database.write() as connection:
        row = log.lock_unmoved(connection, snapshot)
        if row is None:
            return True
        invited = Invitations(connection, row.id, row.wave)
        early = _wave_deadline(invited, snapshot) <= context.clock()
        return collecting.close(context, invited, snapshot, early)


def _wave_deadline(invited: Invitations, snapshot: Snapshot) -> float:
    """Return when the wave closes with those who answered; infinity if it waits for all."""
    rules = snapshot.definition.rules
    return math.inf if rules.wave_deadline is None else invited.first_deadline - rules.deadline + rules.wave_deadline


def close_early(context: Context, study: str, wave: int, actor: str = COMMAND_LINE) -> bool:
    """Close a wave with those who answered, because an operator wants it; return False if it is closed already."""
    snapshot = context.snapshots.current(study)
    with context.database.read() as connection:
        row = log.row_of(connection, study)
    if wave < row.wave or (wave == row.wave and row.stage not in UNRELEASED):
        return False
    if row.life == Life.RUNNING and snapshot.wave is not None and not _name_attempt(context, snapshot):
        raise Refusal(409, "the database is older than what was released; restore the newer one")
    with context.database.write() as connection:
        row = log.row_of(connection, study, lock=True)
        if row.seq != snapshot.seq or row.wave != wave:
            raise Refusal(409, f"wave {wave} is not the open one, which is wave {row.wave}; look at the study again")
        if row.stage != Stage.COLLECTING or row.life != Life.RUNNING:
            state = row.life if row.life != Life.RUNNING else row.stage
            raise Refusal(
                409, f"wave {wave} of the study {study!r} is {state}, and only one that collects can be closed"
            )
        invited = Invitations(connection, study, wave)
        if why := collecting.why_open(invited, snapshot):
            raise Refusal(409, f"wave {wave} of the study {study!r} cannot be closed early: {why}")
        answered = counted(invited.funnel.answered, "answer")
        audit.note(connection, context.clock(), actor, Action.CLOSED_EARLY, study, f"wave {wave}, with {answered}")
        collecting.close(context, invited, snapshot, early=True)
    return True


def _name_attempt(context: Context, snapshot: Snapshot) -> bool:
    """Give the attempt to release the wave a name, in a transaction before the release; see `released.py`.

    Return False if the database is older than what it released: then nothing may be released.
    """
    study = snapshot.study
    with context.database.write() as connection:
        row = log.lock_unmoved(connection, snapshot)
        if context.released is not None and (lost := context.released.lost(connection, study)):
            context.note("restored", study=study, lost=str(lost))
            return False
        if row is not None and (row.attempt is None or _failed(context, study, row.attempt)):
            context.attempts[study] = new_key()
            log.update_study(connection, study, attempt=context.attempts[study])
    return True


def _failed(context: Context, study: str, attempt: str) -> bool:
    """Return True if this process made the attempt and failed before it was written down: the next gets a new name.

    Otherwise a backup made meanwhile would know the name of the attempt that succeeds, and pass for the newest one.
    """
    last = None if context.released is None else context.released.of(study)
    return context.attempts.get(study) == attempt and (last is None or last.attempt != attempt)


def _open(context: Context, snapshot: Snapshot) -> None:
    """Append the next wave, or the end of the study. Planning needs no lock: every coordinator plans the same.

    Only the orders of play differ, and those that are appended count.
    """
    study, wave, now = snapshot.study, snapshot.following, context.clock()
    event: Opened | Finished
    if isinstance(wave, End):
        planned, event = None, Finished(wave.reason)
        changes: dict[str, Any] = {"stage": Stage.FINISHED}
    else:
        wave = replace(wave, plan=wave.plan.shuffled(np.random.default_rng(secrets.randbits(128))))
        planned, event = replace(snapshot, wave=wave), Opened(wave.plan, wave.release)
        batch = None if wave.release.batch is None else new_key()
        changes = {"wave": wave.plan.wave, "batch": batch, "stage": Stage.OPEN, "opened_at": now, "attempt": None}
        changes |= {"played": 0, "invited": 0, "newest": None, "short": 0, "verify_key": secrets.token_bytes(SEED)}
        _ = planned.most_participations  # computed here, because it may take seconds, and others want to write
    with context.database.write() as connection:
        if log.lock_unmoved(connection, snapshot) is None:
            return
        if planned is not None and collecting.enough(connection, planned):
            changes |= _beginning(connection, snapshot, now)
        SqlJournal(connection, study, now).append([event], snapshot.seq, **changes)
        if isinstance(wave, End):
            context.note("finished", study=study, reason=wave.reason)
        else:
            context.note("opened", study=study, wave=wave.plan.wave)


def _beginning(connection: sa.Connection, snapshot: Snapshot, now: float) -> dict[str, Any]:
    """Return what changes when rounds begin: a clock starts now, an application reports the first round later."""
    begun = {"newest": newest_person(connection)}
    by_clock = snapshot.definition.by_clock
    return begun | ({"stage": Stage.PLAYING, "opened_at": now} if by_clock else {})


def rounds_played(snapshot: Snapshot, row: Any, now: float) -> int:
    """Count the rounds of the current wave played so far, by the application's reports or by the clock."""
    if row.newest is None:
        return 0
    made = snapshot.definition
    rounds = max(0, made.rounds_since(row.opened_at, now)) if made.by_clock else row.played
    return int(min(rounds, snapshot.open_wave.plan.asked))


def _end_of_rounds(snapshot: Snapshot, row: Any) -> float:
    """Return when a clock will have played the rounds; infinity if an application reports them."""
    return snapshot.definition.end_of_rounds(row.opened_at, snapshot.open_wave.plan.asked)


def clock_behind(snapshot: Snapshot, row: Any, now: float) -> float:
    """Return how many seconds the clock is before the beginning of the rounds that it plays; 0 if nothing is wrong."""
    if row.stage != Stage.PLAYING or snapshot.definition.rules.rounds_per_second is None:
        return 0.0
    behind = float(row.opened_at - now)
    return behind if behind > LEAST_JUMP else 0.0

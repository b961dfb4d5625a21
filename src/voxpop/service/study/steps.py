"""The steps of a study: open a wave, begin its rounds, invite people when they are played, replace no-shows, close it.

Any coordinator may take any step at any time. Each transaction of a step locks the study's row and checks that the log
has not grown; if another coordinator has already taken the step, it does nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

import sqlalchemy as sa

from voxpop.journal.journal import Finished, Opened
from voxpop.journal.wave import Wave
from voxpop.model.waves import End
from voxpop.privacy.release import HELPER, SHUFFLER
from voxpop.service.keys import new_key
from voxpop.service.stores.schema import newest_person
from voxpop.service.study import collecting, life, log, participants
from voxpop.service.study.context import Context, Turn
from voxpop.service.study.invitations import Invitations
from voxpop.service.study.log import Snapshot, SqlJournal
from voxpop.service.study.stages import Life, Stage

LOOK_AGAIN = 5.0  # seconds until a wave that collects is looked at if nothing happens: a coordinator may have died
TELL_AGAIN = 1.0  # seconds between messages to the shuffler
UNASKED: dict[str, Any] = {"played": 0, "invited": 0, "newest": None, "short": 0}  # of a wave that has just begun
LEAST_JUMP = 1.0  # seconds by which a clock must be behind to be called wrong: two coordinators' clocks differ a little


class Due(Enum):
    """What is to be done next for an open wave."""

    NOTHING = auto()
    BEGIN = auto()  # enough people are registered: its rounds may be played
    COLLECT = auto()  # its rounds are played: people are asked
    ASK = auto()  # people are missing
    EXPIRE = auto()  # somebody's time is over
    TELL = auto()  # the shuffler or helper about new, overdue and withdrawn tokens
    SEAL = auto()  # all shares are in: the helper adds up its own
    CLOSE = auto()  # all reports are in
    READ = auto()  # the log: another coordinator was quicker


@dataclass(frozen=True)
class Step:
    """A step of a study: what a look without locks found due, and whether taking it changed anything."""

    due: Due = Due.NOTHING
    wake: float = 0.0  # the time of the next look if nothing happens
    lacking: int = 0  # the reports that the wave lacked before it; 0: not counted
    moved: bool = False


def step(context: Context, study: str) -> Step:
    """Take the next step of a study if one is due; one that was deleted before is deleted again."""
    if life.delete_again(context, study):
        return Step(moved=True)
    snapshot = context.snapshots.current(study)
    _note_closed(context, study, len(snapshot.closed))
    with context.database.read() as connection:
        wanted = log.row_of(connection, study).life
    if snapshot.ended is not None or wanted != Life.RUNNING:
        cleaned = collecting.clean_up(context, study, snapshot)
        return Step(wake=context.clock() + LOOK_AGAIN, moved=cleaned)
    wave = snapshot.wave
    if wave is None:
        _open(context, study, snapshot)
        return Step(moved=True)
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        due = _look(context, connection, row, snapshot, wave)
    if behind := clock_behind(snapshot, row, context.clock()):
        context.note("clock_back", study=study, wave=wave.plan.wave, seconds=round(behind))
    return replace(due, moved=_take(context, study, snapshot, wave, due.due))


def _look(context: Context, connection: sa.Connection, row: Any, snapshot: Snapshot, wave: Wave) -> Step:
    """Find out what is due, without the lock that uploads need."""
    now, study, number = context.clock(), row.id, wave.plan.wave
    if row.seq != snapshot.seq:
        return Step(Due.READ)
    if row.newest is None:
        enough = collecting.enough(connection, study, snapshot)
        return Step(Due.BEGIN) if enough else Step(Due.NOTHING, math.inf)
    if row.stage != Stage.COLLECTING:
        played = rounds_played(snapshot, row, now) >= wave.plan.asked
        return Step(Due.COLLECT) if played else Step(Due.NOTHING, _end_of_rounds(snapshot, row, wave))
    if wave.release.batch is not None and collecting.total_of(connection, study, number):
        return Step(Due.CLOSE, now + LOOK_AGAIN)
    if wave.release.second == SHUFFLER:
        return Step(Due.ASK if row.invited < wave.plan.people and not row.short else Due.TELL, now + TELL_AGAIN)
    invited = Invitations(connection, study, number)
    lacking = wave.plan.people - invited.funnel.answered
    if wave.release.second == HELPER:
        if lacking <= 0:
            return Step(Due.SEAL, now + TELL_AGAIN)
        if invited.unready or participants.pending(connection, study, number):
            return Step(Due.TELL, now + TELL_AGAIN, lacking)
    if lacking <= 0:
        return Step(Due.CLOSE, now + LOOK_AGAIN)
    if invited.overdue(now):
        return Step(Due.EXPIRE, lacking=lacking)
    wake = min(now + LOOK_AGAIN, invited.next_deadline(now))
    return Step(Due.ASK if row.invited < wave.plan.people else Due.NOTHING, wake, lacking)


def _take(context: Context, study: str, snapshot: Snapshot, wave: Wave, due: Due) -> bool:
    """Do what is due; return True if anything changed."""
    if due in (Due.NOTHING, Due.READ):
        return due is Due.READ
    if due in (Due.TELL, Due.SEAL):
        act = collecting.collect if due is Due.TELL else collecting.seal
        return act(context, study, snapshot, wave)
    if due is Due.CLOSE and not _name_attempt(context, study, snapshot):
        return False
    if due not in (Due.ASK, Due.COLLECT):
        with context.database.write() as connection:
            row = log.lock_unmoved(connection, study, snapshot.seq)
            if row is None:
                return True  # another coordinator was quicker, or an operator paused the study
            moved = _change(Turn(context, connection, row, snapshot, wave), due)
        if due in (Due.BEGIN, Due.CLOSE) or not moved:
            return moved
    return collecting.ask(context, study, snapshot, wave) or due is Due.EXPIRE


def _change(turn: Turn, due: Due) -> bool:
    """Change the study's row, and what belongs to it, in the transaction of this turn."""
    invited = turn.invitations
    if due is Due.BEGIN:
        begins = turn.row.newest is None  # otherwise another coordinator was quicker
        if begins:
            log.update_study(turn.connection, turn.study, **_beginning(turn.connection, turn.snapshot, turn.now))
        return begins
    if due is Due.EXPIRE:
        ended = invited.expire(turn.now)
        if ended:
            collecting.recount(invited)
        return bool(ended)
    return collecting.close(turn)


def _name_attempt(context: Context, study: str, snapshot: Snapshot) -> bool:
    """Give the attempt to release the wave a name, in a transaction before the release; see `released.py`.

    Return False if the database is older than what it released: then nothing may be released.
    """
    with context.database.write() as connection:
        row = log.lock_unmoved(connection, study, snapshot.seq)
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


def _note_closed(context: Context, study: str, closed: int) -> None:
    """Write down what other coordinators have closed, so that this one, too, recognises an older database."""
    if context.released is not None and closed > context.noted.get(study, 0):
        with context.database.read() as connection:
            context.released.catch_up(connection, study)
        context.noted[study] = closed


def _open(context: Context, study: str, snapshot: Snapshot) -> None:
    """Append the next wave, or the end of the study. Planning needs no lock: every coordinator plans the same."""
    wave, now = snapshot.following, context.clock()
    planned = None if isinstance(wave, End) else replace(snapshot, wave=wave)
    event: Opened | Finished
    changes: dict[str, Any]
    if isinstance(wave, End):
        event, changes = Finished(wave.reason), {"stage": Stage.FINISHED}
    else:
        batch = None if wave.release.batch is None else new_key()
        event, changes = Opened(wave.plan, wave.release), {**UNASKED, "wave": wave.plan.wave, "batch": batch}
        changes |= {"stage": Stage.OPEN, "opened_at": now, "attempt": None}
    if planned is not None:
        _ = planned.most_participations  # computed here, because it may take seconds, and others want to write
    with context.database.write() as connection:
        if log.lock_unmoved(connection, study, snapshot.seq) is None:
            return
        if planned is not None and collecting.enough(connection, study, planned):
            changes |= _beginning(connection, snapshot, now)
        SqlJournal(connection, study, now).append([event], snapshot.seq, **changes)
        if isinstance(wave, End):
            context.note("finished", study=study, reason=wave.reason)
        else:
            context.note("opened", study=study, wave=wave.plan.wave)


def _beginning(connection: sa.Connection, snapshot: Snapshot, now: float) -> dict[str, Any]:
    """Return what changes when rounds begin: a clock starts now, an application reports the first round later."""
    begun = {"newest": newest_person(connection)}
    by_clock = snapshot.definition.rules.rounds_per_second is not None
    return begun | ({"stage": Stage.PLAYING, "opened_at": now} if by_clock else {})


def rounds_played(snapshot: Snapshot, row: Any, now: float) -> int:
    """Count the rounds of the current wave played so far, by the application's reports or by the clock."""
    assert snapshot.wave is not None
    if row.newest is None:
        return 0
    rate = snapshot.definition.rules.rounds_per_second
    rounds = row.played if rate is None else math.floor(max(0.0, now - row.opened_at) * rate)
    return int(min(rounds, snapshot.wave.plan.asked))


def _end_of_rounds(snapshot: Snapshot, row: Any, wave: Wave) -> float:
    """Return when a clock will have played the rounds; infinity if an application reports them."""
    rate = snapshot.definition.rules.rounds_per_second
    return math.inf if rate is None else float(row.opened_at + wave.plan.asked / rate)


def clock_behind(snapshot: Snapshot, row: Any, now: float) -> float:
    """Return how many seconds the clock is before the beginning of the rounds that it plays; 0 if nothing is wrong."""
    if row.stage != Stage.PLAYING or snapshot.definition.rules.rounds_per_second is None:
        return 0.0
    behind = float(row.opened_at - now)
    return behind if behind > LEAST_JUMP else 0.0

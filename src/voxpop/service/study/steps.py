"""The steps of a study: open a phase, invite people when its rounds are played, replace no-shows, and close it once.

Any coordinator may take any step at any time. Each step is one transaction that locks the study's row and checks that
the log has not grown; if another coordinator has already taken the step, it does nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from voxpop.core.phases import End
from voxpop.drivers.phase import Phase
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal
from voxpop.service.study import invitations, log
from voxpop.service.study.closing import close, forwarded_total
from voxpop.service.study.context import Context
from voxpop.service.study.events import Event, Kind, opened_body
from voxpop.service.study.participation import most_participations
from voxpop.service.study.snapshot import Snapshot
from voxpop.service.study.stages import Stage
from voxpop.service.study.turn import Turn


@dataclass(frozen=True)
class StepTaken:
    """Whether a step changed anything, and how many reports the current phase lacked before it (0: not counted)."""

    moved: bool
    lacking: int = 0


def step(context: Context, study: str) -> StepTaken:
    """Take the next step of a study if one is due."""
    snapshot = context.snapshots.current(study)
    if snapshot.finished:
        return StepTaken(False)
    phase = snapshot.current
    if phase is None:
        _open(context, study, snapshot)
        return StepTaken(True)
    due, lacking = _look(context, study, snapshot, phase)
    if not due:
        return StepTaken(False, lacking)
    with context.database.write() as connection:
        row = log.row_of(connection, study, lock=True)
        if row.seq != snapshot.seq:
            return StepTaken(True)  # another coordinator was quicker
        turn = Turn(context, connection, row, snapshot, phase)
        if row.stage != Stage.COLLECTING:
            return StepTaken(_begin_collecting(turn), lacking)
        if phase.release.batch is None:
            return StepTaken(_collect(turn), lacking)
        total = forwarded_total(turn)
        if total is not None:
            close(turn, total)
            return StepTaken(True)
    return StepTaken(_collect_by_shuffler(context, study, snapshot, phase))


def _look(context: Context, study: str, snapshot: Snapshot, phase: Phase) -> tuple[bool, int]:
    """Find out whether a step is due and how many reports are lacking, without the lock that uploads need."""
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        if row.seq != snapshot.seq or phase.release.batch is not None or row.short:
            return True, 0
        if row.stage != Stage.COLLECTING:
            return rounds_played(snapshot, row, context.clock()) >= phase.plan.asked, 0
        lacking = phase.plan.people - invitations.answered(connection, study, row.phase)
        return lacking <= 0 or invitations.overdue(connection, study, row.phase, context.clock()), lacking


def _open(context: Context, study: str, snapshot: Snapshot) -> None:
    """Append the next phase, or the end of the study. Planning needs no lock: every coordinator plans the same."""
    phase = snapshot.next_phase()
    seq, now = snapshot.seq + 1, context.clock()
    changes: dict[str, Any]
    if isinstance(phase, End):
        event, changes = Event(seq, Kind.FINISHED, now, {"reason": phase.reason}), {"stage": Stage.FINISHED}
    else:
        event = Event(seq, Kind.OPENED, now, opened_body(phase))
        changes = {
            "stage": Stage.OPEN if snapshot.definition.rules.rounds_per_second is None else Stage.PLAYING,
            "phase": phase.plan.phase,
            "played": 0,
            "opened_at": now,
            "short": 0,
            "batch": None if phase.release.batch is None else new_key(),
        }
    with context.database.write() as connection:
        if log.row_of(connection, study, lock=True).seq == snapshot.seq:
            log.append(connection, study, event, **changes)
            said = {"reason": phase.reason} if isinstance(phase, End) else {"phase": phase.plan.phase}
            context.note(event.kind, study=study, **said)


def rounds_played(snapshot: Snapshot, row: Any, now: float) -> int:
    """Count the rounds of the current phase played so far, by the application's reports or by the clock."""
    assert snapshot.current is not None
    rate = snapshot.definition.rules.rounds_per_second
    rounds = row.played if rate is None else math.floor(max(0.0, now - row.opened_at) * rate)
    return int(min(rounds, snapshot.current.plan.asked))


def _begin_collecting(turn: Turn) -> bool:
    """Invite the people of the phase once all its rounds are played."""
    plan = turn.phase.plan
    if rounds_played(turn.snapshot, turn.row, turn.now) < plan.asked:
        return False
    log.update_study(turn.connection, turn.study, stage=Stage.COLLECTING, played=plan.asked)
    _invite(turn, plan.people)
    return True


def _collect(turn: Turn) -> bool:
    """Close the phase if all reports are in; otherwise replace the people whose time is over."""
    plan = turn.phase.plan
    if invitations.answered(turn.connection, turn.study, plan.phase) >= plan.people:
        close(turn)
        return True
    invitations.expire(turn.connection, turn.study, plan.phase, turn.now)
    return _replace(turn)


def _replace(turn: Turn) -> bool:
    """Invite as many people as are missing; return False if nobody is missing or nobody is left."""
    plan = turn.phase.plan
    asked = invitations.count(turn.connection, turn.study, plan.phase)
    missing = plan.people - asked.answered - asked.waiting
    return missing > 0 and _invite(turn, missing)


def _invite(turn: Turn, wanted: int) -> bool:
    """Invite `wanted` people at random; return False if nobody is left."""
    rules, plan, release = turn.snapshot.definition.rules, turn.phase.plan, turn.phase.release
    most = most_participations(turn.snapshot.ledger, release.entry(plan.people), rules.participations)
    ready = release.batch is None  # otherwise the shuffler must know the token first
    deadline = turn.now + rules.deadline
    found = invitations.draw(
        turn.connection, turn.context.secret, turn.study, plan.phase, wanted, most, deadline, ready
    )
    if found or turn.row.short != wanted - found:
        log.update_study(turn.connection, turn.study, short=wanted - found)
        turn.context.note("asked", study=turn.study, phase=plan.phase, people=found, short=wanted - found)
    return found > 0


def _collect_by_shuffler(context: Context, study: str, snapshot: Snapshot, phase: Phase) -> bool:
    """Tell the shuffler about new and overdue tokens; only it knows which of them have answered."""
    batch, number = phase.release.batch, phase.plan.phase
    assert batch is not None
    if context.shuffler is None:
        context.note("no_shuffler", study=study)
        return False
    with context.database.read() as connection:
        name = log.row_of(connection, study).batch
        open_ones = invitations.unanswered(connection, study, number)
    new = [row.token_hash for row in open_ones if not row.ready]
    overdue = [row.token_hash for row in open_ones if row.ready and row.deadline < context.clock()]
    try:
        progress = context.shuffler.announce(name, batch, new, overdue)
    except Refusal as refusal:  # for instance a batch that is too small for it: the two operators must settle that
        context.note("not_announced", study=study, people=batch.size, status=refusal.status)
        return False
    context.shuffled[study] = progress.count
    with context.database.write() as connection:
        row = log.row_of(connection, study, lock=True)
        if row.seq != snapshot.seq:
            return True
        turn = Turn(context, connection, row, snapshot, phase)
        invitations.make_ready(connection, new, turn.now + snapshot.definition.rules.deadline)
        invitations.withdraw(connection, list(progress.withdrawn))
        invitations.note_answered(connection, study, number, list(progress.answered))
        return _replace(turn) or bool(new)

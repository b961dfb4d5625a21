"""What can be seen of a study: how far it is, what it has found, what it waits for; in numbers and in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any

import msgspec
import numpy as np
import sqlalchemy as sa

from voxpop.journal.journal import Known
from voxpop.journal.question import Question, confidence_of
from voxpop.journal.wave import error_ratio
from voxpop.model.waves import Forecast, Plan
from voxpop.model.words import counted, describe, number, percent
from voxpop.report.summary import expectation
from voxpop.service.messages import Chance, Count, Decision, NotNegative, Numbers, Reply, says
from voxpop.service.stores.schema import counts, notes
from voxpop.service.study import collecting, log, steps
from voxpop.service.study.invitations import Funnel, Invitations
from voxpop.service.study.log import Context, Snapshot
from voxpop.service.study.stages import IN_PLAY, UNRELEASED, Cause, Hold, Life, Stage, State, state_of, time_of
from voxpop.study.answers import larger, price

KNOWN = 64  # studies whose dates are kept, until something happens in them
LIVES = {
    Life.DRAFT: "Draft: devices do not see it, and it can be changed until it is started.",
    Life.PAUSED: "Paused: nobody is asked and nothing is tried out until it is resumed; reports are still taken.",
}


class BestDecision(Reply, frozen=True):
    """The best decision so far, and how sure that is."""

    index: Count
    decision: Decision
    certified: Annotated[
        NotNegative | None,
        says("No decision is better by more than this, with the given confidence; null if nothing is known."),
    ]
    confidence: Annotated[Chance | None, says("null if the certificate promises nothing.")]
    expected_loss: Annotated[
        float | None,
        says(
            "What it is expected to lose per round, compared with the decision that is best; null if the policy "
            "does not estimate it."
        ),
    ]
    guardrails: Annotated[list[str], says("What is certified of each guardrail, or believed, in words.")]


class DecisionInForce(Reply, frozen=True):
    """The decision that is used now: the one that is tried out, or the best so far."""

    index: Count
    decision: Decision
    rounds: Annotated[Count, says("The number of rounds for which it stays in force.")]
    block: Annotated[
        Count,
        says(
            "The block of the wave in which these rounds are: devices record by block, and of 0 none: no round counts."
        ),
    ]


class CurrentDecision(DecisionInForce, frozen=True):
    """The decision in force, and how far the study is."""

    wave: Count
    stage: Stage


class StudyHold(Reply, frozen=True):
    """Why a study stands still."""

    cause: Cause
    sentence: Annotated[str, says("What it waits for, or what to do about it.")]


class WaveClosing(Reply, frozen=True):
    """What closing a wave would mean that still collects, and what ending the study would."""

    answers: Annotated[Count, says("Answers that are in; nothing is read of them, and ending the study deletes them.")]
    able: Annotated[bool, says("It can be closed now with those who answered.")]
    sentence: Annotated[str, says("What that costs, or why it is not possible.")]


class Status(Reply, frozen=True):
    """How far a study is."""

    study: str
    stage: Stage
    life: Annotated[Life, says("What operators decided: a draft is not begun, and a paused study asks nobody.")]
    state: Annotated[State, says("Both together, in a word or three.")]
    wave: Count
    rounds: Annotated[Count, says("Rounds of the wave.")]
    played: Annotated[Count, says("Rounds of the wave that have been played.")]
    people: Annotated[Count, says("People whose reports the wave needs.")]
    answered: Count
    invited: Annotated[Count, says("People who have not answered yet.")]
    short: Annotated[Count, says("People who are missing because too few have registered.")]
    funnel: Funnel
    registered: Count
    never_asked: Count
    withdrawn: Annotated[Count, says("People who have withdrawn.")]
    active: Annotated[Count, says("Actions that can still be best.")]
    in_force: DecisionInForce
    best: BestDecision
    forecast: Annotated[Forecast | None, says("What the open wave is expected to bring and to cost, if known.")]
    arms: Annotated[Count, says("Decisions that are played in the wave.")]
    reason: Annotated[str | None, says("Why the study is finished; null if it is not.")]
    warning: Annotated[str, says("What the model check found last; empty if nothing is wrong.")]
    holds: Annotated[list[StudyHold], says("Why the study stands still; empty if it goes on.")]
    closing: Annotated[WaveClosing | None, says("How the wave can be closed early; null if none collects.")]
    dates: Annotated[
        str, says("When the open wave is played, and when the study should end; empty without a calendar.")
    ]
    says: Annotated[list[str], says("The same in sentences.")]


class WatchedWave(Reply, frozen=True):
    """A closed wave."""

    wave: Count
    rounds: Count
    arms: Count
    people: Count
    active: Count
    width: float
    forecast: Annotated[Forecast | None, says("What it was expected to bring and to cost, if known.")]
    warning: Annotated[str, says("What the model check found afterwards; empty if nothing is wrong.")]


class PrivacySummary(Reply, frozen=True, omit_defaults=True):
    """What people are promised; null where nothing is."""

    privacy: str
    epsilon: float | None
    delta: float | None
    calibration: str | None
    caveats: list[str]
    honest: float = 1.0


class LedgerTotals(Reply, frozen=True):
    """What all releases together cost the person who is exposed the most."""

    releases: Count
    people: Count
    epsilon: Annotated[float | None, says("null if nothing is promised.")]
    delta: float
    guaranteed: bool


class Note(Reply, frozen=True):
    """What an operator noted about a wave."""

    wave: Count
    text: str
    actor: str
    at: Annotated[float, says("Seconds since 1970.")]


class Watch(Reply, frozen=True):
    """What can be seen of a study."""

    status: Status
    reward: str
    privacy: PrivacySummary
    waves: list[WatchedWave]
    actions: list[str]
    lower: Annotated[list[float | None], says("What each decision is certified to bring at least; null: nothing is.")]
    upper: list[float | None]
    estimates: Numbers
    active: list[Count]
    asked: list[Count]
    ledger: LedgerTotals
    budget: float | None
    notes: list[Note]


def notes_of(context: Context, study: str) -> list[Note]:
    """Return the notes on the waves of a study."""
    wanted = sa.select(notes.c.wave, notes.c.text, notes.c.actor, notes.c.at).where(notes.c.study == study)
    with context.database.read() as connection:
        return [Note(*row) for row in connection.execute(wanted.order_by(notes.c.wave))]


def status_of(context: Context, study: str) -> Status:
    """Return how far a study is."""
    now = context.clock()
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        snapshot = context.snapshots.current(study, connection)
        known = connection.execute(sa.select(counts).where(counts.c.study == study)).one()
        funnel = Invitations(connection, study, row.wave).funnel
        holds = _holds(context, connection, row, snapshot, now)
        collects = row.stage == Stage.COLLECTING and snapshot.wave is not None
        answered = max(funnel.answered, context.shuffled.get(study, 0)) if collects else 0
        closing = _closing(connection, row, snapshot, answered) if collects else None
    plan, asked = snapshot.pending, dated(snapshot, row, now)
    found = Status(
        study=study,
        stage=Stage(row.stage),
        life=Life(row.life),
        state=state_of(row.life, row.stage, row.short, row.newest is not None),
        wave=row.wave,
        rounds=plan.asked if plan else 0,
        played=steps.rounds_played(snapshot, row, time_of(row, now)) if plan else 0,
        people=plan.people if plan else 0,
        answered=answered,
        invited=max(0, row.invited - answered) if collects else 0,
        short=row.short,
        funnel=funnel,
        registered=known.registered,
        never_asked=known.never_asked,
        withdrawn=known.withdrawn,
        active=len(snapshot.state.active),
        in_force=in_force(snapshot, row, now),
        best=best_decision(snapshot),
        forecast=plan.forecast if plan else None,
        arms=len(plan.arms) if plan else 0,
        reason=snapshot.ended,
        warning=snapshot.warning,
        holds=[StudyHold(hold.cause, said_of(hold)) for hold in holds],
        closing=closing,
        dates=_dates(snapshot, asked.first, row.newest is not None) if asked else "",
        says=[],
    )
    return msgspec.structs.replace(found, says=sentences(found, snapshot.unanswered))


def _holds(context: Context, connection: sa.Connection, row: Any, snapshot: Snapshot, now: float) -> Sequence[Hold]:
    """Find out why a study stands still, if it does."""
    wave, holds = row.wave, []
    if row.short:
        apart = snapshot.definition.strata is not None and snapshot.wave is not None
        invited = Invitations(connection, row.id, wave)
        lacking = collecting.missing(snapshot, invited.held_by_stratum) if apart else {}
        holds.append(Hold(Cause.NOBODY_LEFT, wave, row.short, lacking=lacking))
    elif snapshot.wave is not None and row.newest is None:
        people, askable = snapshot.wave.plan.people, collecting.askable(connection, snapshot)
        if lacking := collecting.lacking(connection, snapshot):
            holds.append(Hold(Cause.FEW_PEOPLE, wave, people, askable, lacking))
    if behind := steps.clock_behind(snapshot, row, now):
        holds.append(Hold(Cause.CLOCK_BACK, wave, seconds=behind))
    record = context.released if row.stage == Stage.COLLECTING else None
    if record is not None and (lost := record.lost(connection, row.id)):
        holds.append(Hold(Cause.OLD_DATABASE, wave, lost=lost))
    return holds


def _closing(connection: sa.Connection, row: Any, snapshot: Snapshot, answered: int) -> WaveClosing:
    """Say what it would mean to close the wave now."""
    why = collecting.why_open(Invitations(connection, row.id, row.wave), snapshot)
    if not why and row.life == Life.PAUSED:
        why = "the study is paused; resume it first"
    if why:
        return WaveClosing(answered, False, f"Wave {row.wave} cannot be closed early: {why}.")
    return WaveClosing(answered, True, _price(snapshot, answered))


@lru_cache(KNOWN)
def _price(snapshot: Snapshot, answered: int) -> str:
    """Say what it costs to close the wave with those who answered."""
    plan, state = snapshot.open_wave.plan, snapshot.state
    ratio, cost = error_ratio(snapshot.problem, snapshot.privacy, state, plan, answered), price(plan, state)
    said = f"Closed now, wave {plan.wave} counts {counted(answered, 'answer')} of {plan.people:,}: {larger(ratio)}"
    return f"{said}{f', and {cost}' if cost else ''}."


def dated(snapshot: Snapshot, row: Any, now: float) -> Question | None:
    """Return the open wave with the rounds of the calendar in which it is played; None without a calendar or a wave.

    These are later than those of the journal if people lacked or took their time. If people lack now, its rounds would
    begin with the next one.
    """
    question, calendar = snapshot.question, snapshot.calendar
    if question is None or calendar is None:
        return None
    begun = time_of(row, now) if row.newest is None else row.opened_at
    return replace(question, first=calendar.begun(datetime.fromtimestamp(begun, UTC)) + 1)


@lru_cache(KNOWN)
def _dates(snapshot: Snapshot, first: int, begun: bool) -> str:
    """Say when the open wave is played, by when people should have answered, and when the study ends."""
    question, calendar = snapshot.question, snapshot.calendar
    assert question is not None
    assert calendar is not None
    asked, left = sum(question.rounds), snapshot.problem.horizon - snapshot.rounds
    span, deadline = calendar.span(first, asked), timedelta(seconds=snapshot.definition.rules.deadline)
    waits = "" if begun else ", if enough people register before"
    takes, begins = calendar.lasting(first, question.length), calendar.written(span.begins)
    ends = calendar.until(first, asked)
    played = f"on {ends}" if begins == ends else f"from {begins} to {ends}"
    said = [
        f"Wave {question.wave} takes {takes}: it is played {played}, time of {calendar.zone}{waits}",
        f"people then have until {calendar.written(span.ends + deadline, last=True)} to answer",
        *calendar.changes(first, question.length),
        f"the study's {snapshot.problem.horizon:,} rounds should end on {calendar.until(first, left)}",
    ]
    return "; ".join(said) + "."


def in_force(snapshot: Snapshot, row: Any, now: float) -> DecisionInForce:
    """Return the decision in force: the arm that is played, or the best so far while none is."""
    if snapshot.wave is None or not _plays(snapshot, row, now):
        return _decision(snapshot, snapshot.best)
    return _decision(snapshot, snapshot.best, snapshot.wave.plan, steps.rounds_played(snapshot, row, now))


def was_in_force(snapshot: Snapshot, stand: Any, when: float) -> DecisionInForce:
    """Return the decision that was in force at an earlier time, at which the study stood as a row of `stands` says."""
    closed = stand.wave - (stand.stage in UNRELEASED)
    best = snapshot.known[min(closed, len(snapshot.known) - 1)].best
    if not _plays(snapshot, stand, when):
        return _decision(snapshot, best)
    plan = snapshot.closed[closed].plan if closed < len(snapshot.closed) else snapshot.open_wave.plan
    return _decision(snapshot, best, plan, snapshot.definition.rounds_since(stand.opened_at, when))


def _decision(snapshot: Snapshot, best: int, plan: Plan | None = None, done: int = 0) -> DecisionInForce:
    """Return the decision after so many rounds of a wave, or the best one outside of them."""
    index, left, block = (best, 0, 0) if plan is None or done >= plan.asked else played_at(plan, done)
    return DecisionInForce(index, snapshot.definition.problem.decisions[index], left, block)


def _plays(snapshot: Snapshot, row: Any, when: float) -> bool:
    """Return True if the rounds of the wave in this row have begun, and are not held up."""
    begun = row.stage in IN_PLAY and row.newest is not None and row.life == Life.RUNNING
    return begun and (snapshot.calendar is None or snapshot.definition.rounds_since(row.opened_at, when) >= 0)


def played_at(plan: Plan, done: int) -> tuple[int, int, int]:
    """Return the action in force after so many rounds of a wave, for how many more of its block, and the block.

    The block is 0 in rounds that do not count.
    """
    if plan.washout:
        within = done % (plan.washout + plan.each)
        more = plan.washout - within + (plan.each if within >= plan.washout else 0)
        return int(plan.sequence[done]), more, int(plan.counting[done])
    if plan.orders is None:  # there may be very many rounds
        ends = np.cumsum(plan.pulls)
        place = int(np.searchsorted(ends, done, side="right"))
        return int(plan.arms[place]), int(ends[place]) - done, 1
    each = plan.asked // plan.blocks
    block = done // each + 1
    left = plan.sequence[done : block * each]
    others = np.flatnonzero(left != left[0])
    return int(left[0]), int(others[0]) if len(others) else len(left), block


def watched(context: Context, study: str) -> Watch:
    """Collect what follows from the log of a study, and how far the current wave is."""
    snapshot = context.snapshots.current(study)
    problem, (lower, upper), budget = snapshot.problem, snapshot.bounds, snapshot.ledger.budget
    return Watch(
        status=status_of(context, study),
        reward=snapshot.definition.reward,
        privacy=PrivacySummary(**snapshot.definition.privacy.describe()),
        waves=[
            WatchedWave(
                wave=wave.plan.wave,
                rounds=wave.plan.length,
                arms=len(wave.plan.arms),
                people=wave.feedback.count,
                active=wave.info.active_after,
                width=wave.info.max_width,
                forecast=wave.plan.forecast,
                warning=wave.info.warning,
            )
            for wave in snapshot.closed
        ],
        actions=[describe(problem.decisions[index]) for index in range(problem.size)],
        lower=[None if math.isnan(bound) else bound for bound in lower.tolist()],
        upper=[None if math.isnan(bound) else bound for bound in upper.tolist()],
        estimates=snapshot.estimates.tolist(),
        active=snapshot.state.active.tolist(),
        asked=snapshot.wave.plan.arms.tolist() if snapshot.wave else [],
        ledger=LedgerTotals(**snapshot.ledger.totals(budget.delta if budget else 0.0)),
        budget=budget.epsilon if budget else None,
        notes=notes_of(context, study),
    )


def best_decision(snapshot: Snapshot) -> BestDecision:
    """Return the best decision so far, what is certified about it, and what it is expected to lose."""
    now = Known.of(snapshot.definition, snapshot.state)
    return BestDecision(
        index=now.best,
        decision=snapshot.definition.problem.decisions[now.best],
        certified=now.certified if math.isfinite(now.certified) else None,  # JSON has no infinity
        confidence=confidence_of(snapshot.policy, snapshot.problem, len(snapshot.closed)),
        expected_loss=now.expected_loss,
        guardrails=[guard.said for guard in snapshot.state.guards],
    )


def sentences(status: Status, unanswered: str = "") -> list[str]:
    """Say in sentences what a status says in numbers, and why the study stands still, if it does.

    `unanswered` says what the best decision rests on, if nobody has answered yet.
    """
    said = [_in_force(status, unanswered), _expected_loss(status), _certified(status)]
    said += [f"Guardrail: {describe(status.best.decision)} {kept}." for kept in status.best.guardrails]
    if status.stage == Stage.FINISHED:
        said.append(f"Finished: {status.reason or 'no further wave is planned'}.")
    said += [
        LIVES.get(status.life, ""),
        collected(status),
        _forecast(status),
        status.dates,
        *(hold.sentence for hold in status.holds),
    ]
    if status.warning:
        said.append(f"Warning: {status.warning}")
    return [sentence for sentence in said if sentence]


def said_of(hold: Hold) -> str:
    """Say in a sentence why a study stands still, and what to do about it."""
    if hold.cause is Cause.NOBODY_LEFT:
        return (
            f"Waiting: {counted(hold.people, 'more person', 'more people')}{_strata(hold)} must register; everyone "
            f"else who may be asked in wave {hold.wave} has been, and its rounds are played again for the new ones."
        )
    if hold.cause is Cause.FEW_PEOPLE:
        return (
            f"Waiting: wave {hold.wave} needs {counted(hold.people, 'person', 'people')}, and {hold.askable:,} who can "
            f"be asked are registered; its rounds begin when {sum(hold.lacking.values()):,} more{_strata(hold)} are."
        )
    if hold.cause is Cause.CLOCK_BACK:
        return (
            f"Stopped: the coordinator's clock was set back, and is {hold.seconds:,.0f} s before the beginning of wave "
            f"{hold.wave}; its rounds go on when the clock has caught up, so set it right."
        )
    return f"Stopped: {hold.lost} was released before, and the database does not know it; restore the newer database."


def _strata(hold: Hold) -> str:
    """Say how many people of which strata lack, if there are strata."""
    lacking = ", ".join(f"{people:,} of {stratum}" for stratum, people in hold.lacking.items() if stratum is not None)
    return f" ({lacking})" if lacking else ""


def _in_force(status: Status, unanswered: str) -> str:
    now, best = status.in_force, status.best
    sentence = f"In force: {describe(now.decision)}"
    if now.rounds:
        sentence += f", for {counted(now.rounds, 'more round')} of wave {status.wave}"
    another = now.index != best.index
    if unanswered:
        chosen = f", otherwise {describe(best.decision)}" if another else ""
        return f"{sentence}{chosen}; {unanswered}."
    return f"{sentence}; best so far: {describe(best.decision)}." if another else f"{sentence}; it is the best so far."


def _certified(status: Status) -> str:
    best = status.best
    if best.certified is None or best.confidence is None:
        return "Not certified yet."
    limit = f" by more than {number(best.certified)}" if best.certified > 0 else ""
    sure = percent(best.confidence)
    which = "decision that keeps the guardrails" if best.guardrails else "decision"
    return f"Certified: no {which} is better than {describe(best.decision)}{limit}, with {sure} confidence."


def _expected_loss(status: Status) -> str:
    loss = status.best.expected_loss
    return "" if loss is None else f"Expected loss: {number(loss)} per round, compared with the best possible decision."


def collected(status: Status) -> str:
    """Say how many answers are in, while nobody may read them."""
    if status.closing is None:
        return ""
    lacking, answers = status.people - status.answered, counted(status.answered, "answer is", "answers are")
    if lacking <= 0:
        return f"Wave {status.wave} has all its answers ({status.answered:,}), and is being released."
    said = f"{answers} in of wave {status.wave}; nothing is read before the wave closes."
    return f"{said} It lacks {lacking:,}, and {counted(status.invited, 'person is', 'people are')} asked."


def _forecast(status: Status) -> str:
    expected = status.forecast
    if expected is None:
        return ""
    asked = f"{counted(status.people, 'person', 'people')} about {counted(status.arms, 'decision')}"
    return f"Wave {status.wave} asks {asked}; it is {expectation(expected)}."

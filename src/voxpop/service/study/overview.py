"""All studies at a glance, in a constant number of queries, however many there are and however long their logs.

What follows from a study's log is kept in `summaries`, with the number of the log's last event. A summary that is older
than its log is written anew when somebody looks; only then is the log read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from voxpop.journal.journal import Known
from voxpop.model.words import describe
from voxpop.service.messages import Count, Reply, says
from voxpop.service.refusals import Refusal
from voxpop.service.stores.database import insert_into
from voxpop.service.stores.schema import counts, invitations, studies, summaries, tallies
from voxpop.service.study.invitations import NAMES, Funnel
from voxpop.service.study.log import Context, Snapshot
from voxpop.service.study.released import created_at
from voxpop.service.study.stages import Life, Stage, State, state_of

MOST_TEXT = 200  # characters of a decision or a reason
MOST_STALE = 50  # summaries that one look writes anew; the others follow with the next


@dataclass(frozen=True)
class Summary:
    """What a list shows of a study's log."""

    created: float
    best: str  # the best decision so far, in words
    certified: float | None  # by how much another decision may be better at most
    answered: bool  # somebody has, so that the best decision is more than a guess
    people: int  # that the open wave needs
    rounds: int  # of the open wave
    rate: float | None  # rounds a second, of a clock that plays them
    warning: str  # of the model check
    reason: str  # why it is finished
    pilot: bool = False  # there was one, so that the best decision is more than a guess from the start
    calendar: dict[str, Any] | None = None  # its settings, if it plays the rounds
    guardrails: Sequence[str] = ()  # what is certified of each, or believed

    @classmethod
    def of(cls, snapshot: Snapshot, created: float) -> Summary:
        """Sum up a log."""
        plan, known = snapshot.pending, Known.of(snapshot.definition, snapshot.state)
        return cls(
            created,
            describe(snapshot.problem.decisions[known.best])[:MOST_TEXT],
            known.certified if math.isfinite(known.certified) else None,
            bool(snapshot.closed),
            int(plan.people) if plan else 0,
            int(plan.asked) if plan else 0,
            snapshot.definition.rules.rounds_per_second,
            snapshot.warning[:MOST_TEXT],
            (snapshot.ended or "")[:MOST_TEXT],
            bool(snapshot.definition.problem.pilot),
            None if snapshot.calendar is None else asdict(snapshot.calendar),
            [guard.said for guard in snapshot.state.guards],
        )


@dataclass(frozen=True)
class Glance:
    """One study at a glance: its row, its counters and its summary."""

    study: str
    stage: str
    life: str
    wave: int
    opened_at: float  # when a clock began to play the rounds of the wave
    life_since: float
    begun: bool  # the rounds of the wave have begun
    short: int  # people who are wanted but could not be found
    attempt: str | None
    has_code: bool  # people need one to register
    registered: int
    never_asked: int
    withdrawn: int
    closes_at: float | None  # the last deadline of those who are invited
    funnel: Funnel  # of the wave
    summary: Summary | None  # None: not written yet

    @property
    def state(self) -> State:
        """Where the study is, in a word or three."""
        return state_of(self.life, self.stage, self.short, self.begun)

    @property
    def wanted(self) -> int:
        """The people whom the wave needs; 0 if none is open."""
        return self.summary.people if self.summary is not None and self.stage != Stage.FINISHED else 0

    @property
    def answered(self) -> int:
        """The reports of the wave that were counted, while it collects."""
        return self.funnel.answered if self.stage == Stage.COLLECTING else 0


class StudyGlance(Reply, frozen=True):
    """A study at a glance."""

    study: str
    state: Annotated[State, says("Where it is, in a word or three.")]
    archived: bool
    wave: Count
    registered: Count
    people: Annotated[Count, says("Whom the open wave needs; 0 if none is open.")]
    answered: Annotated[Count, says("Who of them has answered.")]

    @classmethod
    def of(cls, at: Glance) -> StudyGlance:
        """Tell what the API tells of it."""
        archived = at.life == Life.ARCHIVED
        return cls(at.study, at.state, archived, at.wave, at.registered, at.wanted, at.answered)


def look(context: Context, only: str | None = None) -> tuple[Glance, ...]:
    """Return all studies, or one, by name; write stale summaries anew."""
    with context.database.read() as connection:
        rows = connection.execute(_wanted(only)).all()
    if stale := [row.id for row in rows if row.summed != row.seq][:MOST_STALE]:
        for study in stale:
            with suppress(Refusal, IntegrityError):  # deleted meanwhile
                with context.database.read() as connection:
                    snapshot = context.snapshots.current(study, connection)
                    summary = Summary.of(snapshot, created_at(connection, study) or 0.0)
                _write(context, study=study, seq=snapshot.seq, body=json.dumps(asdict(summary)))
        with context.database.read() as connection:
            rows = connection.execute(_wanted(only)).all()
    return tuple(map(_glance, rows))


def _wanted(only: str | None) -> sa.Select[Any]:
    """Select each study with its counters, its summary and its last deadline, which an index finds at once."""
    ours = (tallies.c.study == studies.c.id) & (tallies.c.wave == studies.c.wave)
    sums = [
        sa.select(sa.func.coalesce(sa.func.sum(tallies.c[name]), 0)).where(ours).scalar_subquery().label(name)
        for name in NAMES
    ]
    last = sa.select(sa.func.max(invitations.c.deadline)).where(
        invitations.c.study == studies.c.id, invitations.c.wave == studies.c.wave
    )
    closes = sa.case((studies.c.stage == Stage.COLLECTING, last.scalar_subquery()), else_=None).label("closes_at")
    known = [
        studies.c.id.label("study"),
        studies.c.newest.is_not(None).label("begun"),
        studies.c.enrolment_hash.is_not(None).label("has_code"),
        *(counts.c.registered, counts.c.never_asked, counts.c.withdrawn),
    ]
    wanted = (
        sa.select(studies, *known, summaries.c.seq.label("summed"), summaries.c.body, closes, *sums)
        .join(counts, counts.c.study == studies.c.id)
        .outerjoin(summaries, summaries.c.study == studies.c.id)
        .order_by(studies.c.id)
    )
    return wanted if only is None else wanted.where(studies.c.id == only)


def _glance(row: Any) -> Glance:
    found = {part.name: getattr(row, part.name) for part in fields(Glance) if part.name not in ("funnel", "summary")}
    summary = None if row.body is None else Summary(**json.loads(row.body))
    return Glance(**found, funnel=Funnel(*(int(getattr(row, name)) for name in NAMES)), summary=summary)


def _write(context: Context, **row: Any) -> None:
    """Write a summary anew, unless others have written a newer one."""
    with context.database.write() as connection:
        insert = insert_into(connection, summaries).values(**row)
        newer = {"seq": insert.excluded.seq, "body": insert.excluded.body}
        older = summaries.c.seq < insert.excluded.seq
        connection.execute(insert.on_conflict_do_update(index_elements=["study"], set_=newer, where=older))

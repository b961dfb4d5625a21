"""The coordinator without HTTP: what operators, applications, participants and the shuffler may ask of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from voxpop.core.errors import require_integer
from voxpop.privacy import Secure, Source
from voxpop.privacy.shuffle import Shuffled
from voxpop.service.keys import hash_key, same
from voxpop.service.refusals import Refusal, no_study, one
from voxpop.service.study import invitations as asking
from voxpop.service.study import log as journal
from voxpop.service.study import participants
from voxpop.service.study import steps as stepping
from voxpop.service.study.definition import Definition, require_name
from voxpop.service.study.log import Journal
from voxpop.service.study.snapshot import CREATED, Event, Record
from voxpop.stores.database import Database
from voxpop.stores.schema import operators, people, plays, studies, totals

MOST_ROUNDS = 10**15


@dataclass(frozen=True)
class Batch:
    """How far a batch is, as the shuffler says."""

    count: int
    withdrawn: tuple[bytes, ...]  # of the overdue tokens, those that can no longer answer
    answered: tuple[bytes, ...]  # and those that had


class ShufflerLink(Protocol):
    """The shuffler, as the coordinator knows it."""

    def announce(
        self, batch: str, coordinates: int, bits: int, size: int, tokens: list[bytes], overdue: list[bytes]
    ) -> Batch:
        """Tell it of a batch, of new tokens, and of tokens whose time is over; may be repeated."""

    def upload_address(self, batch: str) -> str:
        """Where devices send their reports."""


def _silent(kind: str, **values: Any) -> None: ...


@dataclass
class Coordinator:
    """Everything is in the database; two coordinators on one database get along."""

    database: Database
    secret: bytes
    shuffler: ShufflerLink | None = None
    noise: Source = field(default_factory=Secure)
    clock: Callable[[], float] = time.time
    note: Callable[..., None] = _silent  # says what happened: never a key, a token or a report
    lacking: dict[str, int] = field(default_factory=dict)  # reports that collecting phases lacked at the last step
    shuffled: dict[str, int] = field(default_factory=dict)  # answers the shuffler has, for watching

    def __post_init__(self) -> None:
        self.journal = Journal(self.database)

    # -- the operator

    def create(self, study: str, definition: Definition, enrolment: str | None = None) -> bool:
        """Create a study; False if the very same one exists already."""
        require_name(study)
        if definition.privacy.model == "shuffle" and self.shuffler is None:
            raise Refusal(409, "this coordinator has no shuffler; start it with --shuffler-url, or use another model")
        event = Event(0, CREATED, self.clock(), definition.as_dict())
        Record.begin(event)  # whatever is wrong with it shows now
        asking.require_affordable(definition)
        code = None if enrolment is None else hash_key(enrolment)
        row = {"id": study, "seq": 0, "phase": 0, "stage": "new", "played": 0, "opened_at": event.at, "short": 0}
        try:
            with self.database.write() as connection:
                connection.execute(sa.insert(studies).values(**row, enrolment_hash=code))
                journal.append(connection, study, event)
        except IntegrityError:
            with self.database.read() as connection:
                first, known = journal.read(connection, study)[0], self._row(connection, study).enrolment_hash
            if json.loads(first.text) == json.loads(event.text):
                if (known is None) != (code is None) or (known and code and not same(known, code)):
                    sentence = f"the study {study!r} exists with another enrolment code; nothing was changed"
                    raise Refusal(409, sentence) from None
                return False
            raise Refusal(409, f"there is another study {study!r} already; choose another name") from None
        self.note("created", study=study)
        return True

    def is_operator(self, key: str) -> bool:
        """Whether the key is an operator's."""
        given, found = hash_key(key), False
        with self.database.read() as connection:
            for known in connection.execute(sa.select(operators.c.key_hash)).scalars():
                found |= same(known, given)
        return found

    def add_operator(self, name: str, key: str) -> None:
        """Let another key in."""
        with self.database.write() as connection:
            connection.execute(sa.delete(operators).where(operators.c.name == name))
            connection.execute(sa.insert(operators).values(name=name, key_hash=hash_key(key)))

    def studies(self) -> list[str]:
        """The names of all studies."""
        with self.database.read() as connection:
            return list(connection.execute(sa.select(studies.c.id).order_by(studies.c.id)).scalars())

    def unfinished(self) -> list[str]:
        """The names of the studies that can still move."""
        wanted = sa.select(studies.c.id).where(studies.c.stage != "finished").order_by(studies.c.id)
        with self.database.read() as connection:
            return list(connection.execute(wanted).scalars())

    def log(self, study: str, start: int = 0) -> list[Event]:
        """The log of a study."""
        with self.database.read() as connection:
            if not journal.exists(connection, study):
                raise no_study(study)
            return journal.read(connection, study, start)

    def status(self, study: str) -> dict[str, Any]:
        """How far a study is, in numbers."""
        with self.database.read() as connection:
            row = self._row(connection, study)
            record = self.journal.record(study, connection)
            asked = asking.count(connection, study, row.phase)
            registered = sa.select(sa.func.count()).select_from(people).where(people.c.study == study)
            fresh = registered.where(people.c.participations == 0)
            enrolled, unasked = (connection.execute(query).scalar_one() for query in (registered, fresh))
        plan = record.current.plan if record.current else None
        collecting = row.stage == "collecting"
        return {
            "study": study,
            "stage": row.stage,
            "phase": row.phase,
            "rounds": plan.length if plan else 0,
            "played": stepping.played(record, row, self.clock()) if plan else 0,
            "participants": plan.participants if plan else 0,
            "answered": max(asked.answered, self.shuffled.get(study, 0)) if collecting else 0,
            "invited": asked.waiting if collecting else 0,
            "short": row.short,
            "registered": enrolled,
            "never_asked": unasked,
            "active": len(record.state.active),
            "best": {"index": record.best, "decision": record.definition.problem.decisions[record.best]},
        }

    # -- the application

    def decision(self, study: str) -> dict[str, Any]:
        """The decision in force now, and for how many more rounds."""
        with self.database.read() as connection:
            row = self._row(connection, study)
            known = self.journal.known(study)
            # In the same transaction, or the log could be a phase ahead of the row.
            record = known if known is not None and known.seq == row.seq else self.journal.record(study, connection)
        if record.seq != row.seq:  # another thread saw the next phase already: so will this one
            return self.decision(study)
        index, left = record.best, 0
        if record.current is not None and row.stage in ("open", "playing"):
            plan, done = record.current.plan, stepping.played(record, row, self.clock())
            ends = np.cumsum(plan.pulls)
            if done < plan.length:
                place = int(np.searchsorted(ends, done, side="right"))
                index, left = int(plan.arms[place]), int(ends[place]) - done
        decision = record.definition.problem.decisions[index]
        return {"phase": row.phase, "stage": row.stage, "index": index, "decision": decision, "rounds": left}

    def play(self, study: str, phase: int, key: str, rounds: int) -> dict[str, Any]:
        """Note that rounds were played; the same key again changes nothing."""
        require_integer("rounds", rounds, least=1, most=MOST_ROUNDS)
        record = self.journal.record(study)
        if record.definition.rules.rounds_per_second is not None:
            raise Refusal(409, f"a clock plays the rounds of {study!r}; they need not be reported")
        with self.database.write() as connection:
            row = journal.lock(connection, study)
            known = connection.execute(sa.select(plays).where(plays.c.study == study, plays.c.key == key)).first()
            if known is not None:
                if (known.phase, known.rounds) != (phase, rounds):
                    raise Refusal(409, f"rounds were reported under {key!r} before, and others; use a new name")
                return {"counted": 0, "played": row.played}
            if row.phase != phase or row.stage not in ("open", "playing"):
                raise Refusal(409, f"phase {phase} is not being played, phase {row.phase} is {row.stage}; ask again")
            record = self.journal.record(study, connection)
            assert record.current is not None
            counted = min(rounds, record.current.plan.length - row.played)
            done = row.played + counted
            connection.execute(sa.insert(plays).values(study=study, key=key, phase=phase, rounds=rounds))
            update = sa.update(studies).where(studies.c.id == study)
            connection.execute(update.values(stage="playing", played=done))
        return {"counted": counted, "played": done}

    # -- the participant

    def register(self, study: str, key: str, enrolment: str | None = None) -> bool:
        """Register a participant; False if the key is registered already."""
        return one(participants.register(self, [participants.Newcomer(study, key, enrolment)]))

    def checkin(self, study: str, key: str) -> str:
        """Whether a participant is invited, and if so all that the device needs; as JSON."""
        return one(participants.check_in(self, [(study, key)]))

    # -- the shuffler

    def take_total(self, batch: str, body: Any) -> bool:
        """Take what the shuffler forwards; False if it was taken before."""
        with self.database.write() as connection:
            found = connection.execute(sa.select(studies.c.id).where(studies.c.batch == batch)).scalar_one_or_none()
            if found is None:
                raise Refusal(410, "no phase waits for this batch; it was released, or never announced")
            row = journal.lock(connection, found)
            record = self.journal.record(found, connection)
            if row.batch != batch or record.current is None:
                raise Refusal(410, "no phase waits for this batch; it was released, or never announced")
            count, total, tokens = _checked_total(body, record)
            known = sa.select(totals.c.body).where(totals.c.study == found, totals.c.phase == row.phase)
            text = json.dumps({"count": count, "total": total})
            stored = connection.execute(known).scalar_one_or_none()
            if stored is not None:
                if stored != text:
                    raise Refusal(409, "another total was forwarded for this batch before; nothing was changed")
                return False
            if asking.live(connection, found, row.phase, tokens) != count:
                raise Refusal(
                    422, "the total counts tokens that are not invited to this phase; forward the whole batch"
                )
            connection.execute(sa.insert(totals).values(study=found, phase=row.phase, body=text))
            stepping.note_answered(connection, found, row.phase, tokens)
        self.note("total", study=found, phase=row.phase, people=count)
        return True

    # -- whoever drives

    def step(self, study: str) -> bool:
        """Do what can be done for a study now; whether anything was."""
        return stepping.step(self, study)

    def _row(self, connection: sa.Connection, study: str) -> Any:
        row = connection.execute(sa.select(studies).where(studies.c.id == study)).first()
        if row is None:
            raise no_study(study)
        return row


def _checked_total(body: Any, record: Record) -> tuple[int, list[int], list[bytes]]:
    """The parts of a forwarded total, if they can be those of the open phase."""
    assert record.current is not None
    release = record.current.release
    assert isinstance(release, Shuffled)
    try:
        count, total = int(body["count"]), [int(value) for value in body["total"]]
        tokens = [bytes.fromhex(token) for token in body["tokens"]]
    except (LookupError, TypeError, ValueError, OverflowError):
        raise Refusal(422, "a total has a count, the ones of each coordinate, and the tokens counted") from None
    most = count * release.encoding.bits
    if count != release.encoding.users or len(total) != len(release.ball.centre):
        raise Refusal(422, "the total is not that of the announced batch; forward the whole batch")
    if not len(tokens) == len(set(tokens)) == count:
        raise Refusal(422, f"a total of {count} people names {count} different tokens; forward the whole batch")
    if not all(0 <= value <= most for value in total):
        raise Refusal(422, "the total holds more ones than the batch has bits; count again")
    return count, total, tokens

"""The coordinator without HTTP: what it does for operators, applications, participants and the shuffler."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from voxpop.errors import InputError, require_integer
from voxpop.journal.journal import Opened
from voxpop.journal.wave import Wave
from voxpop.privacy.release import SHUFFLER
from voxpop.service import audit
from voxpop.service.audit import COMMAND_LINE, Action
from voxpop.service.keys import Keyring, check_of, hash_key, same
from voxpop.service.messages import Count, Reply
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.shuffler.signed_http import ShufflerLink
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import counts, marks, newest_person, notes, people, plays, stands, studies, totals
from voxpop.service.study import life, log, status
from voxpop.service.study.collecting import total_of
from voxpop.service.study.definition import Definition, require_affordable, require_code, require_name, require_sayable
from voxpop.service.study.invitations import Invitations
from voxpop.service.study.log import Context, Record, Snapshot, SqlJournal, text_of
from voxpop.service.study.stages import IN_PLAY, Life, Stage
from voxpop.service.study.status import CurrentDecision

MOST_ROUNDS = 10**15
MOST_NOTE = 200  # characters


class RoundsCounted(Reply, frozen=True):
    """The rounds that were counted now, and those played in the wave so far."""

    counted: Count
    played: Count


class Coordinator:
    """A coordinator; it keeps everything in the database, which several coordinators can share."""

    def __init__(
        self, database: Database, secret: Keyring | bytes, shuffler: ShufflerLink | None = None, **named: Any
    ) -> None:
        self.context = Context(database, Keyring.of(secret), shuffler, **named)
        self.database, self.snapshots = database, self.context.snapshots
        self._marked = b""  # nothing is written before the secret has changed

    def mark_secret(self) -> None:
        """Write down which secret is in use, if its file has changed: rotation looks there before it drops others."""
        mark = check_of(self.context.secrets.in_use)
        if self._marked not in (b"", mark):
            with self.database.write() as connection:
                connection.execute(sa.update(marks).where(marks.c.name == "secret").values(mark=mark))
        self._marked = mark

    # -- the operator

    def create(
        self,
        study: str,
        definition: Definition,
        enrolment: str | None = None,
        draft: bool = False,
        actor: str = COMMAND_LINE,
        public: bool = False,
    ) -> bool:
        """Create a study, or a draft of one; return False if the same study exists already.

        A draft takes the place of an earlier draft with the same name.
        """
        require_name(study)
        code = None if enrolment is None else hash_key(require_code(enrolment))
        second = definition.privacy.release_type.second
        if second is not None and self.context.shuffler is None:
            raise Refusal(409, f"this coordinator has no {second}; start it with --shuffler-url, or use another model")
        at, encoded = self.context.clock(), definition.encode()
        require_sayable(encoded)
        Snapshot.begin(definition)  # refuses a definition that cannot be used
        require_affordable(definition)
        row = {"id": study, "seq": 0, "wave": 0, "stage": Stage.NEW, "played": 0, "opened_at": at, "short": 0}
        begun = {"life": Life.DRAFT if draft else Life.RUNNING, "life_since": at}
        try:
            with self.database.write() as connection:
                replaced = life.make_room(connection, study)
                connection.execute(sa.insert(studies).values(**row, **begun, enrolment_hash=code, public=public))
                connection.execute(sa.insert(counts).values(study=study, registered=0, never_asked=0))
                SqlJournal(connection, study, at).begin(definition)
                log.note_stand(connection, study, at)
                action = Action.CHANGED if replaced else Action.CREATED
                audit.note(connection, at, actor, action, study, "as a draft" if draft else "")
        except IntegrityError:
            with self.database.read() as connection:
                first = SqlJournal(connection, study).records()[0]
                known = log.row_of(connection, study).enrolment_hash or None  # codes for one person came later
            new = json.loads(text_of(encoded))
            if first.body == new:
                if (known is None) != (code is None) or (known and code and not same(known, code)):
                    sentence = f"the study {study!r} exists with another enrolment code; nothing was changed"
                    raise Refusal(409, sentence) from None
                return False
            other = [part for part in sorted({*new, *first.body}) if new.get(part) != first.body.get(part)]
            sentence = f"there is already another study {study!r}, with another {' and '.join(other)}"
            wait = ", or pause this one while nothing shall be played" if "calendar" in other else ""
            raise Refusal(409, f"{sentence}, and what has begun never changes; choose another name{wait}") from None
        self.context.note("created", study=study)
        return True

    def studies(self, archived: bool = True) -> list[str]:
        """Return the names of all studies; of those that are archived only if asked to."""
        wanted = sa.select(studies.c.id).order_by(studies.c.id)
        with self.database.read() as connection:
            found = connection.execute(wanted if archived else wanted.where(studies.c.life != Life.ARCHIVED))
            return list(found.scalars())

    def unfinished(self, among: Collection[str] | None = None) -> dict[str, tuple[Any, ...]]:
        """Return the studies that have steps to take, by name, each with what changes when something happens in it.

        A study that is paused or over has one if the shuffler may hold what it must not keep. If names are given, only
        the studies among them are looked at.
        """
        parts = (studies.c.seq, studies.c.stage, studies.c.played, studies.c.invited)
        people = (counts.c.registered, counts.c.withdrawn)
        wanted = sa.select(studies.c.id, *parts, *people).join(counts, counts.c.study == studies.c.id)
        if among is not None:
            wanted = wanted.where(studies.c.id.in_(sorted(among)))
        runs = (studies.c.stage != Stage.FINISHED) & (studies.c.life == Life.RUNNING)
        with self.database.read() as connection:
            rows = connection.execute(wanted.where(runs | studies.c.batch.is_not(None)).order_by(studies.c.id))
            return {name: tuple(signs) for name, *signs in rows}

    def log(self, study: str, start: int = 0) -> list[Record]:
        """Return the records of a study's log numbered `start` and above."""
        with self.database.read() as connection:
            log.row_of(connection, study)
            return SqlJournal(connection, study).records(start)

    # -- the application

    def decision(self, study: str, at: str | None = None) -> CurrentDecision:
        """Return the decision in force and for how many more rounds it is, now or `at` another time."""
        with self.database.read() as connection:
            row = log.row_of(connection, study)
            if row.life == Life.DRAFT:
                raise no_study(study)
            # In the same transaction; otherwise the log could be a wave ahead of the row.
            snapshot = self.snapshots.at(study, row.seq, connection)
        if snapshot.seq != row.seq:  # another thread has already read the next wave: read again
            return self.decision(study, at)
        when = now = self.context.clock()
        if at is not None:
            if snapshot.calendar is None:
                raise Refusal(409, f"the study {study!r} has no calendar; ask for the decision in force now")
            when = snapshot.calendar.moment(at.replace(" ", "+")).timestamp()  # a plus in an address is a space
        if when < now:
            row, snapshot = self._stood(row, snapshot, when, at)
            found = status.was_in_force(snapshot, row, when)
        else:
            found = status.in_force(snapshot, row, when)
        return CurrentDecision(found.index, found.decision, found.rounds, found.block, row.wave, Stage(row.stage))

    def _stood(self, row: Any, snapshot: Snapshot, when: float, at: str | None) -> tuple[Any, Snapshot]:
        """Find where a study stood at an earlier time, with a wave that was never released, if it was then open."""
        wanted = sa.select(stands).where(stands.c.study == row.id, stands.c.at <= when)
        with self.database.read() as connection:
            stand = connection.execute(wanted.order_by(stands.c.id.desc()).limit(1)).first()
            unreleased = stand is not None and stand.stage in IN_PLAY and stand.wave > len(snapshot.closed)
            if unreleased and snapshot.wave is None:
                *_, last = [event for event in SqlJournal(connection, row.id).read() if isinstance(event, Opened)]
                snapshot = replace(snapshot, wave=Wave(last.plan, last.release))
        if stand is None and when < row.opened_at:
            raise Refusal(409, f"nothing is known of {row.id!r} at {at}, before it began; ask for a later time")
        return stand or row, snapshot  # an older version kept no stands

    def open_decisions(self, study: str, public: bool, actor: str = COMMAND_LINE) -> bool:
        """Let anyone read the decision in force, or only those who have a key; return False if it was so before."""
        with self.database.write() as connection:
            if log.row_of(connection, study, lock=True).public == public:
                return False
            log.update_study(connection, study, public=public)
            action = Action.OPENED_UP if public else Action.CLOSED_UP
            audit.note(connection, self.context.clock(), actor, action, study)
        return True

    def note(self, study: str, wave: int, text: str, actor: str = COMMAND_LINE) -> None:
        """Write a note on a wave, such as "holiday week", in place of the one before; an empty one removes it."""
        text, at = " ".join(text.split()), self.context.clock()
        if len(text) > MOST_NOTE or not text.isprintable():
            raise InputError(f"a note has at most {MOST_NOTE} printable characters, got {len(text):,}; shorten it")
        with self.database.write() as connection:
            if not 1 <= wave <= log.row_of(connection, study).wave:
                raise Refusal(404, f"{study!r} has no wave {wave} yet; write a note on one that was opened")
            ours = sa.delete(notes).where(notes.c.study == study, notes.c.wave == wave)
            if not connection.execute(ours).rowcount and not text:
                return
            if text:
                row = {"study": study, "wave": wave, "text": text, "actor": actor[:64], "at": at}
                connection.execute(sa.insert(notes).values(**row))
            audit.note(connection, at, actor, Action.NOTED, study, f"wave {wave}: {text or 'removed'}")

    def may_read(self, study: str, key: str | None) -> bool:
        """Return True if anyone may read the decision in force, or if this is the key of one who registered."""
        with self.database.read() as connection:
            if log.row_of(connection, study).public:
                return True
            ours = (people.c.study == study, people.c.key_hash == hash_key(key or ""), ~people.c.withdrawn)
            return connection.execute(sa.select(people.c.id).where(*ours)).first() is not None

    def play(self, study: str, wave: int, key: str, rounds: int) -> RoundsCounted:
        """Count the rounds that the application played; repeating a key changes nothing."""
        require_integer("rounds", rounds, least=1, most=MOST_ROUNDS)
        if self.snapshots.current(study).definition.by_clock:
            raise Refusal(409, f"a clock plays the rounds of {study!r}; they need not be reported")
        with self.database.write() as connection:
            row = log.row_of(connection, study, lock=True)
            known = connection.execute(sa.select(plays).where(plays.c.study == study, plays.c.key == key)).first()
            if known is not None:
                if (known.wave, known.rounds) != (wave, rounds):
                    raise Refusal(409, f"other rounds were reported under {key!r} before; use a new name")
                return RoundsCounted(0, row.played)
            if row.life != Life.RUNNING:
                raise Refusal(409, f"the study {study!r} is {row.life}; its rounds are not counted now")
            if row.wave != wave or row.stage not in IN_PLAY:
                raise Refusal(409, f"wave {wave} is not being played, wave {row.wave} is {row.stage}; ask again")
            snapshot = self.snapshots.current(study, connection)
            if row.newest is None:
                needed = snapshot.open_wave.plan.people
                sentence = f"the rounds of wave {wave} begin when {needed} people who can be asked are registered"
                raise Refusal(409, f"{sentence}; ask for the decision in force again")
            begun = row.newest if row.played else newest_person(connection)  # nobody has missed a round so far
            counted = min(rounds, snapshot.open_wave.plan.asked - row.played)
            done = row.played + counted
            connection.execute(sa.insert(plays).values(study=study, key=key, wave=wave, rounds=rounds))
            log.update_study(connection, study, stage=Stage.PLAYING, played=done, newest=begun)
        return RoundsCounted(counted, done)

    # -- the shuffler

    def take_total(self, batch: str, count: int, total: list[int], tokens: list[bytes]) -> bool:
        """Store the total that the shuffler forwards; return False if it was stored before."""
        with self.database.write() as connection:
            waits = sa.select(studies).where(studies.c.batch == batch).with_for_update(key_share=True)
            row = connection.execute(waits).first()
            snapshot = None if row is None else self.snapshots.current(row.id, connection)
            wave = None if snapshot is None else snapshot.wave
            if row is None or wave is None or wave.release.second != SHUFFLER:  # a helper is asked for totals
                raise Refusal(410, "no wave waits for this batch; it was released, or never announced")
            assert wave.release.batch is not None, "only a wave with a batch waits for a total"
            try:
                wave.release.batch.require_total(count, total)
            except InputError as error:
                raise Refusal(422, str(error)) from None
            if not len(tokens) == len(set(tokens)) == count:
                raise Refusal(422, f"a total of {count} people names {count} different tokens; forward the whole batch")
            text, stored = json.dumps({"count": count, "total": total}), total_of(connection, row.id, row.wave)
            if stored is not None:
                if stored != text:
                    raise Refusal(409, "another total was forwarded for this batch before; nothing was changed")
                return False
            invited = Invitations(connection, row.id, row.wave)
            if invited.held_by(tokens) != count:
                raise Refusal(422, "the total counts tokens that are not invited to this wave; forward the whole batch")
            connection.execute(sa.insert(totals).values(study=row.id, wave=row.wave, body=text))
            invited.note_answered(tokens)
        self.context.note("total", study=row.id, wave=row.wave, people=count)
        return True

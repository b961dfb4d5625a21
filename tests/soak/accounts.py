"""What the people of each study were told, and whether the coordinator's log agrees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tests.soak.studies import Kind
from voxpop.service.demo.replay import disagreements
from voxpop.service.study.events import Event
from voxpop.service.study.events import Kind as Entry
from voxpop.stores.database import Database
from voxpop.stores.schema import inbox, invitations, people, receipts, studies

HARMLESS = (None, "ANSWERED", "TOO_LATE")  # what may become of a report; None: nobody said


@dataclass
class Account:
    """One study as its people and its application saw it."""

    name: str
    kind: Kind
    number: int
    told: dict[int, dict[str, Any]] = field(default_factory=dict)  # by person: the last word on their report
    log: list[Event] = field(default_factory=list)
    registered: int = 0
    over: bool = False  # its devices have ended
    checked: bool = False
    confirmed: int = 0  # reports of which only the database knew that they were counted
    late: int = 0
    moved: float = 0.0  # when it last made progress, by the monotonic clock
    faults: list[str] = field(default_factory=list)

    @property
    def acknowledged(self) -> int:
        """The number of people who were told that their report was counted."""
        return sum(word["verdict"] == "ANSWERED" for word in list(self.told.values()))

    @property
    def phases(self) -> int:
        """The number of released phases."""
        return sum(event.kind == Entry.CLOSED for event in self.log)

    def hear(self, word: dict[str, Any]) -> None:
        """Take down what a device says of its report."""
        before = self.told.get(word["person"])
        if before is not None and before["verdict"] == "ANSWERED":
            self.faults.append(f"person {word['person']} of {self.name} answered twice")
        if len(word["reports"]) != 1:
            self.faults.append(f"person {word['person']} of {self.name} made {len(word['reports'])} reports")
        if word["verdict"] not in HARMLESS:
            self.faults.append(f"a report of {self.name} ended with {word['verdict']}")
        self.told[word["person"]] = word

    def read(self, log: list[Event]) -> None:
        """Compare the log with what it was before: it may only have grown, one event after the other."""
        if [event.seq for event in log] != list(range(len(log))):
            self.faults.append(f"the log of {self.name} has gaps or repetitions")
        if log[: len(self.log)] != self.log:
            self.faults.append(f"the log of {self.name} changed in its past")
        phases = [event.body["plan"]["phase"] for event in log if event.kind == Entry.OPENED]
        kinds = [event.kind for event in log if event.kind in (Entry.OPENED, Entry.CLOSED)]
        in_turn = all(kind == (Entry.OPENED, Entry.CLOSED)[place % 2] for place, kind in enumerate(kinds))
        if phases != list(range(1, len(phases) + 1)) or not in_turn:
            self.faults.append(f"a phase of {self.name} was opened or released twice")
        self.log = log


def audit(account: Account, database: Database, shuffled: Callable[[str], int]) -> list[str]:
    """Return what is wrong with a study whose devices have ended, ideally nothing."""
    participated, counted, waiting, batch = _stored(database, account.name)
    reports: dict[int, list[list[float]]] = defaultdict(list)
    found = list(account.faults)
    for word in account.told.values():
        in_database = participated.get(word["key"], 0)
        if word["verdict"] == "TOO_LATE":
            account.late += 1
            if in_database:
                found.append(f"{account.name}: person {word['person']} was told too late, but was counted")
            continue
        if word["verdict"] is None:
            if not in_database:
                continue
            account.confirmed += 1
        for phase, report in word["reports"]:
            reports[phase].append(report)
    if max(participated.values(), default=0) > 1:
        found.append(f"{account.name}: somebody took part more than once")
    closed = _closed(account.log)
    for phase, number in closed.items():
        if len(reports[phase]) != number:
            found.append(f"{account.name}, phase {phase}: {len(reports[phase])} acknowledged, {number} released")
    if sum(closed.values()) != sum(participated.values()):
        found.append(f"{account.name}: {sum(closed.values())} released, {sum(participated.values())} took part")
    current = {phase: len(those) for phase, those in reports.items() if phase not in closed and those}
    if current:
        ((phase, number),) = current.items()
        held = shuffled(batch) if account.kind.model == "shuffle" and batch else waiting.get(phase, 0)
        if number > held:
            found.append(f"{account.name}, phase {phase}: {number} acknowledged, {held} stored")
    if not found and counted < sum(closed.values()):
        found.append(f"{account.name}: {counted} receipts for {sum(closed.values())} released reports")
    return found + [f"{account.name}: {text}" for text in disagreements(account.log, reports, own_noise=True)]


def _closed(log: list[Event]) -> dict[int, int]:
    """Return the number of released reports of each phase."""
    phases = [event.body["plan"]["phase"] for event in log if event.kind == Entry.OPENED]
    counts = [event.body["feedback"]["count"] for event in log if event.kind == Entry.CLOSED]
    return dict(zip(phases, counts, strict=False))


def _stored(database: Database, study: str) -> tuple[dict[str, int], int, dict[int, int], str | None]:
    """Read how often each person took part, the number of receipts, the inbox by phase, and the open batch."""
    mine = sa.select(people.c.key_hash, people.c.participations).where(people.c.study == study)
    joined = receipts.join(invitations, receipts.c.invitation == invitations.c.id)
    many = sa.select(sa.func.count()).select_from(joined).where(invitations.c.study == study)
    waiting = sa.select(inbox.c.phase, sa.func.count()).where(inbox.c.study == study).group_by(inbox.c.phase)
    with database.read() as connection:
        participated = {row.key_hash.hex(): row.participations for row in connection.execute(mine)}
        counted = int(connection.execute(many).scalar_one())
        held = {int(phase): int(number) for phase, number in connection.execute(waiting)}
        batch = connection.execute(sa.select(studies.c.batch).where(studies.c.id == study)).scalar_one()
    return participated, counted, held, batch

"""What the people of each study were told, and whether the coordinator's log agrees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.soak.stored import Stored
from tests.soak.studies import Kind
from voxpop.service.demo.crowd import disagreements
from voxpop.service.study.log import Record
from voxpop.service.study.stages import Kind as Entry

HARMLESS = (None, "ANSWERED", "TOO_LATE")  # what may become of a report; None: nobody said


@dataclass
class Account:
    """One study as its people and its application saw it."""

    name: str
    kind: Kind
    number: int
    told: dict[int, dict[str, Any]] = field(default_factory=dict)  # by person: the last word on their report
    log: list[Record] = field(default_factory=list)
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
    def waves(self) -> int:
        """The number of released waves."""
        return sum(event.kind == Entry.CLOSED for event in self.log)

    def hear(self, word: dict[str, Any]) -> None:
        """Take down what a device says of its report."""
        before = self.told.get(word["person"])
        if before is not None and before["verdict"] == "ANSWERED":
            self.faults.append(f"person {word['person']} answered twice")
        if len(word["reports"]) != 1:
            self.faults.append(f"person {word['person']} made {len(word['reports'])} reports")
        if word["verdict"] not in HARMLESS:
            self.faults.append(f"a report ended with {word['verdict']}")
        self.told[word["person"]] = word

    def read(self, log: list[Record]) -> None:
        """Compare the log with what it was before: it may only have grown, one event after the other."""
        if [event.seq for event in log] != list(range(len(log))):
            self.faults.append("the log has gaps or repetitions")
        if log[: len(self.log)] != self.log:
            self.faults.append("the log changed in its past")
        waves = [event.body["plan"]["wave"] for event in log if event.kind == Entry.OPENED]
        kinds = [event.kind for event in log if event.kind in (Entry.OPENED, Entry.CLOSED)]
        in_turn = all(kind == (Entry.OPENED, Entry.CLOSED)[place % 2] for place, kind in enumerate(kinds))
        if waves != list(range(1, len(waves) + 1)) or not in_turn:
            self.faults.append("a wave was opened or released twice")
        self.log = log


def audit(account: Account, found: Stored, shuffled: Callable[[str], int]) -> list[str]:
    """Return what is wrong with a study whose devices have ended, ideally nothing.

    `shuffled` tells how many reports of an open batch the shuffler holds.
    """
    wrong = list(account.faults)
    reports, blocks = _counted(account, found, wrong)
    closed = _closed(account.log)
    for wave, number in closed.items():
        if len(reports[wave]) != number:
            wrong.append(f"wave {wave}: {len(reports[wave])} reports were acknowledged, and {number} released")
    took_part = sum(found.participations.values())
    if max(found.participations.values(), default=0) > 1 or took_part != sum(closed.values()):
        wrong.append(f"{sum(closed.values())} reports were released, and people took part {took_part} times")
    if found.receipts < took_part:
        wrong.append(f"there are {found.receipts} receipts for {took_part} reports")
    for wave in reports.keys() - closed.keys():
        held = found.inbox.get(wave, 0) if found.batch is None else shuffled(found.batch)
        if len(reports[wave]) > held:
            wrong.append(f"wave {wave}: {len(reports[wave])} reports were acknowledged, and {held} are stored")
    if not wrong:  # otherwise these are not the reports that were released
        wrong = disagreements(account.log, reports, own_noise=True, blocks=blocks)
    return [f"{account.name}: {sentence}" for sentence in wrong]


def _counted(
    account: Account, found: Stored, wrong: list[str]
) -> tuple[dict[int, list[list[float]]], dict[int, list[int]]]:
    """Collect the reports that must be in releases, and their blocks: those told counted or that the database has."""
    reports: dict[int, list[list[float]]] = defaultdict(list)
    blocks: dict[int, list[int]] = defaultdict(list)
    account.late = account.confirmed = 0
    for word in account.told.values():
        took_part = found.participations.get(word["key"], 0)
        if word["verdict"] == "TOO_LATE":
            account.late += 1
            if took_part:
                wrong.append(f"person {word['person']} was told that it was too late, and was counted")
        elif word["verdict"] == "ANSWERED" or took_part:
            account.confirmed += word["verdict"] != "ANSWERED"
            for wave, report, block in word["reports"]:
                reports[wave].append(report)
                blocks[wave].append(block)
    return reports, blocks


def _closed(log: list[Record]) -> dict[int, int]:
    """Return the number of released reports of each wave."""
    waves = [event.body["plan"]["wave"] for event in log if event.kind == Entry.OPENED]
    counts = [event.body["feedback"]["count"] for event in log if event.kind == Entry.CLOSED]
    return dict(zip(waves, counts, strict=False))

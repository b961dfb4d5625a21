"""Saved studies of format version 2: a file that was replaced at every step, and a record of its releases beside it.

They are read here, and the next change writes a journal in their place. The record of a private study may know steps
that the file does not, if its program was killed in between or if the file is an older copy; they are taken from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from voxpop.errors import InputError
from voxpop.io.files import read_text, write_durably
from voxpop.io.schema import decode, unpack
from voxpop.journal.journal import Course, Definition, Event, Opened, Released, TakenBack
from voxpop.model.direction import Direction
from voxpop.model.waves import Feedback, Plan
from voxpop.privacy import Entry, NoPrivacy

ENDING = ".releases"
RECORD = "voxpop release"


@dataclass(frozen=True)
class OldStudy:
    """A saved study of version 2 as a journal would hold it."""

    VERSION: ClassVar[int] = 2
    path: Path
    text: str
    record: str
    definition: Definition
    events: tuple[Event, ...]

    @classmethod
    def read(cls, path: Path, newest: bool = False) -> OldStudy:
        """Read the file and its record; refuse a record that lacks steps, unless the file is surely the newest."""
        text, record = _texts(path)
        data = unpack("voxpop study", text, str(path), dict)
        definition, course, events = unpack("voxpop study", text, str(path), lambda data: _begun(data, path.stem))
        if definition.privacy.model != NoPrivacy.model:
            events += _released_since(path, record, course, data.get("events", 0), newest)
        return cls(path, text, record, definition, tuple(events))

    def keep(self) -> None:
        """Keep the file under another name, before a journal takes its place; refuse if it has changed meanwhile."""
        if _texts(self.path) != (self.text, self.record):
            raise InputError(
                f"{self.path} was changed by another program after this one opened it; repeat the command, or open it "
                "again with Study.load"
            )
        write_durably(self.kept_as, self.text)

    @property
    def kept_as(self) -> Path:
        """Where the old file is kept."""
        return self.path.with_name(f"{self.path.name}.version-{self.VERSION}")


def _texts(path: Path) -> tuple[str, str]:
    """Return the file and the whole lines of its record."""
    text, record = read_text(path), path.with_suffix(ENDING)
    lines = read_text(record) if record.exists() else ""
    return text, lines[: lines.rfind("\n") + 1]


def _begun(data: Mapping[str, Any], name: str) -> tuple[Definition, Course, list[Event]]:
    """Return the study's definition, its course, and the events that lead there."""
    direction = Direction.of(data.get("direction", Direction.MAXIMIZE))
    about = {"name": name, "reward": direction.measure, "direction": direction}
    definition = Definition.decode({**about, **{part: data[part] for part in data if part not in ("log", "pending")}})
    charged = [_entry(entry) for entry in data["ledger"]]
    last = {entry.wave: place for place, entry in enumerate(charged)}
    closed = [last.pop(place + 1) for place in range(len(data["log"]))]  # the others were taken back
    rest = tuple(entry for place, entry in enumerate(charged) if place not in closed)
    definition = replace(definition, charged=rest)
    course, events = Course.begin(definition), list[Event]()
    for place, (plan, feedback) in enumerate(data["log"]):
        course = _add(course, events, _opened(course, plan))
        course = _add(course, events, Released(decode(Feedback, feedback), charged[closed[place]]))
    if data["pending"] is not None:
        course = _add(course, events, _opened(course, data["pending"]))
    return definition, course, events


def _released_since(path: Path, text: str, course: Course, known: int, newest: bool) -> list[Event]:
    """Return what the record knows and the file does not."""
    record, events = path.with_suffix(ENDING), list[Event]()
    lines = [unpack(RECORD, line, f"{record}, line {place}", dict) for place, line in enumerate(text.splitlines(), 1)]
    if len(lines) < known and not newest:
        raise InputError(
            f"{record} knows {len(lines)} of the {known} steps that {path} has recorded there; restore {record}, or "
            f"open {path} with --newest (newest=True) if it is surely the newest copy"
        )
    different = InputError(f"{path} and {record} are of different studies or copies; restore both from the newest copy")
    if not all(_entry(line["entry"]) in course.entries for line in lines[:known] if "entry" in line):
        raise different
    for line in lines[known:]:
        wave = line["plan"]["phase"] if "plan" in line else line["taken back"]
        if wave != len(course.closed) + ("plan" in line):
            raise different
        if "plan" not in line:
            course = _add(course, events, TakenBack(wave))
            continue
        if course.wave is None:
            course = _add(course, events, _opened(course, line["plan"]))
        course = _add(course, events, Released(decode(Feedback, line["feedback"]), _entry(line["entry"])))
    return events


def _add(course: Course, events: list[Event], event: Event) -> Course:
    events.append(event)
    return course.after(event)


def _opened(course: Course, plan: Mapping[str, Any]) -> Opened:
    made = decode(Plan, _renamed(plan))
    return Opened(made, course.privacy.calibrate(course.problem, course.state.unsealed, made))


def _entry(data: Mapping[str, Any]) -> Entry:
    return decode(Entry, _renamed(data))


def _renamed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data of version 2 with today's name of a wave."""
    return {"wave" if name == "phase" else name: value for name, value in data.items()}

"""The record of a private study's releases: a file beside the saved study, to which lines are only ever added.

A release is written here before the study is saved, so that a study restored from an older copy, or one whose program
was killed in between, finds in its record what has been released since and goes on from there. Nothing is released
twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxpop.errors import InputError
from voxpop.io import schema as wire
from voxpop.io.files import append_durably
from voxpop.model.waves import Answered
from voxpop.privacy import Entry

KIND = "voxpop release"
ENDING = ".releases"


@dataclass(frozen=True, eq=False)
class Released:
    """A wave was released, which the ledger was charged for."""

    answered: Answered
    entry: Entry


@dataclass(frozen=True)
class TakenBack:
    """The answers of a wave were taken back after their release, which stays charged."""

    wave: int


Event = Released | TakenBack


class Record:
    """The record beside a saved study."""

    def __init__(self, study: Path) -> None:
        self.path = study.with_suffix(ENDING)
        if self.path == study:
            raise InputError(f"{study} has the ending of a record of releases; give the study another, such as .json")

    def read(self) -> list[Event]:
        """Return what happened, in order. A last line that was cut short was never acknowledged, and is left out."""
        lines = self._lines().decode(errors="replace").splitlines()
        return [
            wire.unpack(KIND, line, f"{self.path}, line {number}", _event) for number, line in enumerate(lines, start=1)
        ]

    def digest(self) -> str:
        """Compute a digest of what the record holds."""
        return hashlib.sha256(self._lines()).hexdigest()

    def size(self) -> int:
        """Return the bytes of its whole lines."""
        return len(self._lines())

    def append(self, events: Sequence[Event]) -> None:
        """Add events durably."""
        lines = "".join(f"{wire.pack(KIND, _content(event))}\n" for event in events)
        append_durably(self.path, self.size(), lines.encode())

    def cut(self, size: int) -> None:
        """Remove events that nobody has seen, because the study could not be saved after them."""
        append_durably(self.path, size, b"")

    def _lines(self) -> bytes:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise InputError(f"cannot read {str(self.path)!r}: {error.strerror}; check the path") from None
        return data[: data.rfind(b"\n") + 1]


def _content(event: Event) -> dict[str, Any]:
    if isinstance(event, TakenBack):
        return {"taken back": event.wave}
    plan, feedback = event.answered
    return {
        "plan": wire.plan_to_dict(plan),
        "feedback": wire.feedback_to_dict(feedback),
        "entry": event.entry.as_dict(),
    }


def _event(content: dict[str, Any]) -> Event:
    if "taken back" in content:
        return TakenBack(content["taken back"])
    answered = Answered(wire.plan_from_dict(content["plan"]), wire.feedback_from_dict(content["feedback"]))
    return Released(answered, Entry.from_dict(content["entry"]))

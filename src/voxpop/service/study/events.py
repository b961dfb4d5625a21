"""The events of a study's log: its definition, plans with their public constants, and released averages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from voxpop.io import schema as wire
from voxpop.io.schema import release_from_dict, release_to_dict
from voxpop.journal.wave import Wave
from voxpop.model.waves import Feedback, Plan
from voxpop.privacy import Entry


class Kind(StrEnum):
    """The kinds of event, in the order in which they occur."""

    CREATED = "created"
    OPENED = "opened"
    CLOSED = "closed"
    FINISHED = "finished"


@dataclass(frozen=True)
class Event:
    """One entry of the log."""

    seq: int
    kind: Kind
    at: float  # seconds since 1970; for readers only, nothing is computed from it
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """The body as JSON, as it is stored."""
        return json.dumps(self.body, allow_nan=False, separators=(",", ":"))


def opened_body(wave: Wave) -> dict[str, Any]:
    """Write the body of an `opened` event."""
    return {"plan": wire.encode(wave.plan), "release": release_to_dict(wave.release)}


def opened_wave(body: dict[str, Any]) -> Wave:
    """Read what `opened_body` wrote."""
    return Wave(wire.decode(Plan, body["plan"]), release_from_dict(body["release"]))


def closed_body(feedback: Feedback, entry: Entry) -> dict[str, Any]:
    """Write the body of a `closed` event."""
    return {"feedback": wire.encode(feedback), "entry": wire.encode(entry)}


def closed_parts(body: dict[str, Any]) -> tuple[Feedback, Entry]:
    """Read what `closed_body` wrote."""
    return wire.decode(Feedback, body["feedback"]), wire.decode(Entry, body["entry"])

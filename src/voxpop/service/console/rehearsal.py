"""Rehearsals of a new study: what it would take and what it would find, if the model is right.

All trust models are rehearsed with the same truths and the same people, so that the difference is the price of the
promise. It is the median of a few rehearsals, as many as there is time for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from voxpop.core.errors import InputError
from voxpop.lab.outcomes import Outcome, rehearse
from voxpop.service.study.definition import definition_of

NO_TIME = "there was no time to rehearse this; try it alone, or again in a moment"

Promise = tuple[str, Mapping[str, Any] | None]  # what it is called, and the table [privacy], if anything is promised


@dataclass(frozen=True)
class Price:
    """What some rehearsals with the same promise took, as medians."""

    label: str
    runs: int
    people: int = 0
    waves: float = 0
    lost: float = 0.0
    not_asking: float = 0.0
    error: str = ""  # why there are none


def prices(tables: Mapping[str, Any], promises: Sequence[Promise], most: int, seconds: float) -> Iterator[Price]:
    """Rehearse a study file with each promise up to `most` times, as long as there is time for it."""
    end = monotonic() + seconds
    for place, promise in enumerate(promises):
        until = monotonic() + (end - monotonic()) / (len(promises) - place)
        yield _price(promise, tables, most, until)


def _price(promise: Promise, tables: Mapping[str, Any], most: int, until: float) -> Price:
    label, privacy = promise
    found: list[Outcome] = []
    took, error = 0.0, NO_TIME
    try:
        others = {name: table for name, table in tables.items() if name != "privacy"}
        made = others if privacy is None else {**others, "privacy": privacy}
        _, study = definition_of(Path("the study"), made)
        while len(found) < most and monotonic() + took < until:  # another one would be done in time
            began = monotonic()
            found.append(rehearse(study.problem, study.policy, study.privacy, seed=len(found)))
            took = monotonic() - began
    except InputError as refused:
        error = str(refused)
    if not found:
        return Price(label, 0, error=error)
    people, waves, lost, before = (median(values) for values in zip(*map(_parts, found), strict=True))
    return Price(label, len(found), math.ceil(people), waves, lost, before)


def _parts(outcome: Outcome) -> tuple[float, ...]:
    return outcome.people, outcome.waves, outcome.lost, outcome.not_asking

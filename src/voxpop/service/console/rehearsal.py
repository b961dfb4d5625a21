"""Rehearsals of a new study: what it would take and what it would find, if the model is right.

All trust models are rehearsed with the same truths and the same people, so that the difference is the price of the
promise. Losses are means and not medians: most truths cost little, and asking is for those that cost much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

from voxpop.errors import InputError
from voxpop.service.study.definition import Definition, definition_of
from voxpop.simulation.trials import Outcome, rehearse

FEWEST = 3  # rehearsals that say something
NO_TIME = "there was no time to rehearse this often enough; try it alone, or again in a moment"

Promise = tuple[str, Mapping[str, Any] | None]  # what it is called, and the table [privacy], if anything is promised


@dataclass(frozen=True)
class Price:
    """What some rehearsals with the same promise took, as means."""

    label: str
    runs: int
    people: float = 0.0  # 0: nobody was asked in any of them
    waves: float = 0.0
    lost: float = 0.0
    most_lost: float = 0.0
    not_asking: float = 0.0  # what was lost without asking, whatever is promised
    error: str = ""  # why there are none


@dataclass
class _Promised:
    """A study with one promise, and its rehearsals so far."""

    label: str
    study: Definition | None
    error: str = ""
    found: list[Outcome] = field(default_factory=list)

    @classmethod
    def of(cls, tables: Mapping[str, Any], promise: Promise) -> _Promised:
        label, privacy = promise
        others = {name: table for name, table in tables.items() if name != "privacy"}
        try:
            made = others if privacy is None else {**others, "privacy": privacy}
            return cls(label, definition_of(Path("the study"), made)[1])
        except InputError as refused:
            return cls(label, None, str(refused))

    def rehearse(self, seed: int) -> None:
        """Rehearse it once more, or note why that is impossible."""
        assert self.study is not None
        try:
            self.found.append(rehearse(self.study.problem, self.study.policy, self.study.privacy, seed))
        except InputError as refused:
            self.study, self.error = None, str(refused)

    def price(self, runs: int, fewest: int) -> Price:
        """Say what the first `runs` rehearsals took."""
        found = self.found[:runs]
        if self.study is None or len(found) < fewest:
            return Price(self.label, 0, error=self.error or NO_TIME)
        return Price(
            self.label,
            runs,
            fmean(outcome.people for outcome in found),
            fmean(outcome.waves for outcome in found),
            fmean(outcome.lost for outcome in found),
            max(outcome.lost for outcome in found),
            fmean(outcome.not_asking for outcome in found),
        )


def prices(tables: Mapping[str, Any], promises: Sequence[Promise], most: int, seconds: float) -> tuple[Price, ...]:
    """Rehearse a study file with each promise up to `most` times, as long as there is time for it.

    Promises take turns, and only truths that all of them have met count, so that every mean is about the same truths.
    """
    end, took, runs = monotonic() + seconds, 0.0, 0
    promised = [_Promised.of(tables, promise) for promise in promises]
    while runs < most and monotonic() + took < end:  # another turn would be done in time
        began = monotonic()
        for each in promised:
            if each.study is not None and monotonic() < end:
                each.rehearse(runs)
        if any(each.study is not None and len(each.found) == runs for each in promised):
            break  # the time was over before the turn was
        took, runs = monotonic() - began, runs + 1
    return tuple(each.price(runs, min(FEWEST, most)) for each in promised)

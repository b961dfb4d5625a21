"""What a pilot cannot say, in plain words: too few people or decisions, lopsided answers, one that is wild."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from voxpop.calibration.fit import Calibration, Estimate
from voxpop.calibration.pilot import Pilot
from voxpop.calibration.tails import Outlier, outlier, people_needed, signed_skewness
from voxpop.policies.waves.planning import FEWEST

FACTOR = 2.0  # a constant that may be off by more than this factor is hardly known
FEW_PEOPLE, FEW_VALUES = 10, 5  # fewer people cannot stand for a population, nor fewer values for a range
LEVEL = 2.5  # standard deviations of a typical bound


def doubts(found: Calibration, pilot: Pilot, name: Callable[[int], str], place: Callable[[int], str]) -> list[str]:
    """Say what the pilot leaves open and what to do about it, in sentences that need no statistics.

    `name` gives the name of a person, and `place` says where in the file a record is. About single answers of a
    protected pilot nothing is said.
    """
    wild = None if pilot.protected else outlier(pilot)
    if wild is not None:  # everything else rests on it
        return [_of_outlier(pilot, wild, name, place)]
    if pilot.protected:
        return _of_protection(found)
    return [*_of_people(found), *_of_decisions(found, pilot), *_of_tails(pilot)]


def unsure(estimate: Estimate) -> bool:
    """Return True if a positive constant may be off by more than a factor of two.

    >>> unsure(Estimate(1.0, 0.8, 1.3)), unsure(Estimate(1.0, 0.3, 3.0)), unsure(Estimate(1.0, 0.9, 1.1, False))
    (False, True, True)
    """
    return not estimate.determined or estimate.high > FACTOR * estimate.value


def _of_protection(found: Calibration) -> list[str]:
    """Doubts that the noise of a protected pilot leaves."""
    said = (
        f"under this protection {found.people} people hardly show how much they differ, or how the reward depends on "
        "the decision; let several hundred take part, narrow the range of rewards, or promise a larger epsilon"
    )
    return [said] if any(map(unsure, (found.bias_std, *found.length_scales.values()))) else []


def _of_people(found: Calibration) -> Iterator[str]:
    """Doubts about how much people differ, from each other and from round to round."""
    if unsure(found.bias_std) or found.people < FEW_PEOPLE:
        few = "are few; ask a few dozen" if found.people < FEW_PEOPLE else "do not show it; ask more"
        yield (
            f"how much people differ is hardly known ({_range(found.bias_std)}): {found.people} people {few}, or "
            "expect the study to ask more people than it would have to"
        )
    if unsure(found.noise_std):
        yield (
            "how much one person's reward changes from round to round is hardly known "
            f"({_range(found.noise_std)}); let people try more decisions each, or each decision for more rounds"
        )


def _of_decisions(found: Calibration, pilot: Pilot) -> Iterator[str]:
    """Doubts about how the reward depends on the decision."""
    for parameter, length in found.length_scales.items():
        values = {label.get(parameter) for label in found.pilot.labels or ()}
        if length.determined or any(isinstance(value, str) for value in values):
            continue  # any two options of a choice are equally far apart: there is nothing between them to try
        few = f"it took {len(values)} values" if 1 < len(values) < FEW_VALUES else "the answers do not show it"
        yield (
            f"how quickly the reward changes with {parameter} is hardly known: {few}; try about a dozen values, some "
            "of them close together, or let more people answer"
        )
    if len(found.pilot) == len(pilot.averages):
        yield (
            "no two people tried the same decision, so that people and decisions can hardly be told apart; let people "
            "share decisions, and leave out columns that are not decided for everybody with --ignore"
        )


def _of_outlier(pilot: Pilot, wild: Outlier, name: Callable[[int], str], place: Callable[[int], str]) -> str:
    what = f"the answers of {name(wild.person)} make"
    if wild.record is not None:
        what = f"the answer {pilot.averages[wild.record]:g} of {name(wild.person)} ({place(wild.record)}) makes"
    return (
        f"{what} up {min(wild.share, 0.99):.0%} of all differences between people; if that is a mistake, correct it "
        "and calibrate again, since the study would expect everybody to differ as much; if it is true, use a reward "
        "that is capped"
    )


def _of_tails(pilot: Pilot) -> list[str]:
    """Doubts about averages of a few lopsided answers."""
    skew = signed_skewness(pilot)
    needed, side = people_needed(LEVEL, abs(skew)), "above" if skew > 0 else "below"
    said = (
        f"the answers are lopsided: most are close together and a few lie far {side}; what a wave of fewer than "
        f"about {needed:,} people certifies may be wrong more often than it says"
    )
    if len(set(pilot.averages.tolist())) > 2:  # yes or no cannot be capped
        said += "; use a reward that is capped" + (", or its logarithm" if skew > 0 else "")
    return [said] if needed > FEWEST else []


def _range(estimate: Estimate) -> str:
    return f"{estimate.low:.2g} to {estimate.high:.2g}"

"""A pilot: what a few dozen people said about a dozen actions before the study."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from voxpop.core.errors import Array, InputError, require_array
from voxpop.core.problem import Indices
from voxpop.core.spaces import Decisions

MOST_NUMBERS = 3000  # the most group means that are solved for together


@dataclass(frozen=True, eq=False)
class Moments:
    """How much people differ, where only that is known: tr S / a and 1'S1 / a^2, and the variances of their noise."""

    variances: Array  # (2,)
    errors: Array  # (2,)

    @property
    def upper(self) -> float:
        """The variance of single answers, and what the noise could hide of it."""
        return max(float(self.variances[0]), 0.0) + math.sqrt(float(self.errors[0]))


@dataclass(frozen=True, eq=False)
class Group:
    """People who tried the same actions equally often."""

    actions: Indices  # (a,)
    counts: Array  # (a,) rounds behind each average
    people: int
    mean: Array  # (a,)
    scatter: Array  # (a, a) sum of outer products of the deviations from the mean
    noise_std: float = 0.0  # of the noise that privacy added to each mean
    moments: Moments | None = None  # instead of the scatter, whose trace alone counts then


@dataclass(frozen=True, eq=False)
class Pilot:
    """The records of a pilot: who, which action, the average and the rounds behind it.

    >>> pilot = Pilot.of_matrix(Decisions([0.0, 1.0]), [[0.1, 0.5], [0.3, 0.9], [0.2, 0.4]], counts=5)
    >>> pilot.person_count, len(pilot.averages)
    (3, 6)
    """

    decisions: Decisions  # the pilot's distinct actions
    people: Indices  # (records,)
    actions: Indices  # (records,)
    averages: Array  # (records,)
    counts: Array  # (records,)
    protected: bool = False  # then nothing is refused for the value of an answer

    def __post_init__(self) -> None:
        averages = _answers("the pilot's averages", self.averages, self.protected)
        counts = require_array("the pilot's counts", self.counts)
        shapes = {np.shape(column) for column in (self.people, self.actions, averages, counts)}
        if len(shapes) > 1 or averages.ndim != 1:
            raise InputError(
                f"a pilot's people, actions, averages and counts must be equally long, got shapes {shapes}"
            )
        if len(self.actions) and not (np.min(self.actions) >= 0 and np.max(self.actions) < len(self.decisions)):
            raise InputError(
                f"the pilot's actions must be numbers from 0 to {len(self.decisions) - 1}, "
                f"got {np.min(self.actions)} to {np.max(self.actions)}"
            )
        object.__setattr__(self, "averages", averages)
        object.__setattr__(self, "counts", counts)
        if counts.size and counts.min() <= 0:
            raise InputError(f"every average of a pilot needs a positive count of rounds, got {counts.min():g}")
        for kind, found in (("people", self.person_count), ("actions", len(np.unique(self.actions)))):
            if found < 2:
                raise InputError(
                    f"a pilot needs at least two {kind}, got {found}; a few dozen people and a dozen actions work well"
                )
        if not self.protected and np.ptp(averages) == 0:
            raise InputError(f"every reward in the pilot is {averages[0]:g}; calibration needs rewards that vary")
        pairs = np.stack([self.people, self.actions])
        if np.unique(pairs, axis=1).shape[1] < pairs.shape[1]:
            raise InputError(
                "some person answered twice for one action; merge the answers into one average and its count"
            )

    @property
    def person_count(self) -> int:
        """The number of people who took part."""
        return len(np.unique(self.people))

    @classmethod
    def of_matrix(cls, decisions: Decisions, averages: object, counts: object, protected: bool = False) -> Pilot:
        """Make a pilot in which everyone tried every action: averages (people, actions), counts alike or one number."""
        matrix = _answers("averages", averages, protected)
        if matrix.ndim != 2 or matrix.shape[1] != len(decisions):
            raise InputError(f"averages must have the shape (people, {len(decisions)}), got {matrix.shape}")
        weights = require_array("counts", counts)
        if weights.shape not in ((), (len(decisions),), matrix.shape):
            raise InputError(f"counts must be one number, one per action or one per average, got {weights.shape}")
        weights = np.broadcast_to(weights, matrix.shape)
        people, actions = np.indices(matrix.shape)
        return cls(decisions, people.ravel(), actions.ravel(), matrix.ravel(), weights.ravel(), protected)

    def groups(self) -> list[Group]:
        """Group the people by what they tried."""
        groups = []
        for actions, counts, matrix in self.patterns():
            deviations = matrix - matrix.mean(axis=0)
            groups.append(Group(actions, counts, len(matrix), matrix.mean(axis=0), deviations.T @ deviations))
        return groups

    def patterns(self) -> list[tuple[Indices, Array, Array]]:
        """Return the actions, the counts and the answers, (people, actions), of people who tried the same.

        Refuse a design with too many patterns to solve for, before anything is released of it.
        """
        patterns: dict[tuple[bytes, bytes], list[Array]] = {}
        shapes: dict[tuple[bytes, bytes], tuple[Indices, Array]] = {}
        for person in np.unique(self.people):
            rows = np.flatnonzero(self.people == person)
            rows = rows[np.argsort(self.actions[rows])]
            actions, counts = self.actions[rows], self.counts[rows]
            key = (actions.tobytes(), counts.tobytes())
            shapes[key] = (actions, counts)
            patterns.setdefault(key, []).append(self.averages[rows])
        if sum(len(actions) for actions, _ in shapes.values()) > MOST_NUMBERS:
            raise InputError(
                f"the pilot has {len(shapes)} different patterns of actions and counts, too many to solve for; "
                "let people share the same actions and counts"
            )
        return [(*shapes[key], np.stack(answers)) for key, answers in patterns.items()]


def _answers(name: str, values: object, protected: bool) -> Array:
    """Return answers as an array; if they are protected, they may have any value."""
    if not protected:
        return require_array(name, values)
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers of one shape, got {type(values).__name__}") from None

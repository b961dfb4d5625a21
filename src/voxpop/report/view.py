"""What summary and pictures of a study are made from: its decisions by name, its course, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from voxpop.errors import Array
from voxpop.journal.journal import Course
from voxpop.journal.question import Answer
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import Precomputed
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import State
from voxpop.model.words import number, percent
from voxpop.report.stakes import Stakes, stakes_of

Ends = tuple[Array, Array]  # of an interval for every decision
Kind = Literal["line", "map", "options", "several"]
WIDE = 30.0  # a parameter whose largest value is this many times its smallest may have a logarithmic axis
LOPSIDED = 0.3  # and has one if its values lie below this share of the range, on average
POINT_DIGITS = 4  # of coordinates without names, and of numbers in pictures
MOST_REPLAYED = 60  # waves; policies with more learn in such small steps that no picture shows them


@dataclass(frozen=True, eq=False)
class Column:
    """One parameter: its name, and its value in every decision."""

    name: str
    values: tuple[Any, ...]
    digits: int = 6

    @cached_property
    def numeric(self) -> bool:
        """True if all values are numbers."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)

    @cached_property
    def options(self) -> list[Any]:
        """The different values: numbers in order, others as they appear."""
        found = list(dict.fromkeys(self.values))
        return sorted(found) if self.numeric else found

    @cached_property
    def places(self) -> Array:
        """Where each decision stands on an axis: at its number, or at the rank of its option."""
        if self.numeric:
            return np.array(self.values, dtype=float)
        ranks = {option: rank for rank, option in enumerate(self.options)}
        return np.array([ranks[value] for value in self.values], dtype=float)

    @cached_property
    def logarithmic(self) -> bool:
        """True if the values are spaced by their logarithm."""
        if not self.numeric or min(self.options) <= 0 or max(self.options) < WIDE * min(self.options):
            return False
        values = np.array(self.options, dtype=float)
        return bool(((values - values[0]) / np.ptp(values)).mean() < LOPSIDED)

    @property
    def shares(self) -> Array:
        """Where each decision stands on an axis, from 0 to 1."""
        places = np.log(self.places) if self.logarithmic else self.places
        return np.asarray((places - places.min()) / (np.ptp(places) or 1.0))

    def write(self, value: Any, digits: int | None = None) -> str:
        """Write one value.

        >>> Column("price", (4.7, 5.0)).write(4.70000001)
        '4.7'
        """
        return f"{value:.{digits or self.digits}g}" if isinstance(value, float) else str(value)


def columns_of(decisions: Decisions, ordered: bool = True) -> list[Column]:
    """Return the parameters of a decision set; coordinates without names are x1, x2 and so on.

    Decisions that have neither names nor an order of their own are one column of names.

    >>> [column.name for column in columns_of(Decisions([[0.1, 0.2], [0.3, 0.4]]))]
    ['x1', 'x2']
    """
    first = decisions[0]
    if isinstance(first, Mapping):
        return [Column(str(name), tuple(label[name] for label in decisions)) for name in first]
    if decisions.labels is not None:
        return [Column("decision", tuple(map(str, decisions)))]
    if not ordered:
        return [Column("decision", tuple(f"no. {index}" for index in range(len(decisions))))]
    points = decisions.points
    names = ["x"] if points.shape[1] == 1 else [f"x{place + 1}" for place in range(points.shape[1])]
    return [Column(name, tuple(points[:, place].tolist()), POINT_DIGITS) for place, name in enumerate(names)]


@dataclass(frozen=True, eq=False)
class Layout:
    """The decision set of a problem, as pictures and sentences show it."""

    problem: Problem

    @cached_property
    def columns(self) -> list[Column]:
        """All parameters."""
        return columns_of(self.problem.decisions, not isinstance(self.problem.kernel, Precomputed))

    @cached_property
    def varied(self) -> list[Column]:
        """The parameters that differ between decisions."""
        return [column for column in self.columns if len(column.options) > 1]

    @cached_property
    def kind(self) -> Kind:
        """Which kind of picture shows the decisions: along a line, on a map, or one by one."""
        numeric = [column.numeric for column in self.varied]
        if len(numeric) <= 1:
            return "line" if numeric == [True] else "options"
        return "map" if numeric == [True, True] else "several"

    @property
    def label(self) -> str:
        """What a decision is called: the name of the only parameter, or else "decision"."""
        return self.varied[0].name if len(self.varied) == 1 else "decision"

    def name(self, index: int) -> str:
        """Write a decision as people would."""
        pairs = [(column.name, column.write(column.values[index])) for column in self.columns]
        if [name for name, _ in pairs] == ["decision"]:
            return f"decision {pairs[0][1]}"
        return ", ".join(f"{name} = {value}" for name, value in pairs)

    def short_name(self, index: int) -> str:
        """Write the values of a decision without what all decisions share; the axis says which parameters they are."""
        return ", ".join(column.write(column.values[index], POINT_DIGITS) for column in self.varied or self.columns)

    def along(self, index: int, column: Column) -> Indices:
        """Return the decisions that differ from this one in one parameter only, in its order."""
        same = np.ones(self.problem.size, dtype=bool)
        for other in self.varied:
            if other is not column:
                same &= other.places == other.places[index]
        found = np.flatnonzero(same)
        return np.asarray(found[np.argsort(column.places[found], kind="stable")])

    def places_of(self, points: Array, column: Column) -> Array:
        """Return where points of the kernel's space, such as the pilot's, stand on the axis of a parameter."""
        known = self.problem.decisions.points
        if known.shape[1] == 1 and column.numeric:
            order = np.argsort(known[:, 0])
            return np.interp(points[:, 0], known[order, 0], column.places[order])
        return np.asarray(column.places[self.nearest(points)])

    def nearest(self, points: Array) -> Indices:
        """Return the decisions that are nearest to some points of the kernel's space."""
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(points, self.problem.decisions.points).argmin(axis=1))


def window(values: Sequence[Array], share: float = 0.12) -> tuple[float, float]:
    """Return limits that show all values that are known, with some room on both sides."""
    known = np.concatenate([np.ravel(part) for part in values])
    known = known[np.isfinite(known)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    room = share * (high - low) or 0.5 * abs(high) or 1.0
    return low - room, high + room


@dataclass(frozen=True)
class CostRow:
    """A bar of the picture of costs: what something costs in all, in parts."""

    name: str
    parts: tuple[tuple[str, float], ...]  # what each part is, and how much

    @property
    def total(self) -> float:
        """The whole bar."""
        return sum(value for _, value in self.parts)


ANSWERS, TRYING, AHEAD, LOST = "price of answers", "trying poorer decisions", "the choice, from now on", "not asking"
LONGER = 2.5  # times as long as the others is a bar that is cut


@dataclass(frozen=True, eq=False)
class View:
    """A study as its summary and pictures see it."""

    course: Course
    truth: Array | None = None

    @cached_property
    def layout(self) -> Layout:
        """The decisions by name."""
        return Layout(self.course.problem)

    @cached_property
    def answer(self) -> Answer:
        """What to do now."""
        return self.course.answer

    @cached_property
    def choice(self) -> str:
        """The decision in words."""
        return self.layout.name(self.answer.index)

    @cached_property
    def stakes(self) -> Stakes | None:
        """What asking costs, and what not knowing would cost."""
        found, money = stakes_of(self.course, self.truth), self.course.money
        return found if found is None or money is None else found.worth(money, self.course.numbers)

    @cached_property
    def costs(self) -> tuple[tuple[CostRow, ...], float]:
        """What this study costs, what the pilot's choice and a random one would, and where a longer bar is cut."""
        if (stakes := self.stakes) is None:
            return (), 0.0
        rows, asked = [], bool(self.course.closed)
        if asked:
            parts = ((ANSWERS, stakes.answers), (TRYING, stakes.trying), (AHEAD, stakes.ahead))
            kept = tuple(part for part in parts if part[1] or (part[0] == AHEAD and stakes.measured))
            rows.append(CostRow("this study, in all", kept))
        if stakes.pilot is not None and stakes.pilot_choice is not None:
            name = f"the pilot's choice, {self.layout.name(stakes.pilot_choice)}"
            rows.append(CostRow(name if asked else f"{name}, for good", ((LOST, stakes.pilot),)))
        rows.append(CostRow("a decision at random", ((LOST, stakes.guessing),)))
        longest = max((row.total for row in rows[:-1]), default=0.0)
        cut = 1.3 * longest if stakes.pilot and rows[-1].total > LONGER * longest else max(row.total for row in rows)
        return tuple(rows), cut or 1.0

    def said(self, value: float) -> str:
        """Write a reward with the digits that all rewards of the study have, by how far decisions are apart."""
        return number(value, float(np.ptp(self.course.state.centre)))

    @cached_property
    def sure(self) -> str:
        """How sure the certified bounds are."""
        return f"{percent(self.answer.confidence or 0.0)} confidence"

    @property
    def informed(self) -> bool:
        """True if anybody has answered, in the pilot or since."""
        return bool(self.course.closed or self.course.problem.pilot)

    @cached_property
    def trail(self) -> tuple[State, ...]:
        """The state before the first wave and after each; empty if there are too many waves to learn them again."""
        if len(self.course.closed) > MOST_REPLAYED:
            return ()
        return tuple(course.state for course in self.course.replayed())

    def estimate(self, state: State | None = None) -> Array:
        """Return the estimate of every decision; nan where a policy has given a decision up and no longer tracks it."""
        state = state or self.course.state
        shown = self.course.problem.within(state.centre)
        if state.expected_loss is not None:
            return shown
        known = np.full(len(shown), np.nan)
        known[state.active] = shown[state.active]
        return known

    def bounds(self, state: State | None = None) -> Ends:
        """Return what is certified of every decision; nan where nothing is."""
        return (state or self.course.state).proved_bounds(self.course.problem)

    def likely(self, state: State | None = None) -> Ends | None:
        """Return two standard deviations around every estimate, within the limits, if the policy knows them."""
        state = state or self.course.state
        if state.expected_loss is None:
            return None
        ends = (state.centre + sign * 2 * state.lead_width for sign in (-1, 1))
        low, high = map(self.course.problem.within, ends)
        return low, high

"""A pilot: what a few dozen people said about a dozen actions before the study."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError, require_array
from voxpop.model.decisions import Choice, Decisions, Float, Parameter, Space
from voxpop.model.direction import Direction
from voxpop.model.problem import Indices, require_range, reward_range_of
from voxpop.model.words import person_of
from voxpop.runtime.frames import PEOPLE, Columns, Table, number_of

MOST_ACTIONS = 3000  # the most that are solved for together
TOGETHER = 5  # answers behind an average that is kept, at least
ROUNDED = 5e-4  # averages may be rounded to three digits, and
MOST_COUNTED = 100  # rounds behind one still show whether a yes or no was counted
ROUND_NAMES = ("date", "day", "week", "round", "time")  # columns that say when something was tried
CELLS = 100  # averages that are kept, at most, if people tried different actions


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
    answers: Array | None = None  # (a,) behind each mean, and the covariance of the means around f, (a, a), if people
    covariance: Array | None = None  # tried different actions, or for different numbers of rounds
    pooled: Array | None = None  # (a,) the variances of these people's answers

    @property
    def variances(self) -> Array | None:
        """The variances of single answers, (a,); None where they are protected or nobody can be compared."""
        if self.moments is not None or self.noise_std > 0 or self.pooled is not None or self.people < 2:
            return self.pooled
        return np.asarray(self.scatter.diagonal() / (self.people - 1))


def cells_of(points: Array, answers: Array, least: float) -> list[Indices]:
    """Part actions, (n, d), into cells of neighbours with at least so many answers each.

    >>> [cell.tolist() for cell in cells_of(np.array([[0.0], [0.3], [0.9], [1.0]]), np.array([9, 8, 2, 4]), 5)]
    [[0], [1], [2, 3]]
    """

    def split(cell: Indices) -> list[Indices]:
        widest = int(np.ptp(points[cell], axis=0).argmax())
        cell = cell[np.argsort(points[cell, widest], kind="stable")]
        before = np.cumsum(answers[cell])
        smaller = np.minimum(before, before[-1] - before)  # of the two halves, if it is split behind an action
        place = int(smaller.argmax())
        if smaller[place] < least:
            return [cell]
        return split(cell[: place + 1]) + split(cell[place + 1 :])

    return split(np.arange(len(points)))


def round_among(names: Sequence[Any], claimed: Collection[str] = ()) -> str | None:
    """Return the column that says in which round something happened, by its name; None if none does, or it is alone.

    >>> round_among(["price", "Date"]), round_among(["price", "day"], claimed=["day"]), round_among(["time"])
    ('Date', None, None)
    """
    named = (name for name in names if isinstance(name, str) and name.lower() in ROUND_NAMES and name not in claimed)
    return next(named, None) if len(names) > 1 else None


@dataclass(frozen=True, eq=False)
class Pilot:
    """The records of a pilot: who, which action, the average and the rounds behind it.

    >>> rows = [{"person": "ann", "price": 2.0, "reward": 0.4}, {"person": "bob", "price": 3.0, "reward": 0.9}]
    >>> pilot = Pilot.from_table(rows)
    >>> pilot.person_count, list(pilot.decisions)
    (2, [{'price': 2.0}, {'price': 3.0}])
    """

    decisions: Decisions  # the pilot's distinct actions
    people: Indices  # (records,)
    actions: Indices  # (records,)
    averages: Array  # (records,)
    counts: Array  # (records,)
    protected: bool = False  # then nothing is refused for the value of an answer
    space: Space | None = None  # the parameters of the decisions, if they are known
    direction: Direction = Direction.MAXIMIZE  # whether the averages are rewards or costs
    when: Indices | None = None  # (records,) the round in which each was tried, if that is known

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
        object.__setattr__(self, "direction", Direction.of(self.direction))
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

    @property
    def found_range(self) -> str:
        """The limits that the answers show: "0:1" of yes and no, "0:" of what is never negative, otherwise ":".

        An average of so many rounds of yes and no is a whole number divided by them.
        """
        if self.protected or self.averages.min() < 0:
            return ":"
        said_yes = np.abs(self.averages * self.counts - np.rint(self.averages * self.counts)) / self.counts
        yes_or_no = said_yes.max() <= ROUNDED and self.counts.max() <= MOST_COUNTED and self.averages.max() <= 1
        return "0:1" if yes_or_no else "0:"

    def require_range(self, reward_range: str | None, place: Callable[[int], str] = lambda record: f"{record}") -> None:
        """Refuse limits that an answer breaks, if any are given; `place` says whose a record is and where it stands."""
        if reward_range is not None and not self.protected:
            require_range(self.averages, reward_range_of(reward_range), lambda at: f"the answer of {place(*at)}")

    @classmethod
    def of_matrix(
        cls,
        decisions: Decisions,
        averages: object,
        counts: object,
        protected: bool = False,
        direction: Direction = Direction.MAXIMIZE,
    ) -> Pilot:
        """Make a pilot in which everyone tried every action: averages (people, actions), counts alike or one number."""
        matrix = _answers("averages", averages, protected)
        if matrix.ndim != 2 or matrix.shape[1] != len(decisions):
            raise InputError(f"averages must have the shape (people, {len(decisions)}), got {matrix.shape}")
        weights = require_array("counts", counts)
        if weights.shape not in ((), (len(decisions),), matrix.shape):
            raise InputError(f"counts must be one number, one per action or one per average, got {weights.shape}")
        weights = np.broadcast_to(weights, matrix.shape)
        people, actions = np.indices(matrix.shape)
        columns = people.ravel(), actions.ravel(), matrix.ravel(), weights.ravel()
        return cls(decisions, *columns, protected, direction=direction)

    @classmethod
    def from_table(
        cls,
        table: object,
        parameters: Collection[str] | None = None,
        *,
        space: Space | None = None,
        direction: str = Direction.MAXIMIZE,
        protected: bool = False,
        round_column: str | None = None,
    ) -> Pilot:
        """Make a pilot of a DataFrame, of records or of a dictionary of columns: a row for each person and decision.

        The columns are person (or user), reward (or average, or cost if less is better), rounds, if the rewards are
        averages of more than one, and one for each parameter. Columns of numbers become numeric parameters over their
        range and others choices, unless a space says otherwise. All other columns count as parameters unless
        `parameters` or the space names them. A column date, day, week, round or time, or the `round_column`, says when
        a row was tried.

        >>> import pandas as pd
        >>> table = pd.DataFrame({"person": [1, 1, 2, 2], "delay": [1, 9, 1, 9], "cost": [3.0, 2.0, 2.5, 2.2]})
        >>> Pilot.from_table(table, direction="minimize").space.parameters
        {'delay': Float(low=1, high=9, log=False)}
        """
        towards, read = Direction.of(direction), Table.of(table)
        named = parameters if space is None else space.parameters
        person, rounds = read.need("person", read.one(*PEOPLE)), read.heading("rounds")
        answered = read.need(towards.measure, read.answers(towards.measure, named or ()))
        others = [name for name in read.columns if name not in (person, rounds, answered)]
        when = round_among(others, named or ())
        when = when if round_column is None else read.need(round_column)
        others = [name for name in others if name != when]
        chosen = {str(name): read.columns[read.need(name)] for name in (others if named is None else named)}
        people = _people(read, read.columns[person])
        averages = [_answer(cell, protected) for cell in read.columns[answered]]
        for row, average in enumerate(averages):
            if average != average and not protected:  # NaN
                who = f"{read.place(row)} of the pilot has no {answered} of {read.columns[person][row]!r}"
                raise InputError(f"{who}; leave the row out")
        counts = [1.0] * len(people) if rounds is None else read.columns[rounds]
        _require_parameters(read, chosen, people, given=named is not None)
        space = space or Space({name: _parameter(name, cells) for name, cells in chosen.items()})
        tried = list(zip(*chosen.values(), strict=True))
        _require_one_answer(read, people, tried)
        persons = {person: index for index, person in enumerate(dict.fromkeys(people))}
        order = {values: index for index, values in enumerate(sorted(set(tried)))}
        labels = [dict(zip(chosen, values, strict=True)) for values in order]
        return cls(
            Decisions([space.scale(label) for label in labels], labels),
            np.array([persons[person] for person in people]),
            np.array([order[values] for values in tried]),
            np.array(averages),
            np.array(counts),
            protected,
            space,
            towards,
            None if when is None else _rounds(read, when),
        )

    @property
    def deviations(self) -> Array:
        """How much each answer differs from the mean of all about its action, (records,)."""
        counts = np.bincount(self.actions)
        means = np.bincount(self.actions, self.averages) / np.maximum(counts, 1)
        return np.asarray(self.averages - means[self.actions])

    def groups(self) -> list[Group]:
        """Group the people by what they tried."""
        groups = []
        for actions, counts, matrix in self.patterns():
            deviations = matrix - matrix.mean(axis=0)
            groups.append(Group(actions, counts, len(matrix), matrix.mean(axis=0), deviations.T @ deviations))
        return groups

    def patterns(self) -> list[tuple[Indices, Array, Array]]:
        """Return the actions, the counts and the answers, (people, actions), of people who tried the same.

        Refuse a design with too many actions to solve for, before anything is released of it.
        """
        if (tried := len(np.unique(self.actions))) > MOST_ACTIONS:
            raise InputError(
                f"the pilot has {tried} different actions, too many to solve for, of {MOST_ACTIONS}; let people share "
                "the same actions"
            )
        patterns: dict[tuple[bytes, bytes], list[Array]] = {}
        shapes: dict[tuple[bytes, bytes], tuple[Indices, Array]] = {}
        for person in np.unique(self.people):
            rows = np.flatnonzero(self.people == person)
            rows = rows[np.argsort(self.actions[rows])]
            actions, counts = self.actions[rows], self.counts[rows]
            key = (actions.tobytes(), counts.tobytes())
            shapes[key] = (actions, counts)
            patterns.setdefault(key, []).append(self.averages[rows])
        return [(*shapes[key], np.stack(answers)) for key, answers in patterns.items()]


def _rounds(table: Table, name: str) -> Indices:
    """Number the rounds of a column; moments of one day are one round."""
    cells = table.columns[name]
    if None in cells:
        raise InputError(f"{table.place(cells.index(None))} of the pilot has no {name}; fill it in or drop the column")
    days = [str(cell.date() if hasattr(cell, "date") else cell) for cell in cells]
    return np.asarray(np.unique(days, return_inverse=True)[1])


def _answers(name: str, values: object, protected: bool) -> Array:
    """Return answers as an array; if they are protected, they may have any value."""
    if not protected:
        return require_array(name, values)
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers of one shape, got {type(values).__name__}") from None


def _answer(cell: Any, protected: bool) -> Any:
    """Return an answer as a number; one that is protected is NaN if it is none."""
    number = number_of(cell)
    return math.nan if number is None and (protected or cell is None) else cell if number is None else number


def _people(table: Table, cells: Sequence[Any]) -> list[str]:
    """Return the name of each row's person, or refuse a row without one."""
    found = []
    for row, cell in enumerate(cells):
        try:
            found.append(person_of(cell))
        except InputError:
            raise InputError(
                f"{table.place(row)} of the pilot has no person; fill it in or leave the row out"
            ) from None
    return found


def _require_parameters(table: Table, chosen: Columns, people: Sequence[Any], given: bool) -> None:
    """Refuse a table without parameters, and columns that are hardly parameters."""
    if not chosen:
        raise InputError("the pilot's table has no column for a parameter; add one, such as price")
    several = len(people) > len(set(people)) + 1
    for name, cells in chosen.items():
        if None in cells:
            place = table.place(cells.index(None))
            raise InputError(f"{place} of the pilot has no {name}; fill it in or leave the row out")
        if len(set(cells)) < 2:
            raise InputError(f"the pilot's column {name} is always {cells[0]!r}; vary it in the pilot or drop it")
        if not given and several and len(set(zip(people, cells, strict=True))) == len(set(people)):
            raise InputError(
                f"the pilot's column {name} is the same in all rows of each person, so it describes people and is "
                "hardly a parameter; drop it, or name the parameters: Pilot.from_table(table, parameters=[...])"
            )


def _require_one_answer(table: Table, people: Sequence[Any], tried: Sequence[tuple[Any, ...]]) -> None:
    """Refuse two rows of one person about one decision, with their places."""
    first: dict[tuple[Any, ...], int] = {}
    for row, (person, values) in enumerate(zip(people, tried, strict=True)):
        if (earlier := first.setdefault((person, values), row)) != row:
            raise InputError(
                f"{person!r} answered twice about {', '.join(map(str, values))}, on {table.place(earlier)} and "
                f"{table.place(row)}; merge the rows into one average and its rounds"
            )


def _parameter(name: str, cells: Sequence[Any]) -> Parameter:
    """Return numbers as a range, and anything else as a choice; refuse a mixture."""
    numeric = [isinstance(cell, Real) and not isinstance(cell, bool) for cell in cells]
    if all(numeric):
        return Float(min(cells), max(cells))
    if any(numeric):
        odd = cells[numeric.index(False)]
        raise InputError(
            f"the pilot's column {name} holds numbers and {odd!r}; make all its cells numbers, or all words"
        )
    try:
        if not all(isinstance(cell, str | bool) for cell in cells):
            raise TypeError
        return Choice(tuple(sorted(set(cells))))
    except TypeError:
        raise InputError(f"the pilot's column {name} holds {cells[0]!r}; a parameter is a number or a word") from None

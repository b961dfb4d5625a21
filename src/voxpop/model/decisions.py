"""Decisions: a finite set of actions, scaled for the kernel and named for people.

Named parameters become a finite set by a grid or by Sobol points (rk:infinite_set). Every parameter is mapped to
the unit interval (a choice to the corners of a simplex with unit distances), so that one length-scale means the
same thing in every dimension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError, require_array, require_choice, require_integer, require_number, said_of

Label = Mapping[str, Any]


@dataclass(frozen=True)
class Float:
    """A real number between low and high; with `log`, spaced and scaled by its logarithm.

    >>> Float(1, 4).values(4)
    [1.0, 2.0, 3.0, 4.0]
    """

    low: float
    high: float
    log: bool = False
    width = 1

    def __post_init__(self) -> None:
        require_number("low", self.low)
        require_number("high", self.high, above=self.low)
        if self.log:
            require_number("low of a logarithmic parameter", self.low, above=0)

    def values(self, points: int) -> list[Any]:
        """Return `points` evenly spaced values."""
        places = np.linspace(0, 1, points).tolist() if points > 1 else [0.5]
        # Rounded, to get 2.2 and not 2.2000000000000002; but the ends stay as they were given.
        return [value if u in (0.0, 1.0) else float(f"{value:.12g}") for u in places for value in (self.at(u),)]

    def at(self, u: float) -> float:
        """Return the value at a place in the unit interval."""
        if u in (0.0, 1.0):
            return float(self.high if u else self.low)
        if self.log:
            return math.exp(math.log(self.low) + u * (math.log(self.high) - math.log(self.low)))
        return self.low + u * (self.high - self.low)

    def scale(self, value: Any) -> list[float]:
        """Return the place of a value in the unit interval."""
        number = require_number("value", value, least=self.low, most=self.high)
        if self.log:
            return [math.log(number / self.low) / math.log(self.high / self.low)]
        return [(number - self.low) / (self.high - self.low)]


@dataclass(frozen=True)
class Integer:
    """A whole number between low and high, both included.

    >>> Integer(1, 9).values(5)
    [1, 3, 5, 7, 9]
    """

    low: int
    high: int
    width = 1

    def __post_init__(self) -> None:
        require_integer("low", self.low, least=-(2**53))
        require_integer("high", self.high, least=self.low + 1, most=2**53)

    def values(self, points: int) -> list[Any]:
        """Return all the numbers, or `points` of them, evenly spaced."""
        count = min(points, self.high - self.low + 1)
        return sorted({round(float(v)) for v in np.linspace(self.low, self.high, count)})

    def at(self, u: float) -> int:
        """Return the value at a place in the unit interval, of which each number has an equal share."""
        return min(self.low + int(u * (self.high - self.low + 1)), self.high)

    def scale(self, value: Any) -> list[float]:
        """Return the place of a value in the unit interval."""
        number = require_integer("value", value, least=self.low, most=self.high)
        return [(number - self.low) / (self.high - self.low)]


@dataclass(frozen=True)
class Choice:
    """One of several named things, each as far from every other as the ends of the unit interval.

    >>> Choice(("red", "blue")).values(5)
    ['red', 'blue']
    """

    options: tuple[Any, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        if len(set(self.options)) < max(2, len(self.options)):
            raise InputError(f"a choice needs at least two different options, got {list(self.options)}")

    @property
    def width(self) -> int:
        """The number of dimensions that the choice takes."""
        return len(self.options)

    def values(self, points: int) -> list[Any]:
        """Return all options: a choice is never thinned out."""
        return list(self.options)

    def at(self, u: float) -> Any:
        """Return the option at a place in the unit interval."""
        return self.options[min(int(u * len(self.options)), len(self.options) - 1)]

    def scale(self, value: Any) -> list[float]:
        """Return the corner of the simplex that stands for the option."""
        if value not in self.options:
            raise InputError(f"{value!r} is not one of the options {list(self.options)}")
        return [math.sqrt(0.5) * (option == value) for option in self.options]


Parameter = Float | Integer | Choice


class Space:
    """Named parameters, from which a finite decision set is made.

    >>> space = Space(price=Float(1, 3), colour=Choice(("red", "blue")))
    >>> decisions = space.grid(3)
    >>> len(decisions), decisions[1]
    (6, {'price': 1.0, 'colour': 'blue'})
    """

    def __init__(self, parameters: Mapping[str, Parameter] | None = None, /, **named: Parameter) -> None:
        self.parameters: dict[str, Parameter] = {**(parameters or {}), **named}
        if not self.parameters:
            raise InputError("a space needs at least one parameter, such as price=Float(1, 10)")

    def grid(self, points: int | Mapping[str, int] = 10) -> Decisions:
        """Return every combination of `points` values per parameter (one number, or one for each name)."""
        counts = points if isinstance(points, Mapping) else dict.fromkeys(self.parameters, points)
        for name in counts:
            require_choice("parameter", name, self.parameters)
        columns = {
            name: parameter.values(require_integer(f"points of {name}", counts.get(name, 10), least=1))
            for name, parameter in self.parameters.items()
        }
        return self.combined(columns)

    def combined(self, columns: Mapping[str, Sequence[Any]]) -> Decisions:
        """Return every combination of the values of each parameter."""
        size = math.prod(map(len, columns.values()))
        if size > 10**7:
            raise InputError(f"the grid would have {size} actions; give fewer points or use sobol(n)")
        return self._decisions(list(product(*(columns[name] for name in self.parameters))))

    def listed(self, labels: Sequence[Label]) -> Decisions:
        """Return decisions that are given by the values of their parameters."""
        points = [self.scale(label) for label in labels]
        return Decisions(points, [{name: label[name] for name in self.parameters} for label in labels])

    def sobol(self, points: int, seed: int | None = None) -> Decisions:
        """Return the first `points` Sobol points (scrambled if a seed is given), without repeated combinations."""
        from scipy.stats import qmc

        require_integer("points", points, least=1, most=10**7)
        sampler = qmc.Sobol(len(self.parameters), scramble=seed is not None, rng=np.random.default_rng(seed))
        # Sobol sets are balanced at powers of two: draw the next power of two and keep the first points.
        unit = sampler.random_base2(math.ceil(math.log2(points)))[:points]
        rows = [tuple(p.at(u) for p, u in zip(self.parameters.values(), row, strict=True)) for row in unit.tolist()]
        return self._decisions(list(dict.fromkeys(rows)))

    def scale(self, label: Label) -> list[float]:
        """Return the point of the kernel's space that stands for a decision."""
        missing = [name for name in self.parameters if name not in label]
        extra = [name for name in label if name not in self.parameters]
        if missing or extra:
            raise InputError(f"a decision must name exactly {list(self.parameters)}, got {list(label)}")
        point: list[float] = []
        for name, parameter in self.parameters.items():
            with said_of(name):
                point += parameter.scale(label[name])
        return point

    def _decisions(self, rows: Sequence[tuple[Any, ...]]) -> Decisions:
        labels = tuple(dict(zip(self.parameters, row, strict=True)) for row in rows)
        return Decisions([self.scale(label) for label in labels], labels)


class Decisions(Sequence[Any]):
    """A finite decision set: `points` (n, d) for the kernel and, if given, a label of each for people.

    >>> Decisions([[0.0, 1.0], [0.5, 0.5]])[1]
    [0.5, 0.5]
    """

    def __init__(self, points: object, labels: Sequence[Label] | None = None) -> None:
        array = require_array("actions", points)
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2 or 0 in array.shape:
            raise InputError(f"actions must be a non-empty (n, d) array, got shape {array.shape}")
        _, first, inverse = np.unique(array, axis=0, return_index=True, return_inverse=True)
        if len(first) < len(array):
            second = int(np.flatnonzero(first[inverse.ravel()] != np.arange(len(array)))[0])
            raise InputError(
                f"action {second} repeats action {int(first[inverse.ravel()[second]])}; give every action once"
            )
        if labels is not None and len(labels) != len(array):
            raise InputError(f"there are {len(labels)} labels for {len(array)} actions; give one for each")
        array.setflags(write=False)
        self.points: Array = array  # (n, d)
        self.labels = None if labels is None else tuple(labels)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: Any) -> Any:
        """Return what people call this action: its label, or its coordinates."""
        return self.points[index].tolist() if self.labels is None else self.labels[index]

    def find(self, decision: object) -> int:
        """Return the index of a decision given as its index, its label or its coordinates."""
        if isinstance(decision, int | np.integer) and not isinstance(decision, bool):
            return require_integer("the index of a decision", decision, least=0, most=len(self) - 1)
        key = _key(decision)
        if key in self._places:
            return self._places[key]
        # People copy numbers as they are shown, with six digits.
        near = [index for other, index in self._places.items() if _alike(key, other)]
        if len(near) != 1:
            raise InputError(f"{decision!r} is not in the decision set; write the decisions as the question gives them")
        return near[0]

    @cached_property
    def _places(self) -> dict[tuple[Any, ...], int]:
        return {_key(self[index]): index for index in range(len(self))}


def _key(decision: object) -> tuple[Any, ...]:
    if isinstance(decision, Mapping):
        return tuple((name, _hashable(decision[name])) for name in sorted(decision, key=str))
    return tuple(map(_hashable, decision)) if isinstance(decision, Sequence | np.ndarray) else (decision,)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _alike(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(map(_close, left, right))


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return isinstance(b, tuple) and _alike(a, b)
    try:
        return bool(a == b) or math.isclose(float(a), float(b), rel_tol=1e-5, abs_tol=1e-12)
    except (TypeError, ValueError):
        return False

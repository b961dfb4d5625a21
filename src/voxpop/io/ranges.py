"""What the owner says about the values of parameters: limits, scales, and which values and combinations exist."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from voxpop.errors import InputError, require_choice, require_integer
from voxpop.io.columns import read_columns
from voxpop.io.csv_text import read_table
from voxpop.model.decisions import Choice, Float, Integer, Space
from voxpop.model.menu import Menu, resolved
from voxpop.runtime.frames import Table, number_of


@dataclass(frozen=True)
class Ranges:
    """Limits by parameter, which parameters are spaced by their logarithm or are whole numbers, and which values exist.

    The name "" stands for the only numeric parameter.
    """

    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    integer: tuple[str, ...] = ()
    menu: Menu = field(default_factory=Menu)

    def of(self, numeric: Collection[str], names: Collection[str]) -> Ranges:
        """Return the same with all names filled in, or refuse names that are not those of numeric parameters."""
        given = {
            "low": self.low,
            "high": self.high,
            "log": dict.fromkeys(self.log),
            "integer": dict.fromkeys(self.integer),
        }
        found = {name: resolved(f"--{name}", some, numeric, names) for name, some in given.items()}
        menu = self.menu.named(numeric, names)
        return Ranges(found["low"], found["high"], tuple(found["log"]), tuple(found["integer"]), menu)

    def parameter(self, name: str, values: Sequence[float]) -> Float | Integer:
        """Make the parameter that took these values in a pilot.

        >>> Ranges({"price": 1.0}, {"price": 15.0}, log=("price",)).parameter("price", [2.0, 12.0])
        Float(low=1.0, high=15.0, log=True)
        >>> Ranges(menu=Menu(values={"price": [1.5, 3.0]})).parameter("price", [2.0, 12.0])
        Float(low=1.5, high=12.0, log=False)
        >>> Ranges(integer=("seats",)).parameter("seats", [4.0, 2.0])
        Integer(low=2, high=4)
        """
        least, most, log = min(values), max(values), name in self.log
        listed = (*self.menu.values.get(name, ()), *(label.get(name) for label in self.menu.allowed))
        wanted = [value for value in listed if number_of(value) is not None]
        low, high = self.low.get(name, min(least, *wanted, least)), self.high.get(name, max(most, *wanted, most))
        for wrong, option, number, worst in (
            (low > least, f"--low {name}={low:g}", f"at most {least:g}", least),
            (high < most, f"--high {name}={high:g}", f"at least {most:g}", most),
        ):
            if wrong:
                raise InputError(
                    f"{option} leaves out {worst:g}, which the pilot tried; give {number}, or take those rows out of "
                    "the pilot"
                )
        if name in self.integer:
            if log:
                raise InputError(f"--log {name} and --integer {name} cannot be combined; leave one of them out")
            odd = [value for value in (low, high, *values) if value != round(value)]
            if odd:
                raise InputError(
                    f"--integer {name} takes whole numbers, and {odd[0]:g} is not one; leave out --integer"
                )
            return Integer(round(low), round(high))
        if log and low <= 0:
            raise InputError(
                f"--log {name} needs values above 0, and they begin at {low:g}; give --low above 0, or leave out --log"
            )
        return Float(low, high, log)


def limits_of(option: str, texts: Iterable[str]) -> dict[str, float]:
    """Read what follows an option such as --low: price=1, or 1 for the only numeric parameter.

    >>> limits_of("low", ["price=1", "size = 2.5"]), limits_of("low", ["-1"])
    ({'price': 1.0, 'size': 2.5}, {'': -1.0})
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.rpartition("="))
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"--{option} takes a name and a number, such as price=1, got {text!r}")
        if name in found:
            other = name or "the parameter"
            raise InputError(f"--{option} is given for {other} as {found[name]:g} and as {number:g}; give one")
        found[name] = number
    return found


def menu_of(
    points: int | None = None,
    values: Iterable[str] = (),
    step: Iterable[str] = (),
    only: str | None = None,
    allowed: Path | None = None,
) -> Menu:
    """Read what the command line and the console say about the decisions that exist.

    >>> menu_of(values=["price=2.99,3.49", "plan=basic, plus"]).values
    {'price': [2.99, 3.49], 'plan': ['basic', 'plus']}
    """
    lists: dict[str, list[Any]] = {}
    if points is not None:
        require_integer("points", points, least=2)
    for text in values:
        name, _, said = (part.strip() for part in text.rpartition("="))
        cells = [cell.strip() for cell in said.split(",")]
        if name in lists or not all(cells):
            raise InputError(f"--values takes a name and its values, each once, such as price=2.99,3.49, got {text!r}")
        lists[name] = [number_or_word(cell) for cell in cells]
    return Menu(points, lists, limits_of("step", step), only or "", labels_of(allowed))


def todays_of(texts: Sequence[str], space: Space) -> dict[str, Any]:
    """Read the decision in force today: a value for each parameter.

    >>> todays_of(["price=2.99"], Space(price=Float(1, 5)))
    {'price': 2.99}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.rpartition("="))
        name = name or next(iter(space.parameters))
        require_choice("parameter", name, space.parameters)
        choice = isinstance(space.parameters[name], Choice)
        found[name] = value if choice else number_or_word(value)
    for name in space.parameters:
        if name not in found:
            raise InputError(f"--today lacks the parameter {name}; add --today {name}=VALUE")
    return found


def labels_of(allowed: object) -> list[dict[str, Any]]:
    """Return the combinations that exist, from a list, a DataFrame or a file with a column for each parameter."""
    if not isinstance(allowed, str | PathLike):
        return [] if allowed is None else Table.of(allowed).rows
    table = read_table(Path(allowed), single=True)
    columns = read_columns(table, either=table.names)
    return Table({name: column.values for name, column in columns.items()}).rows


def number_or_word(cell: str) -> Any:
    """Return a cell as a number, or as it is."""
    try:
        return float(cell)
    except ValueError:
        return cell

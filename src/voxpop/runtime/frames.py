"""Tables of pandas, Polars, PyArrow and the like, read through narwhals; none is imported before a table is met."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from voxpop.errors import InputError

LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
INSTALL = "install it with: pip install 'voxpop[tables]'"
PEOPLE = ("person", "user")  # what the column of the people may be called
AVERAGES = ("reward", "average")  # and that of the answers, besides cost
SHOWN = 8  # names in a list of many

Columns = Mapping[Any, Sequence[Any]]


def is_frame(value: object) -> bool:
    """Return True if a value belongs to a library of tables; nothing is imported to find out.

    >>> is_frame([{"person": "ann", "reward": 1.0}])
    False
    """
    return any(kind.__module__.partition(".")[0] in LIBRARIES for kind in type(value).__mro__)


def columns_of(frame: Any) -> dict[Any, list[Any]]:
    """Return the columns of a DataFrame as lists, in which None stands for what is missing.

    The named levels of a pandas index are columns, too: a table that was pivoted by person has its people there.

    >>> import pandas as pd
    >>> columns_of(pd.DataFrame({"person": ["ann", "bob"], 4.7: [0.5, None]}).set_index("person"))
    {'person': ['ann', 'bob'], 4.7: [0.5, None]}
    """
    try:
        import narwhals as nw
    except ImportError:
        raise InputError(f"a table of {type(frame).__module__.partition('.')[0]} needs narwhals; {INSTALL}") from None
    try:
        table = nw.from_native(frame, eager_only=True)
        columns = list(table.iter_columns())
    except TypeError:
        kind = type(frame).__name__
        raise InputError(
            f"a {kind} is not a table with columns; give a DataFrame (collect a LazyFrame first)"
        ) from None
    except nw.exceptions.DuplicateError:
        raise InputError("the table has two columns of the same name; rename one of them") from None
    found: dict[Any, list[Any]] = {}
    index: Any = nw.maybe_get_index(table)
    for level, name in enumerate(() if index is None else index.names):
        if name is not None:
            found[name] = index.get_level_values(level).tolist()
    for column in columns:
        cells = zip(column.to_list(), column.is_null().to_list(), strict=True)
        found[_plain(column.name)] = [None if missing else _plain(value) for value, missing in cells]
    return found


@dataclass(frozen=True)
class Table:
    """A table of people's answers: columns of one length, and which of them holds what, in upper or lower case.

    >>> table = Table.of([{"Person": "ann", "price": 4.7, "cost": 0.5}])
    >>> table.columns, table.heading("user", "person"), table.answers("cost")
    ({'Person': ['ann'], 'price': [4.7], 'cost': [0.5]}, 'Person', 'cost')
    """

    columns: Columns
    lines: Sequence[int] = ()  # of the file that it was read from

    @classmethod
    def of(cls, table: object) -> Table:
        """Make a table of a DataFrame, of a dictionary of columns or of records."""
        if isinstance(table, Table):
            return table
        if is_frame(table):
            return cls(columns_of(table))
        if isinstance(table, Mapping):
            return cls({name: list(map(_plain, cells)) for name, cells in table.items()})
        if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
            names = dict.fromkeys(name for row in table for name in row)
            return cls({name: [_plain(row.get(name)) for row in table] for name in names})
        raise InputError(
            "a table is a DataFrame or a list of records, with a row for each person and decision, got "
            f"{type(table).__name__}"
        )

    def __post_init__(self) -> None:
        lengths = sorted({len(cells) for cells in self.columns.values()})
        if len(lengths) != 1:
            if not lengths:
                raise InputError("the table is empty; give it a column for the people, the answers and each parameter")
            raise InputError(f"a table of answers needs columns of one length, got {listed(lengths)}")
        if lengths == [0]:
            raise InputError("the table has no rows; add one for each person and decision")

    @cached_property
    def names(self) -> dict[Any, Any]:
        """The headings by their names in lower case; two of the same name are refused."""
        found: dict[Any, Any] = {}
        for heading in self.columns:
            first = found.setdefault(_name(heading), heading)
            if first != heading:
                raise InputError(f"the table has the columns {first!r} and {heading!r}; rename or drop one of them")
        return found

    def heading(self, *names: Any) -> Any:
        """Return the heading of the first of some names that is there; None if there is none."""
        exact = (name for name in names if name in self.columns)
        return next(exact, next((self.names[name] for name in map(_name, names) if name in self.names), None))

    def one(self, *names: str) -> Any:
        """Return the heading that is one of some names; None if there is none, and refuse two."""
        found = [name for name in dict.fromkeys(names) if name in self.names]
        if len(found) > 1:
            raise InputError(f"the table has the columns {found[0]} and {found[1]}; keep one of them")
        return self.names[found[0]] if found else None

    def answers(self, measure: str, parameters: Iterable[str] = ()) -> Any:
        """Return the heading of the answers, which is no parameter; None if there is none, and refuse two."""
        known = {str(name).lower() for name in parameters}
        heading = self.one(*(name for name in (measure, *AVERAGES) if name not in known))
        if heading is None and "cost" in self.names and "cost" not in known:
            raise InputError(
                "the table has a column cost, and the study looks for the largest reward; begin it with "
                'direction="minimize", or call the column reward if more of it is better'
            )
        return heading

    def need(self, name: str, heading: Any = None) -> Any:
        """Return the heading of a name, or the one that was found for it; refuse a table without it."""
        heading = self.heading(name) if heading is None else heading
        if heading is None:
            raise InputError(f"the table needs a column {name}; it has {listed(self.columns)}")
        return heading

    def place(self, row: int) -> str:
        """Say where a row stands."""
        return f"line {self.lines[row]}" if self.lines else f"row {row}"

    @property
    def rows(self) -> list[dict[Any, Any]]:
        """The cells of each row, by heading."""
        return [dict(zip(self.columns, cells, strict=True)) for cells in zip(*self.columns.values(), strict=True)]


def listed(names: Iterable[Any]) -> str:
    """List names for a sentence, the first of them if they are many."""
    shown = [str(name) for name in names]
    return ", ".join(shown[:SHOWN]) + (f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else "")


def number_of(cell: Any) -> float | None:
    """Return a cell as a float, infinite if it is beyond all floats; None if it is no number."""
    if not isinstance(cell, Real | Decimal):
        return None
    try:
        return float(cell)
    except OverflowError:
        return math.inf if operator.gt(cell, 0) else -math.inf


def _name(heading: Any) -> Any:
    """Return a heading in lower case; pandas calls the first of several levels of headings ("person", "")."""
    if isinstance(heading, tuple) and heading and all(part == "" for part in heading[1:]):
        heading = heading[0]
    return heading.strip().lower() if isinstance(heading, str) else heading


def _plain(value: Any) -> Any:
    """Return NumPy's scalars, also those in the tuples of a heading, and databases' decimals as Python's numbers."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, Decimal):
        return float(value)
    return value.item() if isinstance(value, np.generic) else value

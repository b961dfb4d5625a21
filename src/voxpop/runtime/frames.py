"""Tables of pandas, Polars, PyArrow and the like, read through narwhals; none is imported before a table is met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from voxpop.errors import InputError

LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
INSTALL = "install it with: pip install 'voxpop[tables]'"

Columns = dict[Any, list[Any]]


def is_frame(value: object) -> bool:
    """Return True if a value belongs to a library of tables; nothing is imported to find out.

    >>> is_frame([{"person": "ann", "reward": 1.0}])
    False
    """
    return any(kind.__module__.partition(".")[0] in LIBRARIES for kind in type(value).__mro__)


def columns_of(frame: Any) -> Columns:
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
    found: Columns = {}
    index: Any = nw.maybe_get_index(table)
    for level, name in enumerate(() if index is None else index.names):
        if name is not None:
            found[name] = index.get_level_values(level).tolist()
    for column in columns:
        cells = zip(column.to_list(), column.is_null().to_list(), strict=True)
        found[_plain(column.name)] = [None if missing else _plain(value) for value, missing in cells]
    return found


def headings_of(columns: Columns) -> dict[Any, Any]:
    """Return the headings by their names in lower case; refuse two of the same name.

    >>> headings_of({"Person": ["ann"], 4.7: [0.5]})
    {'person': 'Person', 4.7: 4.7}
    """
    found: dict[Any, Any] = {}
    for heading in columns:
        first = found.setdefault(_name(heading), heading)
        if first != heading:
            raise InputError(f"the table has the columns {first!r} and {heading!r}; rename or drop one of them")
    return found


def rows_of(columns: Mapping[Any, list[Any]]) -> list[dict[Any, Any]]:
    """Return columns as rows."""
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _name(heading: Any) -> Any:
    """Return a heading in lower case; pandas calls the first of several levels of headings ("person", "")."""
    if isinstance(heading, tuple) and heading and all(part == "" for part in heading[1:]):
        heading = heading[0]
    return heading.strip().lower() if isinstance(heading, str) else heading


def _plain(value: Any) -> Any:
    """Return NumPy's scalars, and those in the tuples of a pandas heading, as Python's own."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value

"""DataFrames in and out. No library of tables is imported before a table is met.

Tables of pandas, Polars, PyArrow and the like are read through narwhals; tables that voxpop returns are of pandas.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from voxpop.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


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


def data_frame(rows: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    """Return rows as a pandas DataFrame.

    >>> data_frame([{"price": 4.7, "best": True}])
       price  best
    0    4.7  True
    """
    try:
        import pandas as pd
    except ImportError:
        raise InputError(f"tables need pandas; {INSTALL}") from None
    return pd.DataFrame(list(rows))


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


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet may take text that begins like this for a formula

Rows = Sequence[Mapping[str, Any]]


def as_csv(columns: Sequence[str], rows: Rows) -> bytes:
    r"""Write a table as CSV. Text that a spreadsheet would take for a formula gets an apostrophe before it.

    >>> as_csv(["tea", "reward"], [{"tea": "green", "reward": -0.5}, {"tea": "=1+1", "reward": None}])
    b"tea,reward\ngreen,-0.5\n'=1+1,\n"
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_harmless, columns))
    writer.writerows([_harmless(row[column]) for column in columns] for row in rows)
    return text.getvalue().encode()


def as_json(content: Any) -> bytes:
    r"""Write plain data as JSON; numbers that JSON does not have, such as infinity, are null.

    >>> as_json({"certified": float("inf")})
    b'{\n "certified": null\n}\n'
    """
    return (json.dumps(finite(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def as_parquet(columns: Sequence[str], rows: Rows) -> bytes:
    """Write a table as Parquet, if pyarrow is installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            "a Parquet file needs pyarrow; install it with: pip install 'voxpop[tables]', or write a .csv file"
        ) from None

    made = io.BytesIO()
    pq.write_table(pa.table({column: _alike([row[column] for row in rows]) for column in columns}), made)
    return made.getvalue()


def finite(content: Any) -> Any:
    """Return plain data with None in place of numbers that JSON does not have."""
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def _alike(values: list[Any]) -> list[Any]:
    """Return the values of a column as text if they have several types, which no column of Parquet can hold."""
    kinds = {float if type(value) is int else type(value) for value in values if value is not None}
    return values if len(kinds) < 2 else [None if value is None else str(value) for value in values]

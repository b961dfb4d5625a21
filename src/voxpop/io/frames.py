"""Tables that voxpop returns and writes: DataFrames of pandas, CSV, JSON and Parquet files."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from voxpop.errors import InputError
from voxpop.runtime.frames import INSTALL, Table

if TYPE_CHECKING:
    import pandas as pd


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


SPLITS = re.compile(r"[,;|\t\r\n\"]")  # where spreadsheets split lines, each in some countries
# A spreadsheet may take text that begins like this for a formula, also behind what it takes for a separator.
FORMULA = re.compile(r"(^|[;|\r\n] *)([=+@\t\r-])")

Rows = Sequence[Mapping[str, Any]]


def as_csv(columns: Sequence[str], rows: Rows) -> bytes:
    r"""Write a table as CSV. Text that a spreadsheet would take for a formula gets an apostrophe before it.

    >>> as_csv(["tea", "reward"], [{"tea": "green", "reward": -0.5}, {"tea": "=1+1", "reward": None}])
    b"tea,reward\ngreen,-0.5\n'=1+1,\n"
    """
    lines = [columns, *([row[column] for column in columns] for row in rows)]
    return "".join(",".join(map(_cell, line)) + "\n" for line in lines).encode()


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


def read_parquet(content: bytes) -> Table:
    """Read the columns of a Parquet file, if pyarrow is installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"a Parquet file needs pyarrow; {INSTALL}, or give a CSV file") from None
    try:
        return Table.of(pq.read_table(io.BytesIO(content)).to_pydict())
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"this Parquet file cannot be read ({error!s:.80}); write it again, or give a CSV file"
        ) from None


def finite(content: Any) -> Any:
    """Return plain data with None in place of numbers that JSON does not have."""
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _cell(value: Any) -> str:
    """Write a cell; it is in quotes if a program might split it, and harmless if one does all the same."""
    if isinstance(value, str):
        value = FORMULA.sub(lambda begins: f"{begins[1]}'{begins[2]}", value)
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if SPLITS.search(text) else text


def _alike(values: list[Any]) -> list[Any]:
    """Return the values of a column as text if they have several types, which no column of Parquet can hold."""
    kinds = {float if type(value) is int else type(value) for value in values if value is not None}
    return values if len(kinds) < 2 else [None if value is None else str(value) for value in values]

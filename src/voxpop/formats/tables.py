"""CSV files: a pilot, and the answers to one phase."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from voxpop.calibration.pilot import Pilot
from voxpop.core.errors import InputError, said_of
from voxpop.core.spaces import Choice, Decisions, Float, Parameter, Space
from voxpop.formats.files import read_text

REQUIRED = ("person", "reward")
RESERVED = (*REQUIRED, "rounds")
STRATUM = "stratum"  # the part of the population that a person belongs to, in studies with strata
SYNONYMS = {**dict(zip(RESERVED, RESERVED, strict=True)), "user": "person"}  # upper and lower case are the same


def read_pilot(path: Path, protected: bool = False, measure: str = "reward") -> tuple[Pilot, Space]:
    """Read a pilot from a CSV file with the columns person, reward, rounds (if not 1) and one for each parameter.

    Columns of numbers become float parameters over the range of the pilot, other columns choices. In a protected pilot
    no reward is refused for its value. The column reward may also be called as the measure is: cost.
    """
    rows, parameters = _read_csv(path, measure, may_be_empty="reward" if protected else None)
    if not parameters:
        raise InputError(
            f"{path} has no column for a parameter beside person, reward and rounds; add one, such as price"
        )
    columns: dict[str, list[Any]] = {}
    named: dict[str, Parameter] = {}
    for name in parameters:
        cells = [row[name] for _, row in rows]
        # If at least half of a column's cells are numbers, it is a column of numbers and other cells are mistakes.
        if 2 * sum(_number(cell) is not None for cell in cells) >= len(cells):
            columns[name] = [_cell(path, line, row, name) for line, row in rows]
        else:
            columns[name] = cells
        values = sorted(set(columns[name]))
        if len(values) < 2:
            raise InputError(f"{path}: the column {name} is always {cells[0]!r}; vary it in the pilot or leave it out")
        named[name] = Float(values[0], values[-1]) if isinstance(values[0], float) else Choice(tuple(values))
    space = Space(named)
    labels = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    keys = [tuple(label.values()) for label in labels]
    order = {key: index for index, key in enumerate(dict.fromkeys(sorted(keys)))}
    distinct = [dict(zip(columns, key, strict=True)) for key in order]
    decisions = Decisions([space.scale(label) for label in distinct], distinct)
    people = {person: index for index, person in enumerate(dict.fromkeys(row["person"] for _, row in rows))}
    averages = np.array([_cell(path, line, row, "reward", any_value=protected) for line, row in rows])
    counts = np.array([_cell(path, line, row, "rounds") if "rounds" in row else 1.0 for line, row in rows])
    numbers = np.array([people[row["person"]] for _, row in rows])
    with said_of(path):
        return Pilot(decisions, numbers, np.array([order[key] for key in keys]), averages, counts, protected), space


def read_answers(
    path: Path, private: bool = False, strata: bool = False, measure: str = "reward"
) -> list[dict[str, Any]]:
    """Read the answers to one phase as records for `Study.tell`, from the columns person, reward and the parameters.

    In a study with strata there is a column stratum as well. In a private study no reward is refused for its value:
    one that is empty is NaN, and may be infinite.
    """
    rows, parameters = _read_csv(path, measure, may_be_empty="reward" if private else None)
    column = next((name for name in parameters if strata and name.lower() == STRATUM), None)
    if strata and column is None:
        raise InputError(f"{path}, line 1 has no column {STRATUM!r}, and the study has strata; say who is of which")
    records = []
    for line, row in rows:
        decision = {name: row[name] for name in parameters if name != column}
        average = _cell(path, line, row, "reward", any_value=private)
        stratum = {} if column is None else {STRATUM: row[column]}
        records.append({"person": row["person"], "decision": decision, "average": average, **stratum})
    return records


def _read_csv(
    path: Path, measure: str, may_be_empty: str | None = None
) -> tuple[list[tuple[int, dict[str, str]]], list[str]]:
    """Return the rows of a CSV file with their line numbers, and the names of the columns that are parameters."""
    reader = csv.reader(io.StringIO(read_text(path)), strict=True)
    try:
        lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}; correct the line") from None
    if not lines:
        raise InputError(f"{path} is empty; its first line names the columns: person, price, reward, rounds")
    synonyms = {**SYNONYMS, measure: "reward"}
    names = [synonyms.get(name.lower(), name) for name in lines[0][1]]
    for name in REQUIRED:
        if name not in names:
            raise InputError(f"{path}, line 1 has no column {name!r}; it names {', '.join(names)}")
    if len(set(names)) < len(names) or "" in names:
        raise InputError(f"{path}, line 1 must name every column, each differently; it names {', '.join(names)}")
    for line, cells in lines[1:]:
        if len(cells) != len(names):
            raise InputError(f"{path}, line {line} has {len(cells)} cells for {len(names)} columns; complete the line")
        for column, (name, cell) in enumerate(zip(names, cells, strict=True), start=1):
            if not cell and name != may_be_empty:
                raise InputError(f"{path}, line {line}, column {column} ({name}) is ''; fill it in")
    rows = [(line, dict(zip(names, cells, strict=True))) for line, cells in lines[1:]]
    if not rows:
        raise InputError(f"{path} has a heading but no rows; add one row for each person and action")
    return rows, [name for name in names if name not in RESERVED]


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _cell(path: Path, line: int, row: Mapping[str, str], name: str, any_value: bool = False) -> float:
    number = _number(row[name] or "nan") if any_value else _number(row[name])
    if number is None or not (any_value or np.isfinite(number)):
        column = list(row).index(name) + 1
        raise InputError(f"{path}, line {line}, column {column} ({name}): {row[name]!r} is not a finite number")
    return number

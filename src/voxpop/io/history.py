"""The history of a metric under one decision, in a CSV file: a row for each round, in order."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from voxpop.calibration.pilot import round_among
from voxpop.calibration.shocks import SPARSE, ShockEstimate, estimate_shocks
from voxpop.errors import InputError, require_choice, said_of
from voxpop.io.cells import GAPS, kind_of, whole_number
from voxpop.io.columns import Numbers, read_columns
from voxpop.io.csv_text import Column, read_table
from voxpop.model.problem import Indices
from voxpop.model.words import counted

WEEK = 7  # days
DAY = 24 * 60  # minutes
APART = ((WEEK * DAY, "week"), (DAY, "day"), (60, "hour"), (1, "minute"))


def read_history(path: Path, column: str | None = None, content: bytes | None = None) -> ShockEstimate:
    """Estimate shocks from a column of a file; a column date, day, week, round or time says which rounds are missing.

    Empty cells are gaps. A weekly cycle is looked for if the rounds are days. With `content` nothing is read from the
    disk, and the path is only what errors call it.
    """
    table = read_table(path, content=content, single=True)
    when = round_among(table.names, (column or "",))
    measured = [name for name in table.names if name != when]
    if column is not None:
        require_choice("history column", column, measured)
    elif len(measured) > 1:
        raise InputError(f"{path} has the columns {', '.join(measured)}; say which is meant with --history-column")
    cells = table[column or measured[0]]
    kept = [row for row, cell in enumerate(cells.cells) if kind_of(cell) not in GAPS]
    found = read_columns(replace(table, columns=(cells.some(kept),)), [cells.name])[cells.name]
    assert isinstance(found, Numbers)
    places, first, uneven, step = (
        (np.arange(len(cells.cells)), None, False, "") if when is None else _places(table[when])
    )
    series = np.full(places[-1] + 1, np.nan)
    series[places[kept]] = found.values
    with said_of(path):
        return replace(estimate_shocks(series, None if first is None else WEEK, first or 0), uneven=uneven, step=step)


def _places(column: Column) -> tuple[Indices, int | None, bool, str]:
    """Return the rounds of the rows, from 0, on which day of the week they begin, whether dates are uneven, and how far
    they are apart.

    There is no day of the week if rounds are not days.
    """
    dates = day_of(column.filled[0]) is not None
    numbers = [minute_of(cell) if dates else whole_number(cell) for cell in column.cells]
    if dates and None not in numbers and any(after <= before for before, after in pairwise(filter(None, numbers))):
        numbers = [minute_of(cell, absolute=True) for cell in column.cells]  # clocks may have been set back
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        raise column.refusal(numbers.index(None), "is not a date such as 2024-05-31, nor a round's number; correct it")
    for row, (before, after) in enumerate(pairwise(known), start=1):
        if after == before:
            raise column.refusal(row, f"stands twice, as {column.said(row - 1)}; merge the rows into one average")
        if after < before:
            raise column.refusal(row, f"comes after {column.said(row - 1)}; sort the rows, the earliest first")
    steps = np.diff(known)
    step = int(steps.min()) if len(steps) else 1
    places = (np.array(known) - known[0]) // step
    if (steps % step).any() or places[-1] > SPARSE * len(known):  # months, or numbers that are no rounds
        return np.arange(len(known)), None, True, ""
    if dates:
        size, unit = next((size, unit) for size, unit in APART if step % size == 0)
        return places, known[0] // DAY % WEEK if step == DAY else None, False, counted(step // size, unit)
    return places, known[0] % WEEK if step == 1 and column.name.lower() == "day" else None, False, ""


def minute_of(cell: str, absolute: bool = False) -> int | None:
    """Read a date or a time as the number of its minute, by the local clock or by UTC; None if it is none.

    >>> minute_of("2024-05-31T01:30") - minute_of("2024-05-31"), minute_of("31.05.2024") == minute_of("2024-05-31")
    (90, True)
    """
    if (day := day_of(cell)) is None:
        return None
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        return DAY * day
    if moment.tzinfo is not None:
        moment = (moment.astimezone(UTC) if absolute else moment).replace(tzinfo=None)
    return DAY * moment.toordinal() + 60 * moment.hour + moment.minute


def day_of(cell: str) -> int | None:
    """Read a date as the number of its day; None if it is none.

    >>> day_of("2024-05-31") == day_of("31.05.2024") == day_of("2024-05-31 12:00"), day_of("17")
    (True, None)
    """
    german, text = re.fullmatch(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4}).*", cell), cell[:10]
    if german is not None:
        text = f"{german[3]}-{german[2]:0>2}-{german[1]:0>2}"
    try:
        return date.fromisoformat(text).toordinal() if "-" in text else None
    except ValueError:
        return None

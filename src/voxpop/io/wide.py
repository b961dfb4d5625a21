"""Wide tables, with a row for each person and a column for each decision, as long ones with a row for each answer.

A decision is called by its number, alone or behind the parameter's name (`price 2.99`, `2,99 EUR`), or as `describe`
writes it (`price = 2.99, plan = plus`). What is not filled in is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from voxpop.io.cells import GAPS, amount_of, kind_of
from voxpop.io.csv_text import Column, TextTable
from voxpop.model.words import counted, describe

NUMBERED = re.compile(r"(\D*?)[\s_=:]*((?:[^\s\w]\s?)?\d.*)")  # a name, and a number with its sign and unit
UNNAMED = "value"  # what a parameter is called of which only numbers are known


def long_of(table: TextTable, beside: Collection[str], called: str | None = None, gaps: bool = False) -> TextTable:
    """Return a wide table as a long one, without its `gaps` unless these are wanted; others stay as they are.

    If all columns but those `beside` are decisions, it is wide. `called` is the parameter's name, if they do not have
    it: then they may be words as well. Without a column of people every row is a person.
    """
    columns = [column for column in table.columns if column.name not in beside]
    labels = [_label(column.name, called) for column in columns]
    if len(labels) < 2 or not all(labels) or len({tuple(label) for label in labels}) > 1:
        return table
    others = [column for column in table.columns if column.name in beside]
    lines = table.columns[0].lines
    if "person" not in table.names:
        others = [Column(table.path, "person", 0, lines, tuple(f"{table.columns[0].row} {line}" for line in lines))]
    rows = [
        (row, place)
        for row in range(len(lines))
        for place, column in enumerate(columns)
        if gaps or kind_of(column.cells[row]) not in GAPS
    ]
    cells = {column.name: [column.cells[row] for row, _ in rows] for column in others}
    cells |= {name: [labels[place][name] for _, place in rows] for name in labels[0]}
    cells["reward"] = [columns[place].cells[row] for row, place in rows]
    at, word = tuple(lines[row] for row, _ in rows), table.columns[0].row
    made = [Column(table.path, name, 0, at, tuple(some), word) for name, some in cells.items()]
    missing = len(lines) * len(columns) - len(rows)
    said = (
        f"the table is wide: each of its {len(columns)} columns of answers is a decision, called {describe(labels[0])}"
    )
    left = (f"{counted(missing, 'cell')} without an answer cost nothing else",) if missing else ()
    return TextTable(table.path, table.separator, tuple(made), (*table.notes, said, *left))


def answered(table: TextTable, names: Collection[str]) -> TextTable:
    """Return the rows with an answer in one of these columns; all of them if none has any."""
    cells = zip(*(table[name].cells for name in names), strict=True)
    rows = [row for row, some in enumerate(cells) if not all(kind_of(cell) in GAPS for cell in some)]
    return replace(table, columns=tuple(column.some(rows) for column in table.columns)) if rows else table


def _label(heading: str, called: str | None) -> dict[str, str]:
    """Return the parameters that a heading names, with their values; nothing if it names none.

    >>> _label("price 2.99", None), _label("2,99", "price"), _label("price = 2.99, plan = plus", None)
    ({'price': '2.99'}, {'price': '2,99'}, {'price': '2.99', 'plan': 'plus'})
    >>> _label("red", None), _label("red", "tea")
    ({}, {'tea': 'red'})
    """
    parts = [part.split(" = ") for part in heading.split(", ")]
    if all(len(part) == 2 for part in parts):
        return {name.strip(): value.strip() for name, value in parts}
    found = NUMBERED.fullmatch(heading.strip())
    if found is not None and amount_of(found[2]) is not None:
        return {called or found[1].strip(" -") or UNNAMED: found[2].strip()}
    return {} if called is None else {called: heading}

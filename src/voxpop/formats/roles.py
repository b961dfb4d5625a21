"""Which columns of a pilot are parameters, and which describe people, rows or moments.

A column that counts the rows, that is the same in all rows of each person, or that differs in every row is hardly
something that is decided for everybody. It is refused by name unless the owner has said what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from voxpop.core.errors import InputError, require_choice
from voxpop.formats.cells import Kind, kind_of
from voxpop.formats.csv_text import Column, Table

RESERVED = ("person", "reward", "rounds")
SYNONYMS = {**dict(zip(RESERVED, RESERVED, strict=True)), "user": "person"}  # upper and lower case are the same
NAMED_SO = ("id", "uuid", "index", "row", "timestamp", "time", "date")  # or ending in _id and the like
MANY = 8  # rows from which on it is no coincidence that a column counts them, or never repeats itself


@dataclass(frozen=True)
class Roles:
    """What the owner says about the columns: which are parameters (all others are not), which are not, which are names.

    >>> Roles(ignored=("age",)).remedy(["region"], ["price", "region"])
    'add --ignore region, or, if everything is decided for everybody, --parameter price --parameter region'
    """

    parameters: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    def select(self, table: Table) -> list[str]:
        """Return the names of the parameters, in the order of the table; refuse columns that hardly are any."""
        known = [name for name in table.names if name not in RESERVED]
        for name in (*self.parameters, *self.ignored, *self.choices):
            if name in RESERVED:
                raise InputError(f"{name!r} is not a parameter; name one of the others: {', '.join(known)}")
            require_choice("column", name, known)
        for name in self.ignored:
            if name in self.parameters or name in self.choices:
                raise InputError(f"--ignore {name} contradicts what else is said about {name}; leave one of them out")
        chosen = [name for name in known if name not in self.ignored]
        if self.parameters:
            return [name for name in known if name in self.parameters or name in self.choices]
        people = table["person"].cells
        for (one, several), applies in REASONS.items():
            odd = [name for name in chosen if name not in self.choices and applies(table[name], people)]
            if odd:
                what = f"column {odd[0]} {one} and is hardly a parameter"
                if len(odd) > 1:
                    what = f"columns {', '.join(odd[:-1])} and {odd[-1]} {several} and are hardly parameters"
                raise InputError(f"{table.path}: {what}; {self.remedy(odd, chosen)}")
        return chosen

    def remedy(self, odd: Iterable[str], chosen: Iterable[str]) -> str:
        """Say how to leave out some columns, or to keep them."""
        leave, keep = (
            " ".join(f"--{option} {_quoted(name)}" for name in names)
            for option, names in (("ignore", odd), ("parameter", chosen))
        )
        return f"add {leave}, or, if everything is decided for everybody, {keep}"


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _counts(column: Column, people: tuple[str, ...]) -> bool:
    return len(column.cells) >= MANY and column.counts_rows


def _dates(column: Column, people: tuple[str, ...]) -> bool:
    return 2 * sum(kind_of(cell) is Kind.DATE for cell in column.cells) > len(column.cells)


def _describes(column: Column, people: tuple[str, ...]) -> bool:
    """Tell whether a column is the same in all rows of each person, several of whom have several rows."""
    values: dict[str, set[str]] = {}
    rows: dict[str, int] = {}
    for person, cell in zip(people, column.cells, strict=True):
        values.setdefault(person, set()).add(cell)
        rows[person] = rows.get(person, 0) + 1
    several = sum(count > 1 for count in rows.values())
    return several > 1 and all(len(found) == 1 for found in values.values()) and len(set(column.cells)) > 1


def _never_repeats(column: Column, people: tuple[str, ...]) -> bool:
    """Tell whether every row differs, in words or in a column that is named as an identifier."""
    if len(column.cells) < MANY or len(set(column.cells)) < len(column.cells):
        return False
    named = column.name.lower().replace(" ", "_").split("_")[-1] in NAMED_SO
    return named or all(kind_of(cell) in (Kind.WORD, Kind.QUANTITY) for cell in column.cells)


REASONS: dict[tuple[str, str], Callable[[Column, tuple[str, ...]], bool]] = {  # said of one column, and of several
    ("counts the rows", "count the rows"): _counts,
    ("holds dates or times", "hold dates or times"): _dates,
    ("differs in every row, as an identifier does,", "differ in every row, as identifiers do,"): _never_repeats,
    ("never changes within a person, as an age does,", "never change within a person, as an age does,"): _describes,
}

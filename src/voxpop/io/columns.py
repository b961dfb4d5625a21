"""Columns of a table as numbers or as words, or a refusal that names the cell and the remedy; never a guess.

A column holds numbers if every cell does, and words if none of its cells has a number in it. Anything between is
refused. Whether the comma or the point is the decimal mark is decided for each column by its own cells; where they do
not tell (1,234 and 1.234 alone), by the other columns, since one program wrote them all. If those do not tell either, a
point is the decimal mark in a file that is separated by commas, and all else is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from voxpop.errors import InputError, require_choice
from voxpop.io.cells import COMMA, MARKS, PERCENT, POINT, Amount, Kind, amount_of, is_plain, kind_of
from voxpop.io.csv_text import Column, Table

NAMES = {POINT: "point", COMMA: "comma"}
NO_NUMBER = {  # what to say of a cell that should be a number
    Kind.EMPTY: "fill it in",
    Kind.INFINITE: "is not a finite number; correct it",
    Kind.MISSING: "is a missing value; fill it in, or leave the line out",
    Kind.DATE: "is a date, perhaps made of a number by a spreadsheet; write a number, such as the days since a start",
    Kind.QUANTITY: "is not a number that can be read; write the digits alone, such as 250",
    Kind.WORD: "is not a number; correct it",
}


@dataclass(frozen=True)
class Numbers:
    """A column of numbers: their values, and how they were written."""

    values: tuple[float, ...]
    unit: str = ""
    example: str = ""  # a cell that is not written plainly, if there is one

    @property
    def reading(self) -> str:
        """How the cells were read, for people: empty if there is nothing to say."""
        if not self.example:
            return ""
        return f", in {self.unit}, read from {self.example!r}" if self.unit else f", read from {self.example!r}"


@dataclass(frozen=True)
class Words:
    """A column of words."""

    values: tuple[str, ...]


def read_columns(
    table: Table,
    numbers: Collection[str] = (),
    words: Collection[str] = (),
    either: Collection[str] = (),
    missing: Collection[str] = (),
    remedy: str = "",
) -> dict[str, Numbers | Words]:
    """Read the named columns: some must be numbers, some are words whatever they look like, and some may be either.

    In the columns of `missing`, which hold answers that are protected, a cell may be anything: each is read by itself,
    so that nobody's answer depends on how another is written, and what is no number is NaN. The `remedy` ends the
    refusal of a column that may be either; {name} in it stands for the column.
    """
    remedies = dict.fromkeys(either, remedy)
    found: dict[str, Numbers | Words] = {name: _words(table[name]) for name in words}
    amounts: dict[str, list[Amount | None]] = {}
    for name in either:
        if all(kind_of(cell) is Kind.WORD for cell in table[name].cells):
            found[name] = _words(table[name])
    for name in (*numbers, *(name for name in either if name not in found)):
        if name not in missing:
            amounts[name] = _amounts(table[name], remedies.get(name, ""))
    shown = {name: _mark(table[name], cells) for name, cells in amounts.items()}
    everywhere = {mark for mark in shown.values() if mark is not None}
    for name, cells in amounts.items():
        others = {mark for other, mark in shown.items() if other != name}
        mark = shown[name] or _decided(table, table[name], cells, everywhere)
        _require_plenty(table[name], cells, shown[name], others)
        found[name] = _numbers(table[name], cells, mark)
    for name in missing:
        if all(amount_of(cell) is None for cell in table[name].cells):
            raise InputError(f"{table.path}: no cell of the column {name} is a number; check which column holds it")
        found[name] = Numbers(tuple(_alone(cell, everywhere) for cell in table[name].cells))
    return found


def _alone(cell: str, everywhere: set[str]) -> float:
    """Read a protected answer by itself; only columns that are not protected tell about its decimal mark.

    >>> [_alone(cell, set()) for cell in ("1.300", "1,5", "1,234", "1.234,5", "-inf", "31.12.2024", "12 %")]
    [1.3, 1.5, 1.234, 1234.5, -inf, nan, 12.0]
    >>> _alone("1.300", {","})
    1300.0
    """
    amount = amount_of(cell)
    if amount is None:
        return float(cell) if kind_of(cell) is Kind.INFINITE else math.nan
    mark = amount.shows
    if mark is None and len(everywhere) == 1:
        mark = next(iter(everywhere))
    value = amount.at(mark or (COMMA if COMMA in cell else POINT))
    assert value is not None
    return value


def _require_plenty(column: Column, amounts: list[Amount | None], shown: str | None, others: set[str | None]) -> None:
    """Refuse a column in which a few cells would turn many others into thousands."""
    if shown is None or shown in others:
        return
    other = COMMA if shown == POINT else POINT  # which would separate thousands
    unclear = [row for row, it in enumerate(amounts) if it is not None and it.ambiguous and other in column.cells[row]]
    showing = [row for row, amount in enumerate(amounts) if amount is not None and amount.shows is not None]
    if len(unclear) > len(showing):
        few = f"only {column.cells[showing[0]]!r} on line {column.lines[showing[0]]} shows a mark, and "
        raise _unclear(column, amounts, unclear[0], few)


def read_numbers(table: Table, *names: str) -> dict[str, tuple[float, ...]]:
    """Read columns of numbers.

    >>> column = Column(path=__import__("pathlib").Path("a.csv"), name="price", position=1, lines=(2, 3),
    ...     cells=("$1,200", "$900.50"))
    >>> read_numbers(Table(column.path, ";", (column,)), "price")
    {'price': (1200.0, 900.5)}
    """
    found = read_columns(table, numbers=names)
    return {name: column.values for name, column in found.items() if isinstance(column, Numbers)}


def _words(column: Column) -> Words:
    """Return the cells as they are; refuse empty ones, and words that differ in capitals only."""
    alike: dict[str, int] = {}
    for row, cell in enumerate(column.cells):
        if not cell:
            raise _refusal(column, row, NO_NUMBER[Kind.EMPTY])
        first = alike.setdefault(cell.casefold(), row)
        if column.cells[first] != cell:
            raise _refusal(column, row, f"and {column.cells[first]!r} on line {column.lines[first]} should be the same")
    return Words(column.cells)


def _amounts(column: Column, remedy: str) -> list[Amount | None]:
    """Take the cells apart; refuse the first that is not a number, or that is one where most cells are words."""
    amounts = [amount_of(cell) for cell in column.cells]
    kinds = {row: kind_of(column.cells[row]) for row, amount in enumerate(amounts) if amount is None}
    wrong = list(kinds)
    if not wrong:
        return amounts
    row, ending = wrong[0], f"; {remedy.format(name=column.name)}" if remedy else ""
    words = [row for row, kind in kinds.items() if kind is Kind.WORD]
    if remedy and len(words) > len(amounts) - len(kinds):  # more words than numbers
        row = next(row for row in range(len(amounts)) if kinds.get(row) is not Kind.WORD)
        kind = kinds.get(row, Kind.NUMBER)
        if kind is not Kind.EMPTY:
            raise _refusal(column, row, f"is {kind.value} among words such as {column.cells[words[0]]!r}{ending}")
    raise _refusal(column, row, NO_NUMBER[kinds[row]] + (ending if column.cells[row] else ""))


def _mark(column: Column, amounts: list[Amount | None]) -> str | None:
    """Return the decimal mark that the cells show, if any; refuse cells that contradict each other."""
    first: dict[str, int] = {}
    for row, amount in enumerate(amounts):
        if amount is not None and amount.shows is not None:
            first.setdefault(amount.shows, row)
    if len(first) > 1:
        earlier, later = sorted(first.values())
        mark = next(mark for mark in MARKS if first[mark] == later)
        raise _refusal(
            column,
            later,
            f"has a decimal {NAMES[mark]}, unlike {column.cells[earlier]!r} on line {column.lines[earlier]}; write all "
            "numbers of the column alike",
        )
    return next(iter(first), None)


def _decided(table: Table, column: Column, amounts: list[Amount | None], everywhere: set[str]) -> str:
    """Return the decimal mark of a column whose own cells do not show it."""
    unclear = [row for row, amount in enumerate(amounts) if amount is not None and amount.ambiguous]
    if len(everywhere) == 1:
        return next(iter(everywhere))
    pointed = all(COMMA not in column.cells[row] for row in unclear)
    if not unclear or (not everywhere and table.separator == COMMA and pointed):
        return POINT
    raise _unclear(column, amounts, unclear[0])


def _unclear(column: Column, amounts: list[Amount | None], row: int, few: str = "") -> InputError:
    amount = amounts[row]
    assert amount is not None
    one, other = sorted((amount.at(mark) or 0.0 for mark in MARKS), key=abs)
    return _refusal(
        column,
        row,
        f"may be {one:.12g} or {other:.12g}, {few or 'and '}nothing else in the file tells which; write {one:.4f} or "
        f"{other:.0f}",
    )


def _numbers(column: Column, amounts: list[Amount | None], mark: str) -> Numbers:
    """Return the values; refuse two units in one column, and percentages beside plain numbers."""
    units = {amount.unit: row for row, amount in reversed(list(enumerate(amounts))) if amount is not None}
    strict = PERCENT in units or len(units.keys() - {""}) > 1
    if len(units) > 1 and strict:
        earlier, later = sorted(units.values())[:2]
        raise _refusal(
            column,
            later,
            f"has another unit than {column.cells[earlier]!r} on line {column.lines[earlier]}; write all alike",
        )
    values = []
    for row, amount in enumerate(amounts):
        value = None if amount is None else amount.at(mark)
        assert value is not None
        if not math.isfinite(value):
            raise _refusal(column, row, NO_NUMBER[Kind.INFINITE])
        values.append(value)
    odd = [cell for cell, amount in zip(column.cells, amounts, strict=True) if amount and not is_plain(cell)]
    return Numbers(tuple(values), max(units, default=""), odd[0] if odd else "")


def _refusal(column: Column, row: int, reason: str) -> InputError:
    cell = column.cells[row]
    return InputError(f"{column.place(row)}: {cell!r} {reason}" if cell else f"{column.place(row)} is ''; {reason}")


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

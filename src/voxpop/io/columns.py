"""Columns of a table as numbers or as words, or a refusal that names the cell and the remedy; never a guess.

A column holds numbers if every cell does, and words if none of its cells has a number in it. Anything between is
refused. Whether the comma or the point is the decimal mark is decided for each column by its own cells; where they do
not tell (1,234 and 1.234 alone), by the other columns, since one program wrote them all. If those do not tell either, a
point is the decimal mark in a file that is separated by commas, and all else is refused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property, partial

from voxpop.calibration.pilot import round_among
from voxpop.errors import InputError, all_of, require_choice
from voxpop.io.cells import COMMA, GAPS, MARKS, PERCENT, POINT, Amount, Kind, amount_of, is_plain, kind_of, truth_of
from voxpop.io.csv_text import Column, TextTable
from voxpop.model.words import counted

NAMES = {POINT: "point", COMMA: "comma"}
NO_NUMBER = {  # what to say of a cell that should be a number
    Kind.EMPTY: "leave the row out",
    Kind.INFINITE: "is not a finite number; correct it",
    Kind.MISSING: "is a missing value; leave the row out",
    Kind.DATE: "is a date, perhaps made of a number by a spreadsheet; write a number, such as the days since a start",
    Kind.QUANTITY: "is not a number that can be read; write the digits alone, such as 250",
    Kind.WORD: "is not a number; correct it, or leave the row out",
}


@dataclass(frozen=True)
class Numbers:
    """A column of numbers: their values, and how they were written."""

    values: tuple[float, ...]
    unit: str = ""
    example: str = ""  # a cell that is not written plainly, if there is one
    truths: bool = False  # the cells are yes and no

    @property
    def reading(self) -> str:
        """How the cells were read, for people: empty if there is nothing to say."""
        if self.truths:
            return ", 1 for yes and 0 for no"
        unit = f", in {self.unit}" if self.unit else ""
        return f"{unit}, read from {self.example!r}" if self.example else ""


@dataclass(frozen=True)
class Words:
    """A column of words."""

    values: tuple[str, ...]


def read_columns(
    table: TextTable,
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
    worded = [name for name in either if all(kind_of(cell) is Kind.WORD for cell in table[name].cells)]
    told = (*words, *worded)
    found: dict[str, Numbers | Words] = dict(
        zip(told, all_of(*(partial(_words, table[name]) for name in told)), strict=True)
    )
    truths = {name: _truths(table[name]) for name in numbers if name not in missing}
    found |= {name: column for name, column in truths.items() if column is not None}
    left = [name for name in (*numbers, *either) if name not in found and name not in missing]
    read = all_of(*(partial(_Amounts.of, table[name], remedy if name in either else "") for name in left))
    amounts = dict(zip(left, read, strict=True))
    everywhere = {cells.shown for cells in amounts.values()} - {None}
    for name, cells in amounts.items():
        others = {other.shown for other in amounts.values() if other is not cells}
        found[name] = cells.numbers(everywhere, others, table.separator)
    for name in missing:
        if all(amount_of(cell) is None and truth_of(cell) is None for cell in table[name].cells):
            raise InputError(f"{table.path}: no cell of the column {name} is a number; check which column holds it")
        found[name] = Numbers(tuple(_alone(cell, everywhere) for cell in table[name].cells))
    return found


def _alone(cell: str, everywhere: set[str | None]) -> float:
    """Read a protected answer by itself; only columns that are not protected tell about its decimal mark.

    >>> [_alone(cell, set()) for cell in ("1.300", "1,5", "1,234", "1.234,5", "-inf", "31.12.2024", "12 %")]
    [1.3, 1.5, 1.234, 1234.5, -inf, nan, 12.0]
    >>> _alone("1.300", {","})
    1300.0
    """
    amount = amount_of(cell)
    if amount is None:
        truth = truth_of(cell)
        return float(cell) if kind_of(cell) is Kind.INFINITE else math.nan if truth is None else truth
    mark = amount.shows
    if mark is None and len(everywhere) == 1:
        (mark,) = everywhere
    return _at(amount, mark or (COMMA if COMMA in cell else POINT))


def _at(amount: Amount, mark: str) -> float:
    value = amount.at(mark)
    assert value is not None  # a mark that cannot be was refused
    return value


def _truths(column: Column) -> Numbers | None:
    """Read a column of yes and no; None if it holds anything else, or nothing."""
    truths = [truth for cell in column.cells if (truth := truth_of(cell)) is not None]
    whole = truths and len(truths) == len(column.cells)
    return Numbers(tuple(truths), example=column.cells[0], truths=True) if whole else None


def _words(column: Column) -> Words:
    """Return the cells as they are; refuse empty ones, and words that differ in capitals only."""
    alike: dict[str, int] = {}
    for row, cell in enumerate(column.filled):
        first = alike.setdefault(cell.casefold(), row)
        if column.cells[first] != cell:
            raise column.refusal(row, f"and {column.said(first)} should be the same")
    return Words(column.cells)


@dataclass(frozen=True)
class _Amounts:
    """The numbers of a column as they are written, before it is known which mark is the decimal one."""

    column: Column
    amounts: tuple[Amount, ...]

    @classmethod
    def of(cls, column: Column, remedy: str) -> _Amounts:
        """Take the cells apart; refuse the first that is not a number, or that is one where most cells are words."""
        amounts = [amount_of(cell) for cell in column.cells]
        kinds = {row: kind_of(column.cells[row]) for row, amount in enumerate(amounts) if amount is None}
        if not kinds:
            return cls(column, tuple(filter(None, amounts)))
        unlike = (row for row in kinds if truth_of(column.cells[row]) is None)  # what is neither yes nor no
        row, ending = next(unlike, next(iter(kinds))), f"; {remedy.format(name=column.name)}" if remedy else ""
        words = [row for row, kind in kinds.items() if kind is Kind.WORD]
        if remedy and len(words) > len(amounts) - len(kinds):  # more words than numbers
            row = next(row for row in range(len(amounts)) if kinds.get(row) is not Kind.WORD)
            kind = kinds.get(row, Kind.NUMBER)
            if kind is not Kind.EMPTY:
                raise column.refusal(row, f"is {kind.value} among words such as {column.cells[words[0]]!r}{ending}")
        if kinds[row] in GAPS and (more := sum(kind in GAPS for kind in kinds.values()) - 1):
            raise column.refusal(row, f"{NO_NUMBER[kinds[row]]}, and {counted(more, 'row')} like it")
        raise column.refusal(row, NO_NUMBER[kinds[row]] + ("" if kinds[row] in GAPS else ending))

    @cached_property
    def shown(self) -> str | None:
        """The decimal mark that the cells show, if any; cells that contradict each other are refused."""
        first: dict[str, int] = {}
        for row, amount in enumerate(self.amounts):
            if amount.shows is not None:
                first.setdefault(amount.shows, row)
        if len(first) > 1:
            earlier, later = first.values()
            unlike = f"has a decimal {NAMES[list(first)[1]]}, unlike {self.column.said(earlier)}"
            raise self.column.refusal(later, f"{unlike}; write all numbers of the column alike")
        return next(iter(first), None)

    def mark(self, everywhere: set[str | None], others: set[str | None], separator: str) -> str:
        """Return the decimal mark, if need be from other columns; refuse a column that may be read in two ways."""
        column, shown = self.column, self.shown
        unclear = [row for row, amount in enumerate(self.amounts) if amount.ambiguous]
        if shown is not None and shown not in others:  # a few cells must not turn many others into thousands
            showing = [row for row, amount in enumerate(self.amounts) if amount.shows is not None]
            thousands = [row for row in unclear if (COMMA if shown == POINT else POINT) in column.cells[row]]
            if len(thousands) > len(showing):
                raise self._unclear(thousands[0], f"only {column.said(showing[0])} shows a mark, and ")
        if shown is None and len(everywhere) == 1:
            (shown,) = everywhere
        if shown is not None:
            return shown
        pointed = all(COMMA not in column.cells[row] for row in unclear)
        if not unclear or (not everywhere and separator == COMMA and pointed):
            return POINT
        raise self._unclear(unclear[0], "and ")

    def _unclear(self, row: int, why: str) -> InputError:
        one, other = sorted((_at(self.amounts[row], mark) for mark in MARKS), key=abs)
        may = f"may be {one:.12g} or {other:.12g}, {why}nothing else in the file tells which"
        return self.column.refusal(row, f"{may}; write {one:.4f} or {other:.0f}")

    def numbers(self, everywhere: set[str | None], others: set[str | None], separator: str) -> Numbers:
        """Return the values; refuse two units in one column, and percentages beside plain numbers."""
        column, mark = self.column, self.mark(everywhere, others, separator)
        units = {amount.unit: row for row, amount in reversed(list(enumerate(self.amounts)))}
        if len(units) > 1 and (PERCENT in units or len(units.keys() - {""}) > 1):
            earlier, later = sorted(units.values())[:2]
            raise column.refusal(later, f"has another unit than {column.said(earlier)}; write all alike")
        values = tuple(_at(amount, mark) for amount in self.amounts)
        for row, value in enumerate(values):
            if not math.isfinite(value):
                raise column.refusal(row, NO_NUMBER[Kind.INFINITE])
        example = next((cell for cell in column.cells if not is_plain(cell)), "")
        return Numbers(values, max(units, default=""), example)


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
    round: str | None = None  # the column that says when something was tried; found by its name unless given
    person: str | None = None  # the columns of people and of answers, if they are not called so
    reward: str | None = None
    wide: str | None = None  # the parameter of which a wide table has a column for each value
    metrics: tuple[str, ...] = ()  # columns of further answers, which guardrails are about
    perhaps: bool = False  # the reward may only be called so, with the answers in the column reward or average

    def synonyms(self, measure: str) -> dict[str, str]:
        """Return what columns are called in a table, by their names in lower case."""
        known = {**SYNONYMS, measure: "reward"} | ({"average": "reward"} if self.perhaps else {})
        for name, given in (("person", self.person), ("reward", self.reward)):
            if given is not None:
                known = {other: role for other, role in known.items() if role != name} | {given.strip().lower(): name}
        return known

    def require(self, table: TextTable) -> None:
        """Refuse a table without people or answers, or without what was said to hold them."""
        for name, given in (("person", self.person), ("reward", self.reward)):
            if given is not None and name not in table.names:
                require_choice("column", given, [name for name in table.names if name not in RESERVED])
        table.require("person", "reward", options=("person", "reward"))
        for name in self.metrics:
            if name in RESERVED or name == self.reward:
                raise InputError(
                    f"{name} is the objective, and cannot be a guardrail as well; give the guardrail another column, "
                    "or say with most_loss what a trial may lose of it"
                )
            require_choice("column", name, [name for name in table.names if name not in RESERVED])

    def round_of(self, table: TextTable) -> str | None:
        """Return the name of the column that says when something was tried; None if none does."""
        others, claimed = [name for name in table.names if name not in RESERVED], (*self.parameters, *self.choices)
        if self.round is None:
            return round_among([name for name in others if name not in self.ignored], claimed)
        if self.round in (*claimed, *self.ignored):
            raise InputError(
                f"--round-column {self.round} contradicts what else is said about it; leave one of them out"
            )
        return require_choice("round column", self.round, others)

    def select(self, table: TextTable) -> list[str]:
        """Return the names of the parameters, in the order of the table."""
        known = [name for name in table.names if name not in (*RESERVED, *self.metrics)]
        for name in (*self.parameters, *self.ignored, *self.choices):
            if name in RESERVED:
                raise InputError(f"{name!r} is not a parameter; name one of the others: {', '.join(known)}")
            require_choice("column", name, known)
        for name in self.ignored:
            if name in self.parameters or name in self.choices:
                raise InputError(f"--ignore {name} contradicts what else is said about {name}; leave one of them out")
        chosen = [name for name in known if name not in (*self.ignored, self.round_of(table))]
        if self.parameters:
            return [name for name in known if name in self.parameters or name in self.choices]
        return chosen

    def odd(self, table: TextTable, chosen: Collection[str]) -> dict[str, str]:
        """Return the columns that hardly are parameters, and why, unless they were said to be."""
        people, found = table["person"].cells, dict[str, str]()
        for reason, applies in ({} if self.parameters else REASONS).items():
            found |= {
                name: reason for name in chosen if name not in (*found, *self.choices) and applies(table[name], people)
            }
        return found

    def refuse_odd(self, table: TextTable, chosen: Collection[str]) -> None:
        """Refuse columns that hardly are parameters, all at once."""
        if odd := self.odd(table, chosen):
            said = ", ".join(f"column {name} {reason}" for name, reason in odd.items())
            are = "is hardly a parameter" if len(odd) == 1 else "are hardly parameters"
            raise InputError(f"{table.path}: {said} and {are}; {self.remedy(odd, chosen)}")

    def remedy(self, odd: Iterable[str], chosen: Iterable[str]) -> str:
        """Say how to leave out some columns, or to keep them."""
        leave, keep = (
            " ".join(f'--{option} "{name}"' if " " in name else f"--{option} {name}" for name in names)
            for option, names in (("ignore", odd), ("parameter", chosen))
        )
        return f"add {leave}, or, if everything is decided for everybody, {keep}"


def _describes(column: Column, people: tuple[str, ...]) -> bool:
    """Tell whether a column is the same in all rows of each person, several of whom have several rows."""
    several = sum(count > 1 for count in Counter(people).values())
    alike = len(set(zip(people, column.cells, strict=True))) == len(set(people))
    return several > 1 and alike and len(set(column.cells)) > 1


def _never_repeats(column: Column, people: tuple[str, ...]) -> bool:
    """Tell whether every row differs, in words or in a column that is named as an identifier."""
    if len(column.cells) < MANY or len(set(column.cells)) < len(column.cells):
        return False
    named = column.name.lower().replace(" ", "_").split("_")[-1] in NAMED_SO
    return named or all(kind_of(cell) in (Kind.WORD, Kind.QUANTITY) for cell in column.cells)


REASONS: dict[str, Callable[[Column, tuple[str, ...]], bool]] = {
    "counts the rows": lambda column, _: len(column.cells) >= MANY and column.counts_rows,
    "holds dates or times": lambda column, _: (
        2 * sum(kind_of(cell) is Kind.DATE for cell in column.cells) > len(column.cells)
    ),
    "differs in every row as an identifier does": _never_repeats,
    "never changes within a person as an age does": _describes,
}

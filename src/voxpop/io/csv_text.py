"""A table in a text file, as spreadsheets and statistics programs write it: which text it is, and where its cells are.

The encoding comes from a byte-order mark; without one the text is UTF-8, and failing that Windows-1252, which Excel
writes in western Europe. The separator is the one of , ; tab and | that fits every line, or what Excel's first line
`sep=;` says. Columns and rows without content, which spreadsheets leave at the edges, are dropped, and so is a column
without a name that counts the rows. What the cells mean is the business of `columns.py`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from voxpop.errors import InputError, one_of, said_of
from voxpop.io.cells import whole_number
from voxpop.io.files import read_bytes
from voxpop.io.frames import read_parquet
from voxpop.runtime.frames import Table

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MARKS = {  # longer ones first: that of UTF-32 begins with that of UTF-16
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
WINDOWS = "cp1252"
SAVE = "save the table as CSV (in Excel: File, Save As, CSV UTF-8) and give that file"
OTHERS = {  # how files that are no text begin
    b"PK\x03\x04": f"is an Excel, LibreOffice or other zipped file; {SAVE}",
    b"\xd0\xcf\x11\xe0": f"is an Excel file of the old kind; {SAVE}",
    b"\x1f\x8b": "is compressed; unpack it first",
    b"%PDF": f"is a PDF; {SAVE}",
}
PARQUET = b"PAR1"
PANDAS = re.compile(r"Unnamed: \d+")  # what pandas calls a column without a name


@dataclass(frozen=True)
class Column:
    """The cells of one column, and where they stand in the file."""

    path: Path
    name: str
    position: int  # from 1; 0 if it was made of several
    lines: tuple[int, ...]
    cells: tuple[str, ...]
    row: str = "line"  # what a row is called; those of a DataFrame are counted from 0
    people: tuple[str, ...] = ()  # whose the rows are, where they have no lines of a file

    def refusal(self, row: int, reason: str) -> InputError:
        """Return the refusal of a cell, which says where it stands."""
        column = f", column {self.position}" if self.position else ""  # of a wide table there are several
        whose = f" of {self.people[row]!r}" if self.people and self.people[row] else ""
        place = f"{self.path}, {self.row} {self.lines[row]}{whose}{column} ({self.name})"
        return InputError(
            f"{place}: {self.cells[row]!r} {reason}" if self.cells[row] else f"{place} is empty; {reason}"
        )

    def some(self, rows: Sequence[int]) -> Column:
        """Return some rows of a file's column."""
        lines, cells = tuple(self.lines[row] for row in rows), tuple(self.cells[row] for row in rows)
        return replace(self, lines=lines, cells=cells)

    def said(self, row: int) -> str:
        """Return another cell and its line, for a refusal."""
        return f"{self.cells[row]!r} on {self.row} {self.lines[row]}"

    @property
    def filled(self) -> tuple[str, ...]:
        """The cells, none of which may be empty."""
        if "" in self.cells:
            raise self.refusal(self.cells.index(""), "leave the row out")
        return self.cells

    @property
    def counts_rows(self) -> bool:
        """True if the cells count up from 0 or 1, row by row, as an index does."""
        numbers = [whole_number(cell) for cell in self.cells]
        known = [number for number in numbers if number is not None]
        steps = all(after == before + 1 for before, after in pairwise(known))
        return len(known) == len(numbers) and known[0] in (0, 1) and steps


@dataclass(frozen=True)
class TextTable:
    """Named columns of text cells, all equally long, and what was noticed on the way."""

    path: Path
    separator: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the file."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.names.index(name)]

    def require(self, *names: str, options: Collection[str] = ()) -> None:
        """Refuse a table that lacks some of these columns; those of `options` can be named on the command line."""
        missing = [name for name in names if name not in self.names]
        if missing:
            said = " and ".join(f"--{name} NAME" for name in missing if name in options)
            remedy = f"say which holds it: {said}" if said else "add it, or rename the one that holds it"
            has = f"it has {', '.join(self.names)}"
            raise InputError(f"{self.path} has no column {' and no column '.join(missing)}; {has}; {remedy}")


def read_table(
    path: Path, synonyms: dict[str, str] | None = None, content: bytes | Table | None = None, single: bool = False
) -> TextTable:
    r"""Read a table whose first line names its columns; `synonyms` renames them, by their names in lower case.

    With `content` nothing is read from the disk, and the path is only what errors call it; it may be a table of a
    program. A file may be Parquet, too. A `single` column is enough where that is said.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_bytes(b"Person;Preis;Gewinn\r\nJ\xf6rg;1,50 \x80;0,4\r\n")
    >>> table = read_table(file, {"preis": "price"})
    >>> table.names, table["price"].cells, table["Person"].cells
    (('Person', 'price', 'Gewinn'), ('1,50 €',), ('Jörg',))
    >>> table.separator, table.notes
    (';', ('people.csv is not UTF-8 and was read as Windows-1252 text, as Excel writes it',))
    """
    content = read_bytes(path) if content is None else content
    if isinstance(content, Table) or content.startswith(PARQUET):
        with said_of(path) if isinstance(content, bytes) else nullcontext():
            return _of_columns(path, content if isinstance(content, Table) else read_parquet(content), synonyms or {})
    text, notes = _text(path, content)
    separator, lines = _cut(path, text, single)
    number, heading = lines[0]
    rows = [(line, _fitted(cells, len(heading))) for line, cells in lines[1:]]
    for line, cells in rows:
        if len(cells) != len(heading):
            raise InputError(_misfit(path, line, len(cells), len(heading), separator))
    if not rows:
        raise InputError(f"{path} has a heading but no rows; add one row for each person and decision")
    columns, left_out = _columns(path, [(synonyms or {}).get(name.lower(), name) for name in heading], rows)
    names = [column.name for column in columns]
    if len(set(names)) < len(names) or "" in names:
        raise InputError(
            f"{path}, line {number} must name every column, each differently, and it names {', '.join(names)}; name "
            "them, or take out what stands above the heading"
        )
    return TextTable(path, separator, tuple(columns), (*notes, *left_out))


def _of_columns(path: Path, table: Table, synonyms: dict[str, str]) -> TextTable:
    """Write the cells of a table as text, in which each number is as exact as it was."""
    lines = tuple(table.lines or range(len(next(iter(table.columns.values())))))
    columns = [
        Column(
            path, synonyms.get(str(name), str(heading)), place, lines, tuple(map(_cell, table.columns[heading])), "row"
        )
        for place, (name, heading) in enumerate(table.names.items(), start=1)
    ]
    called = [column.name for column in columns]
    if twice := [column for column in columns if called.count(column.name) > 1]:
        headings = " and ".join(str(list(table.columns)[column.position - 1]) for column in twice)
        raise InputError(f"{path} has the columns {headings}, both of which hold the {twice[0].name}; drop one of them")
    people = next((column.cells for column in columns if column.name == "person"), ())
    return TextTable(path, ",", tuple(replace(column, people=people) for column in columns))


def _cell(value: Any) -> str:
    return "" if value is None or value != value else str(value).strip()


def _columns(path: Path, names: list[str], rows: list[tuple[int, list[str]]]) -> tuple[list[Column], list[str]]:
    """Return the columns but for empty ones and an index, and what to say about those that were left out."""
    lines, kept, left_out = tuple(line for line, _ in rows), [], []
    for position, name in enumerate(names, start=1):
        column = Column(path, name, position, lines, tuple(cells[position - 1] for _, cells in rows))
        if (not name or PANDAS.fullmatch(name)) and column.counts_rows:
            left_out.append(f"column {position}{name and f' ({name})'} counts the rows and was left out")
        elif name or any(column.cells):
            kept.append(column)
    return kept, left_out


def _text(path: Path, data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file with lines that end in a line feed, and what to say about its encoding."""
    for beginning, sentence in OTHERS.items():
        if data.startswith(beginning):
            raise InputError(f"{path} {sentence}")
    encoding = next((name for mark, name in MARKS.items() if data.startswith(mark)), None)
    if encoding is None and b"\x00" in data:
        encoding = _wide(path, data)
    notes: tuple[str, ...] = ()
    try:
        if encoding is None:
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = data.decode(WINDOWS)
                notes = (f"{path.name} is not UTF-8 and was read as Windows-1252 text, as Excel writes it",)
        else:
            text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not text in {error.encoding}; save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


def _wide(path: Path, data: bytes) -> str:
    """Tell UTF-16 without a byte-order mark by the zeros in every second byte, or refuse what is no text."""
    for name, zeros, letters in (("utf-16-le", data[1::2], data[::2]), ("utf-16-be", data[::2], data[1::2])):
        if zeros.count(0) > 0.8 * len(zeros) and 0 not in letters:
            return name
    raise InputError(f"{path}: byte {data.index(0)} is not text, so it is no CSV file; {SAVE}, as UTF-8")


def _cut(path: Path, text: str, single: bool) -> tuple[str, list[tuple[int, list[str]]]]:
    """Find the separator; return it, and the lines that are not blank, with their numbers and cells."""
    told = re.match(r'"?sep=(.)"?[,;\t| ]*(?=\n|$)', text)
    if told:
        if told[1] not in SEPARATORS:
            raise InputError(f"{path}, line 1 names the separator {told[1]!r}; use {one_of(SEPARATORS.values())}")
        return told[1], _lines(path, text[told.end() :], told[1])  # the line's end stays, and with it the numbering
    first = next((line for line in text.split("\n") if re.search(r'[^\s,;|"]', line)), "")
    found = {separator: _widths(path, text, separator) for separator in SEPARATORS if separator in first}
    likely = {separator: widths for separator, widths in found.items() if len(set(widths)) == 1} or found
    width = {separator: widths[0] if widths else first.count(separator) for separator, widths in likely.items()}
    best = [separator for separator in width if width[separator] == max(width.values())]
    if len(best) > 1:
        kinds = one_of(SEPARATORS[separator] for separator in best)
        raise InputError(f"{path} may be separated by {kinds}; say which in a first line such as sep=;")
    if first and not best and not single:
        raise InputError(
            f"{path} begins with one column, {first.strip()[:40]!r}; the first line must name the columns, "
            f"separated by {one_of(SEPARATORS.values())}"
        )
    separator = best[0] if best else ","
    return separator, _lines(path, text, separator)


def _widths(path: Path, text: str, separator: str) -> list[int]:
    """Return the numbers of cells of the lines, as far as they fit the heading; none if quotes are in the way."""
    try:
        (_, heading), *rows = _lines(path, text, separator)
    except InputError:
        return []
    width = max(place for place, cell in enumerate(heading, start=1) if cell)
    return [width, *(len(_fitted(cells, width)) for _, cells in rows)]


def _lines(path: Path, text: str, separator: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True, skipinitialspace=True)
    try:
        lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(map(str.strip, cells))]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}; correct the line") from None
    if not lines:
        raise InputError(f"{path} is empty; its first line names the columns: person, price, reward, rounds")
    return lines


def _fitted(cells: list[str], width: int) -> list[str]:
    """Drop empty cells beyond the heading's."""
    return cells if any(cells[width:]) else cells[:width]


def _misfit(path: Path, line: int, found: int, wanted: int, separator: str) -> str:
    remedy = "complete the line" if found < wanted else "take the others out"
    if found > wanted and separator == ",":
        remedy += "; if its numbers have decimal commas, separate the cells with semicolons"
    return f"{path}, line {line} has {found} cells for {wanted} columns; {remedy}"

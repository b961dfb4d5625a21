"""Files as programs write them: encodings, separators, and what spreadsheets leave at the edges."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.io.csv_text import SEPARATORS, read_table

TEXT = "person,price,reward\nJörg,1.5,2\nZoë,3,4\n"
CELLS = {"person": ("Jörg", "Zoë"), "price": ("1.5", "3"), "reward": ("2", "4")}


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "table.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def cells(path: Path) -> dict[str, tuple[str, ...]]:
    return {column.name: column.cells for column in read_table(path).columns}


WRITTEN = {
    "utf-8": TEXT.encode(),
    "utf-8 with a mark": TEXT.encode("utf-8-sig"),
    "utf-16": TEXT.encode("utf-16"),
    "utf-16, big end first": b"\xfe\xff" + TEXT.encode("utf-16-be"),
    "utf-16 without a mark": TEXT.encode("utf-16-le"),
    "utf-16 without a mark, big end first": TEXT.encode("utf-16-be"),
    "utf-32": TEXT.encode("utf-32"),
    "windows": TEXT.encode("cp1252"),
    "windows lines": TEXT.replace("\n", "\r\n"),
    "old Macintosh lines": TEXT.replace("\n", "\r"),
    "semicolons": TEXT.replace(",", ";"),
    "tabs": TEXT.replace(",", "\t"),
    "bars": TEXT.replace(",", " | "),
    "a line that names the separator": "sep=;\n" + TEXT.replace(",", ";"),
    "a quoted line that names it": '"sep=;"\r\n' + TEXT.replace(",", ";"),
    "everything quoted": TEXT.replace(",", '","').replace("\n", '"\n"').join(['"', ""])[:-1],
    "quotes after spaces": TEXT.replace("Zoë,3", 'Zoë, "3"'),
    "empty columns at the end": TEXT.replace("\n", ",,\n"),
    "empty cells at the end of rows only": TEXT.replace("5,2", "5,2,,").replace("3,4", "3,4,"),
    "an empty column in the middle": TEXT.replace("person,", "person,,").replace("g,", "g,,").replace("ë,", "ë,,"),
    "empty rows above": ",,,\n\n,,\n" + TEXT,
    "empty rows": TEXT.replace("\nZ", "\n,,\n\n , ,\nZ") + ",,\n\n",
}


@pytest.mark.parametrize("way", WRITTEN)
def test_the_same_table_is_read_however_it_is_written(file: Any, way: str) -> None:
    assert cells(file(WRITTEN[way])) == CELLS


def test_decimal_commas_do_not_look_like_separators(file: Any) -> None:
    found = cells(file("person;price, net, in euros, today;reward\na;1,5;0,25\nb;2,5;0,75\n"))
    assert list(found.values()) == [("a", "b"), ("1,5", "2,5"), ("0,25", "0,75")]


def test_lines_are_numbered_as_an_editor_does(file: Any) -> None:
    path = file('sep=;\nperson;price\n\na;1\n"b\nc";2\n')
    assert [str(read_table(path)["price"].refusal(row, "")).partition(":")[0] for row in range(2)] == [
        f"{path}, line 4, column 2 (price)",
        f"{path}, line 6, column 2 (price)",
    ]


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "Unnamed: 12"])
@pytest.mark.parametrize("first", [0, 1])
def test_an_index_without_a_name_is_left_out_and_that_is_said(file: Any, name: str, first: int) -> None:
    lines = [name + ",person,price"] + [f"{first + row},p{row},{2 * row}" for row in range(4)]
    table = read_table(file("\n".join(lines)))
    assert table.names == ("person", "price")
    assert len(table.notes) == 1
    assert "column 1" in table.notes[0]
    assert "counts the rows" in table.notes[0]


def test_a_column_with_a_name_stays_even_if_it_counts_the_rows(file: Any) -> None:
    table = read_table(file("\n".join(["week,person"] + [f"{week},p" for week in range(5)])))
    assert table.names == ("week", "person")
    assert table["week"].counts_rows
    assert not table["person"].counts_rows


def test_windows_text_is_said(file: Any) -> None:
    assert "Windows-1252" in read_table(file(TEXT.encode("cp1252"))).notes[0]
    assert read_table(file(TEXT)).notes == ()


REFUSED: dict[str, tuple[str | bytes, list[str]]] = {
    "excel": (b"PK\x03\x04" + bytes(40), ["Excel", "Save As"]),
    "old excel": (b"\xd0\xcf\x11\xe0\xa1\xb1" + bytes(40), ["Excel", "Save As"]),
    "parquet": (b"PAR1" + bytes(40), ["Parquet file cannot be read", "CSV"]),
    "compressed": (b"\x1f\x8b\x08" + bytes(40), ["compressed", "unpack"]),
    "binary": (b"ab\x00\x01\x02cd", ["byte 2 is not text", "save the table as CSV"]),
    "another encoding": (b"person,price\n\x81,1\n", ["byte 13", "save it as UTF-8"]),
    "half of a character": (b"\xff\xfep\x00e", ["utf-16", "save it as UTF-8"]),
    "one column": ("person price\na 1\n", ["one column", "'person price'", "commas, semicolons, tabs or bars"]),
    "a title above the table": ("Results of May\n\nperson,price\na,1\n", ["one column", "must name the columns"]),
    "nothing but separators": (",,,\n,,,\n", ["is empty"]),
    "two separators": ("person;price,reward\na;1,2\n", ["commas or semicolons", "sep=;"]),
    "an odd separator": ("sep=:\nperson:price\na:1\n", ["line 1", "':'", "commas, semicolons, tabs or bars"]),
    "unquoted decimal commas": ("person,price,reward\na,1,5,0,2\n", ["line 2 has 5 cells", "semicolons"]),
    "a name missing": ("person,,reward\na,red,2\nb,blue,3\n", ["line 1", "name every column"]),
    "a name twice": ("person,price,price\na,1,2\n", ["line 1", "each differently"]),
    "open quote": ('person;price\na;1\nb;"2\n', ["line 3"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_table_is_refused_with_the_remedy(file: Any, case: str) -> None:
    content, said = REFUSED[case]
    path = file(content)
    with pytest.raises(InputError) as caught:
        read_table(path)
    message = refusal(caught)
    assert [part for part in [str(path), *said] if part not in message] == [], message


@given(
    rows=st.lists(
        st.tuples(*[st.text(st.characters(categories=("L", "N", "P", "Zs"), max_codepoint=0x17F), max_size=6)] * 3),
        min_size=1,
        max_size=6,
    ),
    separator=st.sampled_from(list(SEPARATORS)),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_whatever_the_standard_writer_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]], separator: str, encoding: str
) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows([("person", "price", "reward"), *rows])
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    expected = [tuple(cell.strip() for cell in row) for row in rows if any(cell.strip() for cell in row)]
    if not expected:
        return
    table = read_table(path)
    assert table.separator == separator
    assert list(zip(*(table[name].cells for name in ("person", "price", "reward")), strict=True)) == expected

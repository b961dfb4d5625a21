"""Columns: numbers, words, or a refusal that names the cell; the decimal mark is decided by what the file shows."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers_cli import refusal
from tests.io.test_cells import written
from voxpop.errors import InputError
from voxpop.io.cells import COMMA, POINT
from voxpop.io.columns import Numbers, Words, read_columns
from voxpop.io.csv_text import Column, TextTable


def table(separator: str = ",", **columns: list[str]) -> TextTable:
    made = [
        Column(Path("t.csv"), name, place, tuple(range(2, 2 + len(cells))), tuple(cells))
        for place, (name, cells) in enumerate(columns.items(), start=1)
    ]
    return TextTable(Path("t.csv"), separator, tuple(made))


def read_numbers(table: TextTable, *names: str) -> dict[str, tuple[float | str, ...]]:
    return {name: column.values for name, column in read_columns(table, numbers=names).items()}


def one(*cells: str, separator: str = ",") -> Numbers:
    found = read_columns(table(separator, x=list(cells)), either=["x"])["x"]
    assert isinstance(found, Numbers)
    return found


READ: dict[tuple[str, ...], tuple[float, ...]] = {
    ("$4", "$1,250.50"): (4.0, 1250.5),
    ("4 USD", "5 USD"): (4.0, 5.0),
    ("12 %", "7.5 %"): (12.0, 7.5),
    ("$4", "5"): (4.0, 5.0),
    ("1.234,5", "0,5"): (1234.5, 0.5),
    ("1,234", "1,5"): (1.234, 1.5),  # the second cell shows that the comma is decimal
    ("1.234", "0.5"): (1.234, 0.5),
    ("1.234", "5"): (1.234, 5.0),  # separated by commas, so the point is decimal
    ("1,234,567", "1,234"): (1234567.0, 1234.0),
    ("1 234,5", "7"): (1234.5, 7.0),
}


@pytest.mark.parametrize("cells", READ)
def test_a_column_of_numbers_is_read_as_a_whole(cells: tuple[str, ...]) -> None:
    assert one(*cells).values == READ[cells]


def test_how_it_was_read_is_said_unless_it_is_plain() -> None:
    assert (one("1.5", "2").reading, one("1,5", "2").reading) == ("", ", read from '1,5'")
    assert one("1", "$2").reading == ", in $, read from '$2'"


def test_words_stay_words() -> None:
    assert read_columns(table(x=["red", "plan 2", "A4"]), either=["x"])["x"] == Words(("red", "plan 2", "A4"))
    assert read_columns(table(x=["4G", "5G"]), words=["x"])["x"] == Words(("4G", "5G"))


def test_another_column_shows_the_decimal_mark() -> None:
    prices = ["1,234", "2,345"]
    assert read_numbers(table(";", price=prices, reward=["0,5", "1"]), "price", "reward")["price"] == (1.234, 2.345)
    assert read_numbers(table(";", price=prices, reward=["0.5", "1"]), "price", "reward")["price"] == (1234.0, 2345.0)


REFUSED: dict[tuple[str, ...], list[str]] = {
    ("1,234", "5"): ["line 2, column 1 (x): '1,234' may be 1.234 or 1234", "write 1.2340 or 1234"],
    ("1.5", "2,5"): ["line 3", "'2,5' has a decimal comma, unlike '1.5' on line 2"],
    ("2,5", "1.5"): ["line 3", "'1.5' has a decimal point, unlike '2,5' on line 2"],
    ("$4", "€5"): ["line 3", "'€5' has another unit than '$4' on line 2"],
    ("12 %", "0.12"): ["line 3", "'0.12' has another unit than '12 %' on line 2"],
    ("1", "cheap"): ["line 3", "'cheap' is not a number", "REMEDY x"],
    ("S", "M", "38"): ["line 4", "'38' is a number among words such as 'S'", "REMEDY x"],
    ("250 ml", "500 ml"): ["line 2", "'250 ml' is not a number that can be read", "REMEDY x"],
    ("1", "2024-05-01"): ["line 3", "is a date", "REMEDY x"],
    ("red", "NA"): ["line 3", "'NA' is a missing value among words", "REMEDY x"],
    ("1", "#N/A"): ["line 3", "'#N/A' is a missing value"],
    ("1", "inf"): ["line 3", "'inf' is not a finite number"],
    ("1", "1e999"): ["line 3", "'1e999' is not a finite number"],
    ("1", ""): ["line 3, column 1 (x) is empty; leave the row out"],
    ("red", ""): ["line 3, column 1 (x) is empty"],
    ("red", "Red"): ["line 3", "'Red' and 'red' on line 2"],
}


@pytest.mark.parametrize("cells", REFUSED)
def test_everything_between_numbers_and_words_is_refused(cells: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        read_columns(table(x=list(cells)), either=["x"], remedy="REMEDY {name}")
    message = refusal(caught)
    assert [part for part in ["t.csv, line", *REFUSED[cells]] if part not in message] == [], message


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_point_alone_is_ambiguous_unless_commas_separate(separator: str) -> None:
    with pytest.raises(InputError, match=r"'1\.234' may be 1\.234 or 1234"):
        one("1.234", separator=separator)


def test_columns_that_contradict_each_other_decide_nothing() -> None:
    columns = {"a": ["1.5"], "b": ["2,5"], "c": ["1,234"]}
    assert read_numbers(table(";", **columns), "a", "b") == {"a": (1.5,), "b": (2.5,)}
    with pytest.raises(InputError, match="column 3"):
        read_numbers(table(";", **columns), "a", "b", "c")


def test_where_anything_goes_missing_values_are_nan_and_infinite_ones_stay() -> None:
    cells = ["", "NA", "inf", "-1e999", "0,5"]
    found = read_columns(table(";", x=cells), numbers=["x"], missing=["x"])["x"]
    assert str(found.values) == "(nan, nan, inf, -inf, 0.5)"
    words = read_columns(table(x=["good", "31.12.2024", "250 ml", "12 %", "1"]), numbers=["x"], missing=["x"])["x"]
    assert str(words.values) == "(nan, nan, nan, 12.0, 1.0)"
    with pytest.raises(InputError, match="no cell of the column x is a number"):
        read_columns(table(x=["good", "bad"]), numbers=["x"], missing=["x"])


def test_how_one_protected_answer_is_written_does_not_change_another() -> None:
    cells = ["1.300", "2.500", "0.900"]
    alone = read_columns(table(x=cells), numbers=["x"], missing=["x"])["x"].values
    for cell in ("1,5", "1.234,5", "12 %", "good", ""):
        beside = read_columns(table(x=[*cells, cell]), numbers=["x"], missing=["x"])["x"].values
        assert beside[:3] == alone == (1.3, 2.5, 0.9)


def test_a_few_cells_do_not_turn_many_into_thousands() -> None:
    with pytest.raises(InputError, match=r"'1\.300' may be 1\.3 or 1300, only '3,5' on line \d+ shows a mark"):
        read_numbers(table(x=["1.300", "2.500", "3,5"]), "x")
    assert read_numbers(table(x=["0.994", "1.975", "2.300"]), "x")["x"] == (0.994, 1.975, 2.3)
    assert read_numbers(table(";", x=["0,994", "1,975", "2,300"]), "x")["x"] == (0.994, 1.975, 2.3)
    assert read_numbers(table(";", x=["1.300", "2.500", "3,5"], y=["1,5"] * 3), "x", "y")["x"] == (1300.0, 2500.0, 3.5)


@given(
    columns=st.lists(st.lists(st.decimals(-(10**7), 10**7, places=3), min_size=3, max_size=3), min_size=2, max_size=2),
    places=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    style=st.sampled_from([(POINT, ""), (POINT, ","), (COMMA, "."), (COMMA, ""), (COMMA, " "), (POINT, "'")]),
    separator=st.sampled_from(";\t|"),
)
def test_a_file_in_one_style_is_read_as_it_was_meant_or_refused(
    columns: list[list[Decimal]], places: tuple[int, int], style: tuple[str, str], separator: str
) -> None:
    """Never a wrong number: where the style cannot be told, the file is refused."""
    pairs = list(zip(columns, places, strict=True))
    texts = [[written(number, digits, *style) for number in column] for column, digits in pairs]
    meant = [tuple(float(f"{number:.{digits}f}") for number in column) for column, digits in pairs]
    try:
        found = read_numbers(table(separator, a=texts[0], b=texts[1]), "a", "b")
    except InputError as error:
        if "nothing else in the file tells which" in str(error):
            return
        raise
    assert [found["a"], found["b"]] == meant

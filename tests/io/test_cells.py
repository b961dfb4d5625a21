"""Single cells: numbers in every style that is supported are read as what they say, and never as something else."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxpop.io.cells import COMMA, MARKS, POINT, Kind, amount_of, kind_of

# (decimal mark, separator of thousands), and how a locale would call it
STYLES = [(POINT, ""), (POINT, ","), (POINT, "'"), (POINT, " "), (COMMA, ""), (COMMA, "."), (COMMA, " "), (COMMA, "'")]
STYLES += [(COMMA, "\u00a0"), (COMMA, "\u202f"), (POINT, "\u2019")]
UNITS = ["$", "€", "£", "US$", "CHF", "EUR", "usd", "%", "kr"]

decimals = st.decimals(-(10**9), 10**9, places=4, allow_nan=False)


def written(number: Decimal, places: int, mark: str, group: str) -> str:
    """Write a number in a style, by Python's own formatting."""
    plain = f"{number:,.{places}f}"
    return plain.replace(",", "_").replace(".", mark).replace("_", group)


def in_unit(text: str, unit: str, before: bool, space: str) -> str:
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    return sign + (f"{unit}{space}{digits}" if before else f"{digits}{space}{unit}")


@given(
    number=decimals,
    places=st.integers(0, 4),
    style=st.sampled_from(STYLES),
    unit=st.sampled_from(["", *UNITS]),
    before=st.booleans(),
    space=st.sampled_from(["", " ", "\u00a0"]),
)
def test_a_number_is_read_back_as_it_was_written(
    number: Decimal, places: int, style: tuple[str, str], unit: str, before: bool, space: str
) -> None:
    mark, group = style
    text = written(number, places, mark, group)
    amount = amount_of(in_unit(text, unit, before, space) if unit else text)
    assert amount is not None
    expected = float(Decimal(f"{number:.{places}f}"))
    assert amount.at(mark) == expected
    assert amount.unit == unit.upper()
    # With the other mark it is the same number, no number, or the cell says itself that it is ambiguous.
    other = amount.at(MARKS[1 - MARKS.index(mark)])
    assert other in (None, expected) or amount.ambiguous
    assert amount.shows in (None, mark)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_a_program_writes_is_read_back_exactly(value: float) -> None:
    amount = amount_of(repr(value))
    assert amount is not None
    assert amount.at(POINT) == value


@given(st.text(alphabet="0123456789.,' -+eE$%", max_size=12))
def test_a_number_has_the_digits_of_its_cell(text: str) -> None:
    """Nothing is dropped or moved: without all other marks, Python reads the same number."""
    amount = amount_of(text)
    for mark in MARKS if amount is not None else ():
        assert amount is not None
        if (value := amount.at(mark)) is not None:
            kept = "".join(c for c in text.lower() if c in f"0123456789+-e{mark}").replace(mark, ".")
            assert value == float(kept)


NUMBERS = {
    "(1,234.50)": -1234.5,
    "$(4)": None,
    "\u22124": -4.0,
    "- 4": -4.0,
    "$-4": -4.0,
    "--4": None,
    "-$-4": None,
    "+4": 4.0,
    ".5": 0.5,
    "5.": 5.0,
    ".": None,
    "1e3": 1000.0,
    "1,234e-2": 12.34,
    "1_000": None,
    "\uff14": None,
    "4 $ 5": None,
    "$4 USD": None,
    "4 USDT": None,
    "12 345": 12345.0,
    "12 34": None,
    "1,00,000": None,
    "1,234,56": None,
    "01,234": None,
    "1.234.567": None,
    "1'234,567": None,
    "1,234'567": None,
    "4%%": None,
    "007": 7.0,
}


@pytest.mark.parametrize("cell", NUMBERS)
def test_what_is_a_number_with_a_decimal_point(cell: str) -> None:
    amount = amount_of(cell)
    assert (None if amount is None else amount.at(POINT)) == NUMBERS[cell]


KINDS = {
    Kind.WORD: ["red", "plan 2", "A4", "Q1", "none", "May", "true", "no. 5", "inf.", "München"],
    Kind.NUMBER: ["4", "4 USD", "$4", "12 %", "1e5", "-0,5"],
    Kind.QUANTITY: ["250 ml", "4G", "10-20", "3 for 2", "1,00,000", "about $4", "<5", "~3", "5 %%", "1.2.3.4", "12abc"],
    Kind.MISSING: ["NA", "n/a", "#N/A", "#DIV/0!", "NaN", "null", "-", "?"],
    Kind.INFINITE: ["inf", "-Infinity"],
    Kind.EMPTY: ["", "  ", "\u00a0"],
    Kind.DATE: [
        *("2024-05-31", "2024-05-31 12:00:00", "2024-05-31T12:00:00Z", "2024/5/31", "2024-05", "31.05.2024", "31.5.24"),
        *("5/31/24", "31.05.", "1-Feb", "01. Mai", "1. März 2024", "May-24", "May 31, 2024", "12:30", "9:05:11 pm"),
    ],
}


@pytest.mark.parametrize(("kind", "cell"), [(kind, cell) for kind, cells in KINDS.items() for cell in cells])
def test_what_a_cell_holds(kind: Kind, cell: str) -> None:
    assert kind_of(cell) is kind

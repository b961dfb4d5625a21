"""Exported tables: what a spreadsheet, a JSON parser and pandas make of them."""

import csv
import io
import json

import pandas as pd
import pytest

from voxpop.io.frames import as_csv, as_json, as_parquet

ROWS = [
    {"tea": "=HYPERLINK(1)", "reward": -0.5, "asked": 2, "open": True, "note": None},
    {"tea": 'Grün, "mild"', "reward": 0.1 + 0.2, "asked": 0, "open": False, "note": None},
]
COLUMNS = list(ROWS[0])


def test_csv_is_read_as_it_was_written() -> None:
    read = pd.read_csv(io.BytesIO(as_csv(COLUMNS, ROWS)))
    assert read["tea"].tolist() == ["'=HYPERLINK(1)", 'Grün, "mild"']
    assert read["reward"].tolist() == [-0.5, 0.1 + 0.2]
    assert read["open"].tolist() == [True, False]


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx"])
def test_no_cell_and_no_heading_begins_like_a_formula(text: str) -> None:
    written = as_csv([text], [{text: text}]).decode()
    heading, cell = written.replace('"', "").rstrip("\n").split("\n")
    assert heading == cell == f"'{text}"


def cells(written: str, separator: str) -> list[str]:
    """Return the cells that a spreadsheet makes of a file, in a country with this separator."""
    return [cell for line in csv.reader(io.StringIO(written), delimiter=separator) for cell in line]


@pytest.mark.parametrize("text", ["a;=1", "a|=1", "a; +1;b", 'a";=1', "a\n=1", "a;;-1", ";=1", "a\r\n@x", "a;\t=1"])
def test_no_cell_is_a_formula_in_a_country_with_another_separator(text: str) -> None:
    written = as_csv(["tea", "green"], [{"tea": text, "green": "x"}, {"tea": "x", "green": text}]).decode()
    for separator in ",;|":
        found = cells(written, separator)
        assert not [cell for cell in found if cell.lstrip(' "').startswith(("=", "+", "-", "@"))]
    assert len(cells(written, ",")) == 6


def test_json_has_no_infinity() -> None:
    content = {"a": [float("inf"), {"b": float("nan"), "c": (1, True, "x", None)}]}
    assert json.loads(as_json(content)) == {"a": [None, {"b": None, "c": [1, True, "x", None]}]}


def test_parquet_is_read_as_it_was_written() -> None:
    read = pd.read_parquet(io.BytesIO(as_parquet(COLUMNS, ROWS)))
    assert read["tea"].tolist() == [row["tea"] for row in ROWS]
    assert read["reward"].tolist() == [row["reward"] for row in ROWS]
    assert str(read["asked"].dtype) == "int64"
    assert read["note"].isna().all()


def test_parquet_columns_of_several_types_are_text() -> None:
    read = pd.read_parquet(io.BytesIO(as_parquet(["a", "b"], [{"a": "x", "b": 1}, {"a": 7, "b": 2.5}])))
    assert read["a"].tolist() == ["x", "7"]
    assert read["b"].tolist() == [1.0, 2.5]


@pytest.mark.parametrize("write", [as_csv, as_parquet])
def test_an_empty_table_has_its_columns(write: object) -> None:
    assert callable(write)
    written = io.BytesIO(write(["wave", "price"], []))
    read = pd.read_csv(written) if write is as_csv else pd.read_parquet(written)
    assert (list(read.columns), len(read)) == (["wave", "price"], 0)

"""DataFrames as plain columns: nothing is imported for lists, and what is missing is None."""

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.helpers_cli import python, refusal
from voxpop.errors import InputError
from voxpop.runtime.frames import columns_of, is_frame

COLUMNS: dict[str, list[Any]] = {"person": ["ann", "bob"], "reward": [0.5, None], "count": [1, 2]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, lambda c: pl.DataFrame(c).to_arrow()])
def test_tables_of_several_libraries_are_read_alike(make: Any) -> None:
    table = make(COLUMNS)
    assert is_frame(table)
    assert columns_of(table) == COLUMNS


def test_what_pandas_calls_missing_is_none_and_infinities_stay() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [np.nan, math.inf], "c": ["x", None]})
    assert columns_of(frame) == {"a": [1, None], "b": [None, math.inf], "c": ["x", None]}


def test_named_levels_of_an_index_are_columns_and_others_are_not() -> None:
    frame = pd.DataFrame(COLUMNS)
    assert list(columns_of(frame)) == ["person", "reward", "count"]
    assert columns_of(frame.set_index(["person", "count"])) == {
        "person": ["ann", "bob"],
        "count": [1, 2],
        "reward": [0.5, None],
    }


def test_headings_of_a_pivoted_table_are_plain_values() -> None:
    frame = pd.DataFrame({"person": ["a"], "price": [1.5], "tea": ["green"], "reward": [0.1]})
    assert list(columns_of(frame.pivot(index="person", columns=["price", "tea"], values="reward"))) == [
        "person",
        (1.5, "green"),
    ]


@pytest.mark.parametrize("frame", [pd.Series([1.0]), pl.LazyFrame(COLUMNS), pd.DataFrame([[1, 2]], columns=["a", "a"])])
def test_what_is_no_table_is_refused_with_a_remedy(frame: Any) -> None:
    with pytest.raises(InputError) as caught:
        columns_of(frame)
    refusal(caught)


@pytest.mark.parametrize("value", [[[0.1]], {"mean": [0.1]}, np.zeros((2, 2)), [{"person": 1}], None, "pandas"])
def test_lists_arrays_and_dictionaries_are_no_frames(value: object) -> None:
    assert not is_frame(value)


TOLD = """
import sys
from voxpop import Problem, SquaredExponential, Study

study = Study(Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50))
study.tell(study.ask().wave, [[0.3, 0.6, 0.2]] * 20)
print(study.best)
print(sorted({"narwhals", "pandas", "polars", "matplotlib", "jinja2"} & set(sys.modules)))
"""


def test_a_study_told_lists_imports_no_library_of_tables() -> None:
    done = python(TOLD)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr

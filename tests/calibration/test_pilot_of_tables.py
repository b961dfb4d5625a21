"""Pilots from tables: what a cell and a heading may be."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from voxpop.calibration import calibrate
from voxpop.calibration.pilot import Pilot
from voxpop.errors import InputError
from voxpop.model.decisions import Float
from voxpop.model.direction import Direction

ROWS: list[dict[str, Any]] = [
    {"person": who, "price": price, "cost": (price - 2) ** 2 + who % 3 / 9} for who in range(9) for price in (1, 2, 4)
]


def test_a_pilot_is_calibrated_in_the_direction_that_is_asked_for() -> None:
    pilot = replace(Pilot.from_table(ROWS, direction="minimize"), direction=Direction.MAXIMIZE)
    assert calibrate(pilot, direction="minimize").direction is Direction.MINIMIZE
    assert calibrate(pilot).direction is Direction.MAXIMIZE


def test_two_columns_of_answers_are_refused() -> None:
    both = [row | {"reward": -row["cost"]} for row in ROWS]
    with pytest.raises(InputError, match="has the columns cost and reward; keep one of them"):
        Pilot.from_table(both, direction="minimize")
    with pytest.raises(InputError, match="has the columns 'cost' and 'Cost'; rename or drop one of them"):
        Pilot.from_table([row | {"Cost": 1.0} for row in ROWS], direction="minimize")


def test_decimal_fractions_are_numbers() -> None:
    rows = [row | {"price": Decimal(row["price"]), "cost": Decimal(str(row["cost"]))} for row in ROWS]
    pilot = Pilot.from_table(rows, direction="minimize")
    assert pilot.space is not None
    assert pilot.space.parameters == {"price": Float(1.0, 4.0)}


def test_moments_are_no_parameters() -> None:
    rows = [row | {"price": pd.Timestamp(2026, 1, row["price"])} for row in ROWS]
    with pytest.raises(InputError, match="a parameter is a number or a word"):
        Pilot.from_table(rows, direction="minimize")


def test_a_row_without_a_person_is_refused() -> None:
    table = pd.DataFrame(ROWS).astype({"person": float})
    table.loc[4, "person"] = np.nan
    with pytest.raises(InputError, match="row 4 of the pilot has no person"):
        Pilot.from_table(table.set_index("person"), direction="minimize")


def test_a_protected_answer_may_be_anything() -> None:
    rows = [*ROWS[:-1], ROWS[-1] | {"cost": "none"}]
    assert np.isnan(Pilot.from_table(rows, direction="minimize", protected=True).averages[-1])


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="no rows; add one for each person and decision"):
        Pilot.from_table(pd.DataFrame(ROWS).iloc[:0], direction="minimize")


def test_two_answers_of_one_person_about_one_decision_are_refused_with_their_rows() -> None:
    with pytest.raises(InputError, match="'0' answered twice about 2, on row 1 and row 27; merge the rows"):
        Pilot.from_table([*ROWS, ROWS[1]], direction="minimize")


def test_columns_of_different_lengths_are_refused() -> None:
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    with pytest.raises(InputError, match="needs columns of one length, got 3, 27"):
        Pilot.from_table(columns | {"price": [1, 2, 4]}, direction="minimize")


def test_the_columns_of_parameters_may_be_in_capitals() -> None:
    rows = [{"Person": row["person"], "PRICE": row["price"], "Cost": row["cost"]} for row in ROWS]
    found = Pilot.from_table(rows, ["price"], direction="minimize")
    assert list(found.decisions) == [{"price": 1}, {"price": 2}, {"price": 4}]

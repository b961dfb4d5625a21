"""The same runs give the same results as when they were recorded: see tests/golden.py."""

import json
from typing import Any

import pytest

from tests.golden import COARSE, FILE, RUNS, TOLERANCE, differences

KEPT: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def test_every_run_is_recorded() -> None:
    assert list(KEPT) == list(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_results_are_those_recorded(name: str) -> None:
    assert list(differences(KEPT[name], RUNS[name](), COARSE.get(name, TOLERANCE))) == []


def test_a_difference_is_noticed() -> None:
    """Guards the test above."""
    kept = {"arms": [1, 2], "lower": [0.5, -1e-10], "noise": None}
    assert list(differences(kept, {"arms": [1, 2], "lower": [0.5 + 1e-7, 1e-10], "noise": None})) == []
    for now in (
        {"arms": [1, 3], "lower": [0.5, 0.0], "noise": None},
        {"arms": [1, 2, 2], "lower": [0.5, 0.0], "noise": None},
        {"arms": [1, 2.0], "lower": [0.5, 0.0], "noise": None},
        {"arms": [1, 2], "lower": [0.50001, 0.0], "noise": None},
        {"arms": [1, 2], "lower": [0.5, 0.0], "noise": 1.0},
        {"arms": [1, 2], "lower": [0.5, 0.0]},
    ):
        assert len(list(differences(kept, now))) == 1

"""The pilot's answers: what is accepted, and what is refused."""

from typing import Any

import numpy as np
import pytest

from tests.helpers import random_problem
from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.io.schema import decode, encode
from voxpop.model.problem import Evidence

GOOD: dict[str, Any] = {
    "points": [[0.1, 0.2], [0.5, 0.6], [0.9, 0.4]],
    "rounds": [20, 10, 5],
    "people": 40,
    "mean": [1.2, 1.9, 0.3],
}


def test_lists_become_arrays_of_numbers() -> None:
    made = Evidence(**GOOD)
    assert (made.points.shape, made.rounds.shape, made.mean.shape) == ((3, 2), (3,), (3,))
    assert all(array.dtype == float for array in (made.points, made.rounds, made.mean))


def test_the_caller_s_arrays_may_be_changed_afterwards() -> None:
    mean = np.array(GOOD["mean"])
    made = Evidence(**{**GOOD, "mean": mean})
    mean[0] = 99.0
    assert made.mean[0] == 1.2


def test_plain_data_comes_back() -> None:
    data = encode(Evidence(**GOOD))
    assert encode(decode(Evidence, data)) == data == GOOD


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nobody": ({"people": 0}, "the pilot's people must be a whole number, at least 1, got 0"),
    "half a person": ({"people": 1.5}, "the pilot's people must be a whole number"),
    "no actions": ({"points": np.empty((0, 2)), "rounds": [], "mean": []}, "one row of coordinates"),
    "a flat list of points": ({"points": [0.1, 0.5, 0.9]}, r"the shapes \(3,\), \(3,\) and \(3,\)"),
    "too few rounds": ({"rounds": [20, 10]}, r"\(3, 2\), \(2,\) and \(3,\)"),
    "too many averages": ({"mean": [1.2, 1.9, 0.3, 0.4]}, r"\(3,\) and \(4,\)"),
    "no rounds behind an average": ({"rounds": [20, 0, 5]}, "positive number of rounds, got 0"),
    "not a number": ({"mean": [1.2, np.nan, 0.3]}, "the pilot's mean must be finite, got nan"),
    "a word": ({"rounds": ["many", 1, 1]}, "the pilot's rounds must be an array of numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_evidence_that_cannot_be_used_is_refused(case: str) -> None:
    changes, said = REFUSED[case]
    with pytest.raises(InputError, match=said) as caught:
        Evidence(**{**GOOD, **changes})
    refusal(caught)


def test_a_problem_keeps_its_pilot_and_refuses_one_of_other_dimensions() -> None:
    made = Evidence(**GOOD)
    assert random_problem(0, pilot=[made]).pilot == (made,)
    with pytest.raises(InputError, match="have 2 dimensions and the study's have 3; use a pilot on the same") as caught:
        random_problem(0, d=3, pilot=[made])
    refusal(caught)

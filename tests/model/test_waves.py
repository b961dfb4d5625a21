import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import random_problem
from voxpop.errors import InputError
from voxpop.model.waves import Feedback, Info, Plan, Tally, latest_warning

STEP = 2.0**-40
ANSWERS = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=12)


@given(answers=ANSWERS, data=st.data())
def test_a_tally_does_not_depend_on_order_or_grouping(answers: list[tuple[float, float]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(answers))
    groups: list[list[tuple[float, float]]] = [[shuffled[0]]]
    for answer in shuffled[1:]:
        if data.draw(st.booleans()):
            groups.append([])
        groups[-1].append(answer)
    first, *rest = [Tally.of(group, STEP) for group in groups]
    for tally in rest:
        first = tally + first
    assert first == Tally.of(answers, STEP)


@given(answers=ANSWERS)
def test_the_average_is_exact_up_to_half_a_step(answers: list[tuple[float, float]]) -> None:
    feedback = Tally.of(answers, STEP).feedback()
    assert feedback.count == len(answers)
    for mean, column in zip(feedback.mean.tolist(), zip(*answers, strict=True), strict=True):
        exact = sum(map(Fraction, column), Fraction(0)) / len(answers)
        assert abs(Fraction(mean) - exact) <= Fraction(STEP) / 2 + abs(exact) * Fraction(1, 2**53)


@given(multiples=st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=12))
def test_the_average_of_answers_on_the_grid_is_the_nearest_float(multiples: list[int]) -> None:
    feedback = Tally.of([[m * STEP] for m in multiples], STEP).feedback()
    assert feedback.mean[0] == float(Fraction(sum(multiples), len(multiples)) * Fraction(STEP))


@given(multiples=st.lists(st.integers(2**70, 2**79), min_size=1, max_size=12))
def test_very_large_answers_are_added_without_overflow(multiples: list[int]) -> None:
    answers = [[float(m) * STEP] for m in multiples]
    exact = sum((Fraction(row[0]) for row in answers), Fraction(0)) / len(answers)
    assert Tally.of(answers, STEP).feedback().mean[0] == float(exact)


def test_bits_that_floating_point_addition_loses_are_kept() -> None:
    big = 2.0**30
    answers = [[big], [STEP], [-big]] * 1000
    assert Tally.of(answers, STEP).feedback().mean[0] == pytest.approx(STEP / 3, rel=1e-15, abs=0)
    assert np.mean(answers, axis=0)[0] != pytest.approx(STEP / 3, rel=1e-3, abs=0)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([[1e300]], r"the answer 1e\+300 is out of all proportion"),
        ([[0.0, -1e13]], r"the answer 1e\+13 is out of all proportion to the problem's scale \(1\)"),
        ([[math.nan]], r"finite, got nan at position \[0, 0\]"),
        ([[0.0], [math.inf]], r"finite, got inf at position \[1, 0\]"),
        ([1.0, 2.0], r"shape \(people, arms\).*got \(2,\)"),
        ([], "not be empty"),
        (np.empty((0, 3)), "not be empty"),
        ([[1.0], [1.0, 2.0]], "numbers of one shape"),
        ([["yes"]], "array of numbers"),
    ],
)
def test_absurd_answers_are_refused(answers: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Tally.of(answers, STEP)


def test_tallies_of_different_plans_or_problems_cannot_be_added() -> None:
    with pytest.raises(InputError, match="same plan"):
        Tally.of([[1.0]], STEP) + Tally.of([[1.0, 2.0]], STEP)
    with pytest.raises(InputError, match="same problem"):
        Tally.of([[1.0]], STEP) + Tally.of([[1.0]], 2 * STEP)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_the_grid_is_a_power_of_two_and_fine_enough_for_the_problem(scale: float) -> None:
    step = random_problem(0, norm_bound=scale, noise_std=scale / 10, bias_std=scale / 10).grid_step
    assert math.frexp(step)[0] == 0.5
    assert step < 1e-11 * scale
    Tally.of([[1000 * scale]], step)


@pytest.mark.parametrize("mean", [[math.nan], [0.0, math.inf], "high"])
def test_feedback_must_be_finite_numbers(mean: object) -> None:
    with pytest.raises(InputError, match="the feedback's mean must be"):
        Feedback(mean, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, -1, 2.5, True, None])
def test_feedback_must_come_from_somebody(count: object) -> None:
    with pytest.raises(InputError, match=f"the feedback's count must be a whole number, at least 1, got {count}"):
        Feedback(np.zeros(1), count)  # type: ignore[arg-type]


def test_a_plan_counts_its_rounds_and_numbers() -> None:
    plan = Plan(3, np.array([4, 0, 7]), np.array([1, 2, 5]), 6)
    assert (plan.length, plan.numbers) == (8, 18)


def test_the_latest_warning_stays_when_later_waves_find_nothing() -> None:
    def info(warning: str) -> Info:
        return Info(5, 4, 0.1, 1.0, 1.0, refuted=False, warning=warning)

    assert latest_warning([]) == latest_warning([info("")]) == ""
    assert latest_warning(map(info, ["first", "second", ""])) == "second"

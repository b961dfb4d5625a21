"""Products beside the sums: the scatter of single answers, exact in any grouping and for any size."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxpop.errors import Array
from voxpop.model.waves import Feedback, Tally

STEP = 2.0**-40
ANSWERS = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2, max_size=12)


def scatter(tally: Tally) -> Array:
    found = tally.feedback().scatter
    assert found is not None
    return found


def in_chunks(answers: Array, size: int) -> Tally:
    first, *rest = [Tally.of(answers[start : start + size], STEP) for start in range(0, len(answers), size)]
    for part in rest:
        first = first + part
    return first


@given(answers=ANSWERS, data=st.data())
def test_squares_do_not_depend_on_order_or_grouping(answers: list[tuple[float, float]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(answers))
    cut = data.draw(st.integers(1, len(answers) - 1))
    parts = Tally.of(shuffled[:cut], STEP) + Tally.of(shuffled[cut:], STEP)
    whole = Tally.of(answers, STEP)
    assert parts.products == whole.products
    assert scatter(parts).tolist() == scatter(whole).tolist()


@pytest.mark.parametrize("people", [2, 3, 50, 5000])
def test_the_scatter_is_the_sample_covariance(people: int) -> None:
    answers = np.random.default_rng(people).normal(size=(people, 3)) * [0.1, 1.0, 30.0] + [5.0, 0.0, -100.0]
    assert scatter(Tally.of(answers, STEP)) == pytest.approx(np.cov(answers.T), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("size", [1, 7, 100, 999])
def test_chunks_give_the_scatter_of_all_answers(size: int) -> None:
    answers = np.random.default_rng(0).normal(size=(1000, 2)) * [1.0, 40.0]
    assert in_chunks(answers, size) == Tally.of(answers, STEP)
    assert scatter(in_chunks(answers, size)) == pytest.approx(np.cov(answers.T), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("people", [2, 64, 3000])
@pytest.mark.parametrize("bits", range(0, 80, 3))
def test_squares_of_answers_of_any_size_are_exact(bits: int, people: int) -> None:
    """Also where two halves of a number, or the sum over many people, hardly fit into 64 bits."""
    grid = np.rint(np.random.default_rng(bits).uniform(-1.0, 1.0, size=(people, 2)) * 2.0**bits)
    grid[:, 1] = np.copysign(2.0**bits, grid[:, 1])
    tally = Tally.of(grid * STEP, STEP)
    columns = [[int(value) for value in column] for column in grid.T.tolist()]
    exact = [sum(a * b for a, b in zip(one, other, strict=True)) for one in columns for other in columns]
    assert tally.products == tuple(exact)
    totals = [one * other for one in tally.total for other in tally.total]
    for found, product, total in zip(scatter(tally).ravel().tolist(), exact, totals, strict=True):
        covariance = Fraction(people * product - total, people * (people - 1)) * Fraction(STEP) ** 2
        assert found == pytest.approx(float(covariance), rel=1e-12, abs=0)


def test_a_small_scatter_around_a_large_average_is_not_lost_to_rounding() -> None:
    answers = 1e6 + 1e-3 * np.random.default_rng(0).normal(size=(500, 1))
    assert scatter(Tally.of(answers, STEP))[0] == pytest.approx((answers - 1e6).var(axis=0, ddof=1), rel=1e-6)


def test_equal_answers_do_not_scatter() -> None:
    assert scatter(Tally.of([[0.3, -7.0]] * 9, STEP)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_one_person_does_not_scatter_and_two_groups_of_one_do() -> None:
    one, other = Tally.of([[1.0, 2.0]], STEP), Tally.of([[3.0, 2.0]], STEP)
    assert one.feedback().scatter is None
    assert scatter(one + other).tolist() == [[2.0, 0.0], [0.0, 0.0]]


def test_sums_whose_parts_were_not_seen_have_no_scatter() -> None:
    seen, unseen = Tally.of([[1.0], [2.0]], STEP), Tally.of_steps(np.array([[5.0], [9.0]]), STEP)
    assert unseen.products is None
    for mixed in (seen + unseen, unseen + seen, unseen + unseen):
        assert mixed.products is None
        assert mixed.feedback().scatter is None
    assert (seen + unseen).count == 4


def test_feedback_has_no_scatter_unless_given() -> None:
    assert Feedback(np.zeros(2), 5).scatter is None

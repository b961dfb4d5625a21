"""Lazy selection takes exactly the arms that selection with every variance up to date takes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import everything, random_problem, small_pieces
from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.gp.posterior import DensePosterior
from voxpop.gp.selection import BatchRule, Layer, LazyPosterior, Selection, fill, select
from voxpop.model.kernels import Constant, Kernel, Linear, Matern, SquaredExponential
from voxpop.model.problem import Indices, Problem
from voxpop.runtime import machine as memory


def dense(problem: Problem, active: Indices, rounds: int, scale: float) -> Selection:
    return fill(DensePosterior(problem, active), active, rounds, scale)


def lazily(problem: Problem, active: Indices, rounds: int, scale: float) -> Selection:
    return fill(LazyPosterior(problem, active), active, rounds, scale)


def same(one: Selection, other: Selection) -> None:
    np.testing.assert_array_equal(one.arms, other.arms)
    np.testing.assert_array_equal(one.pulls, other.pulls)
    assert one.batches == other.batches
    assert one.information_gain == pytest.approx(other.information_gain, rel=1e-9)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)


# Variances of two actions are either equal or differ by far more than the share that counts as equal: there, and only
# there, rounding could decide.
KERNELS: dict[str, Kernel] = {
    "smooth": SquaredExponential(0.2),
    "rough": Matern(0.3, nu=0.5),
    "independent": SquaredExponential(1e-6),
    "flat": SquaredExponential(1e9),
    "rank three": Linear(offset=0.1),
    "sum": Constant(0.5) + Matern(0.2),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("rounds", "scale"), [(1, 0.01), (60, 0.0), (400, 0.0), (2500, 0.05)])
def test_the_same_arms_as_with_every_variance_up_to_date(kernel: str, rounds: int, scale: float) -> None:
    problem = random_problem(1, n=130, d=2, kernel=KERNELS[kernel], ridge=0.05)
    same(lazily(problem, everything(problem), rounds, scale), dense(problem, everything(problem), rounds, scale))


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 150),
    scale=st.sampled_from([0.0, 0.02, 1.0]),
    ridge=st.floats(1e-4, 10.0),
    rounds=st.integers(1, 300),
)
def test_any_problem_has_the_same_arms(seed: int, n: int, scale: float, ridge: float, rounds: int) -> None:
    problem = random_problem(seed, n=n, d=3, kernel=SquaredExponential(0.3), ridge=ridge)
    active = np.flatnonzero(np.random.default_rng(seed).random(n) < 0.8)
    active = active if len(active) else everything(problem)
    same(lazily(problem, active, rounds, scale), dense(problem, active, rounds, scale))


def test_equal_actions_are_taken_in_order() -> None:
    """A grid ties many variances exactly: order decides, not rounding."""
    axis = np.linspace(0, 1, 11)
    points = np.array([(x, y) for x in axis for y in axis])
    problem = Problem(points, SquaredExponential(0.1), 0.1, 0.1, 1.0, 1000, ridge=0.1)
    same(lazily(problem, everything(problem), 250, 0.0), dense(problem, everything(problem), 250, 0.0))


def test_the_frontier_spares_most_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    caught_up: list[int] = []
    catch_up = Layer._catch_up

    def counted(self: Layer) -> None:
        caught_up.append(len(self._root.arms))
        catch_up(self)

    monkeypatch.setattr(Layer, "_catch_up", counted)
    problem = random_problem(3, n=3000, d=2, kernel=SquaredExponential(0.15), ridge=0.01)
    lazily(problem, everything(problem), 150, 0.0)
    assert len(caught_up) < 50


RULES: list[BatchRule] = ["corrected", "printed", "single"]


@pytest.mark.parametrize("rule", RULES)
def test_large_problems_are_selected_lazily(monkeypatch: pytest.MonkeyPatch, rule: BatchRule) -> None:
    problem = random_problem(4, n=120, d=2, ridge=0.02)
    expected = select(problem, everything(problem), 300, 1.6, rule)
    monkeypatch.setattr("voxpop.gp.selection.GRAM_LIMIT", 50)
    monkeypatch.setattr(DensePosterior, "most_uncertain", refuse_all(DensePosterior.most_uncertain, problem.size))
    same(select(problem, everything(problem), 300, 1.6, rule), expected)


def refuse_all(most_uncertain: Any, size: int) -> Any:
    def checked(self: DensePosterior) -> int:
        assert len(self.candidates) < size
        return int(most_uncertain(self))

    return checked


def test_what_does_not_fit_is_refused_with_the_size_that_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_limit", lambda: 50_000)
    problem = random_problem(5, n=400, d=2, kernel=SquaredExponential(0.1))
    with pytest.raises(
        InputError, match=r"400 actions with 16 batches per wave take .* at most \d+ actions fit"
    ) as caught:
        lazily(problem, everything(problem), 100, 0.0)
    refusal(caught)

"""Widths computed block by block equal those of the whole and are never too small, compiled or not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import everything, random_problem
from voxpop.gp import large_widths as blocks
from voxpop.gp.large_widths import Streamed
from voxpop.gp.selection import select
from voxpop.gp.widths import EPS, PLAIN_SEARCH, AffineEstimator, Path, Search
from voxpop.model.kernels import Kernel, Linear, Matern, SquaredExponential
from voxpop.model.problem import Problem
from voxpop.policies import make_policy
from voxpop.simulation.runs import simulate
from voxpop.simulation.scenarios import Options, make_scenario

FLAT = 1e-4  # a width with two scales is so flat between them that a search may end there
SEARCHES = ["plain", "compiled"]


def search(name: str) -> Search:
    if name == "plain":
        return PLAIN_SEARCH
    compiled = pytest.importorskip("voxpop.gp.compiled")
    return Search(compiled.minimise, compiled.evaluate)


def estimator_of(problem: Problem, clipping: bool = False) -> AffineEstimator:
    chosen = select(problem, everything(problem), 200, 1.6)
    noise = problem.answer_noise(chosen.arms, chosen.pulls, 30)
    return AffineEstimator(problem, chosen.arms, noise, 1e-4 * noise if clipping else None)


KERNELS: dict[str, Kernel] = {
    "smooth": SquaredExponential(0.3),
    "rough": Matern(0.3, nu=0.5),
    "rank three": Linear(offset=0.5),
    "flat": SquaredExponential(1e6),
    "independent": SquaredExponential(1e-6),
}


@pytest.mark.parametrize("clipping", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", SEARCHES)
def test_blocks_say_what_the_whole_says(
    monkeypatch: pytest.MonkeyPatch, name: str, kernel: str, clipping: bool
) -> None:
    monkeypatch.setattr(blocks, "fastest_search", lambda: search(name))
    problem = random_problem(0, n=150, kernel=KERNELS[kernel], norm_bound=2.0)
    estimator, at = estimator_of(problem, clipping), everything(problem)[3:]
    y = np.random.default_rng(0).standard_normal(len(estimator.arms))
    parts = Streamed(estimator, y).values_and_gaps(at, 5, 2.0)
    whole = estimator.values_and_gaps(at, 5, 2.0)
    for (estimate, width), affine in zip(parts, whole, strict=True):
        np.testing.assert_allclose(width, affine.width, rtol=3e-6, atol=3e-7)
        # Where the minimum is flat, c may differ: no estimate by more than a sliver of its width.
        assert np.all(np.abs(estimate - affine.estimate(y)) <= 2e-3 * affine.width + 1e-6)
    np.testing.assert_array_equal(Streamed(estimator, y).values(at, 2.0), parts[0])


@given(seed=st.integers(0, 10**6), arms=st.integers(1, 20), weight=st.floats(1e-3, 1e3), spread=st.floats(0, 12))
def test_the_compiled_search_is_as_good_as_the_plain_one(seed: int, arms: int, weight: float, spread: float) -> None:
    rng = np.random.default_rng(seed)
    theta = np.sort(10 ** rng.uniform(-spread / 2, spread / 2, size=arms))
    g = np.sqrt(theta) * rng.standard_normal((6, arms))
    square = (g * g / theta).sum(axis=1) * (1 + rng.random(6))
    widths = []
    for name in SEARCHES:
        found = search(name)
        c = found.minimise(theta, g, square, weight)
        assert np.all(c > 0)
        _, gain, length, inner = found.evaluate(theta, g, c, theta)
        widths.append(np.sqrt(length) + weight * np.sqrt(np.maximum(square - 2 * gain + inner, 0.0)))
    np.testing.assert_allclose(widths[0], widths[1], rtol=FLAT)


@given(seed=st.integers(0, 10**6), arms=st.integers(1, 12), spread=st.floats(0, 6))
def test_one_function_does_not_mislead_the_search_for_the_next(seed: int, arms: int, spread: float) -> None:
    """Some functions are not determined by the arms and others are: each has its own minimum."""
    rng = np.random.default_rng(seed)
    theta = np.sort(10 ** rng.uniform(-spread / 2, spread / 2, size=arms))
    g = np.sqrt(theta) * rng.standard_normal((8, arms)) * 10 ** rng.uniform(-2, 0, size=(8, 1))
    square = (g * g / theta).sum(axis=1) * (1 + 10 ** rng.uniform(-6, 4, size=8))
    last = -1
    weight = float(np.linalg.norm(g[last]) / theta[-1] / np.sqrt(square[last]) * np.exp(rng.normal()))
    together, alone = search("compiled"), search("plain")
    widths = [Path(theta, g * g, square).at(found.minimise(theta, g, square, weight)) for found in (together, alone)]
    ours, best = (s + weight * b for s, b, *_ in widths)
    np.testing.assert_allclose(ours, best, rtol=FLAT)


def test_sums_of_both_searches_agree() -> None:
    rng = np.random.default_rng(1)
    theta, g, c, y = np.sort(rng.random(9)), rng.standard_normal((4, 9)), rng.random(4), rng.standard_normal(9)
    u = np.abs(g) / (theta + c[:, None])
    terms = u @ np.abs(y), (u * np.abs(g)).sum(axis=1), (u * u).sum(axis=1), u * u @ theta  # the first of which cancel
    for one, other, size in zip(*(search(name).evaluate(theta, g, c, y) for name in SEARCHES), terms, strict=True):
        # Nine terms of four roundings each, added in any order, twice.
        assert np.all(np.abs(one - other) <= (9 + 4) * EPS * size)


@pytest.mark.parametrize("policy", ["dpbe", "dpbe-paper", "bpe"])
def test_a_study_in_blocks_has_the_same_plans(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    scenario = make_scenario("synthetic", Options(seed=1, size=60, horizon=2000))
    whole = simulate(scenario, make_policy(policy), 1)
    for module in ("gp.selection", "gp.posterior", "gp.large_widths"):
        monkeypatch.setattr(f"voxpop.{module}.GRAM_LIMIT", 20)
    parts = simulate(scenario, make_policy(policy), 1)
    assert len(parts.plans) == len(whole.plans)
    for one, other in zip(parts.plans, whole.plans, strict=True):
        np.testing.assert_array_equal(one.arms, other.arms)
        np.testing.assert_array_equal(one.pulls, other.pulls)
    np.testing.assert_allclose(parts.state.upper, whole.state.upper, rtol=1e-5, atol=1e-6)

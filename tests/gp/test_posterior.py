import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from tests.helpers import everything, gram, random_problem, standard_posterior
from voxpop.errors import Array
from voxpop.gp.posterior import DensePosterior, information_gain, regress
from voxpop.gp.selection import BatchRule, Selection, select
from voxpop.model.kernels import Kernel, Linear, Matern, SquaredExponential
from voxpop.model.problem import Indices, Problem

RULES: list[BatchRule] = ["corrected", "printed"]


def slow_variance(K: Array, arms: list[int], lengths: list[int], ridge: float) -> Array:
    """eq:sigma_update as printed: one row for each batch, repeated arms and all."""
    if not arms:
        return K.diagonal().copy()
    cross = K[arms]
    solved = np.linalg.solve(K[np.ix_(arms, arms)] + ridge * np.diag(1 / np.array(lengths)), cross)
    return np.asarray(K.diagonal() - np.sum(cross * solved, axis=0))


def slow_select(
    problem: Problem, active: list[int], rounds: int, ratio: float, rule: BatchRule
) -> tuple[dict[int, int], int]:
    """Lines 4 to 11 of alg:DPBE, at least one round a batch: rounds of each arm, and the number of batches."""
    K, arms, lengths = gram(problem), list[int](), list[int]()
    factor = problem.ridge if rule == "corrected" else 1.0
    while rounds > 0:
        variance = slow_variance(K, arms, lengths, problem.ridge)
        arm = max(active, key=lambda a: variance[a])
        length = min(max(math.floor(factor * (ratio**2 - 1) / variance[arm]), 1), rounds)
        arms.append(arm)
        lengths.append(length)
        rounds -= length
    merged: dict[int, int] = {}
    for arm, length in zip(arms, lengths, strict=True):
        merged[arm] = merged.get(arm, 0) + length
    return merged, len(arms)


def rounds_of(selection: Selection) -> dict[int, int]:
    return dict(zip(selection.arms.tolist(), selection.pulls.tolist(), strict=True))


def one_by_one(arms: Indices, pulls: Indices) -> Indices:
    return np.repeat(arms, pulls)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("seed", "kernel", "ratio", "ridge", "rounds"),
    [
        (0, SquaredExponential(0.3), 1.6, 0.01, 200),
        (1, SquaredExponential(0.15), 1.42, 0.3, 500),
        (2, Matern(0.5, nu=1.5), 1.1, 1.0, 120),
        (3, 2.5 * Matern(0.3), 3.0, 0.05, 1000),
        (4, Linear(offset=0.3) + SquaredExponential(0.4), 1.6, 0.1, 128),
        (5, SquaredExponential(0.3), 1.6, 0.01, 1),
    ],
)
def test_selection_is_that_of_the_printed_formulas(
    rule: BatchRule, seed: int, kernel: Kernel, ratio: float, ridge: float, rounds: int
) -> None:
    problem = random_problem(seed, kernel=kernel, ridge=ridge)
    active = [0, 2, 3, 5, 6, 7, 8, 10, 11]
    expected, batches = slow_select(problem, active, rounds, ratio, rule)
    chosen = select(problem, np.array(active), rounds, ratio, rule)
    assert rounds_of(chosen) == expected
    assert chosen.batches == batches


def test_many_batches_of_few_actions_do_not_drift() -> None:
    problem = random_problem(6, n=4, ridge=1.0)
    expected, batches = slow_select(problem, [0, 1, 2, 3], 1000, 1.1, "corrected")
    chosen = select(problem, np.arange(4), 1000, 1.1)
    assert batches > 64
    assert rounds_of(chosen) == expected
    assert chosen.batches == batches


@pytest.mark.parametrize("n", [3, 20, 60])
def test_variance_of_merged_pulls_is_the_posterior_of_every_single_round(n: int) -> None:
    problem = random_problem(7, n=n, ridge=0.2)
    rng, posterior, played = np.random.default_rng(7), DensePosterior(problem, everything(problem)), list[int]()
    for position, rounds in zip(rng.integers(n, size=100), rng.integers(1, 4, size=100), strict=True):
        posterior.observe(int(position), int(rounds))
        played += [int(position)] * int(rounds)
    _, variance = standard_posterior(problem, np.array(played), np.zeros(len(played)))
    np.testing.assert_allclose(posterior.variance, variance, rtol=1e-8, atol=1e-12)
    assert posterior.pulls == {a: played.count(a) for a in dict.fromkeys(played)}


def test_candidates_are_numbered_by_position() -> None:
    problem, candidates = random_problem(8), np.array([9, 4, 1])
    posterior = DensePosterior(problem, candidates)
    posterior.observe(1, 5)
    _, variance = standard_posterior(problem, np.repeat(4, 5), np.zeros(5))
    np.testing.assert_allclose(posterior.variance, variance[candidates], rtol=1e-12)


def test_regress_is_the_posterior_of_every_single_round() -> None:
    problem, rng = random_problem(9, ridge=0.3), np.random.default_rng(9)
    arms, pulls, at = np.array([3, 7, 0]), np.array([4, 1, 9]), np.array([0, 1, 11, 7])
    single = rng.standard_normal(14)
    averages = np.array([part.mean() for part in np.split(single, [4, 5])])
    weights, variance = regress(problem, arms, pulls, at)
    mean = weights @ averages
    expected_mean, expected_variance = standard_posterior(problem, one_by_one(arms, pulls), single)
    np.testing.assert_allclose(mean, expected_mean[at], rtol=1e-10)
    np.testing.assert_allclose(variance, expected_variance[at], rtol=1e-9)


@pytest.mark.parametrize("scale", [0.3, (0.2, 0.8)])
def test_regress_is_scikit_learns_gaussian_process(scale: float | tuple[float, ...]) -> None:
    problem = random_problem(10, ridge=0.04, kernel=SquaredExponential(scale))
    arms, pulls, y = np.array([2, 5, 8, 1]), np.array([1, 6, 2, 3]), np.array([0.3, -1.0, 0.7, 0.1])
    oracle = GaussianProcessRegressor(RBF(scale), alpha=problem.ridge, optimizer=None)
    oracle.fit(problem.decisions.points[one_by_one(arms, pulls)], np.repeat(y, pulls))
    expected_mean, expected_std = oracle.predict(problem.decisions.points, return_std=True)
    weights, variance = regress(problem, arms, pulls, everything(problem))
    mean = weights @ y
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(variance, expected_std**2, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("rule", RULES)
def test_information_gain_along_batches_is_the_log_determinant(rule: BatchRule) -> None:
    problem = random_problem(11, ridge=0.05)
    chosen = select(problem, everything(problem), 300, 1.3, rule)
    played = one_by_one(chosen.arms, chosen.pulls)
    matrix = np.eye(300) + gram(problem)[np.ix_(played, played)] / problem.ridge
    expected = np.linalg.slogdet(matrix).logabsdet / 2
    assert chosen.information_gain == pytest.approx(expected, rel=1e-9)
    assert information_gain(problem, chosen.arms, chosen.pulls) == pytest.approx(expected, rel=1e-9)


def batch_changes(
    monkeypatch: pytest.MonkeyPatch, problem: Problem, rounds: int, ratio: float, rule: BatchRule
) -> list[tuple[int, Array]]:
    """For each batch of a selection: its rounds, and the factor by which the variance of every action fell."""
    changes, observe = [], DensePosterior.observe

    def spy(self: DensePosterior, position: int, length: int) -> None:
        before = self.variance.copy()
        observe(self, position, length)
        changes.append((length, before / self.variance))

    monkeypatch.setattr(DensePosterior, "observe", spy)
    select(problem, everything(problem), rounds, ratio, rule)
    return changes


@pytest.mark.parametrize("ratio", [1.1, 1.6, 3.0])
@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_corrected_batches_keep_the_variance_within_the_promised_ratio(
    monkeypatch: pytest.MonkeyPatch, ratio: float, ridge: float
) -> None:
    changes = batch_changes(monkeypatch, random_problem(12, ridge=ridge), 3000, ratio, "corrected")
    longer = np.array([change for length, change in changes if length > 1])
    assert longer.min() >= 1 - 1e-9
    assert longer.max() <= ratio**2 * (1 + 1e-6)
    assert longer.max() >= 1 + (ratio**2 - 1) / 2  # and batches are not needlessly short: none could be twice as long


def test_printed_batches_break_the_promised_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(12, ridge=0.01)
    first, *rest = batch_changes(monkeypatch, problem, 3000, 1.6, "printed")
    assert first[1].max() == pytest.approx(101)  # one round: 1 + 1/lambda, where lem:variance_ratio lacks the 1/lambda
    assert max(change.max() for length, change in rest if length > 1) > 10 * 1.6**2


def test_printed_batches_need_fewer_switches_and_corrected_ones_spread_wider() -> None:
    problem = random_problem(13, ridge=0.01)
    printed = select(problem, everything(problem), 4096, 1.6, "printed")
    corrected = select(problem, everything(problem), 4096, 1.6, "corrected")
    assert printed.batches < corrected.batches
    assert printed.pulls.max() > corrected.pulls.max()


NEARLY_EQUAL = 0.5 + 1e-9 * np.arange(6)
HARD: dict[str, dict[str, Any]] = {
    "rank one": {"decisions": np.linspace(0.1, 1, 8), "kernel": Linear()},
    "rank one with a zero action": {"decisions": np.linspace(0, 1, 8), "kernel": Linear()},
    "all actions nearly equal": {"decisions": NEARLY_EQUAL, "kernel": SquaredExponential(1.0)},
    "length-scale of a million": {"decisions": np.linspace(0, 1, 8), "kernel": SquaredExponential(1e6)},
    "length-scale of a millionth": {"decisions": np.linspace(0, 1, 8), "kernel": SquaredExponential(1e-6)},
    "one action": {"decisions": [0.3], "kernel": SquaredExponential(0.2)},
    "variances 24 orders apart": {"decisions": [1e-12, 1e-6, 1.0], "kernel": Linear()},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ridge", [1e-12, 0.01, 10.0])
@pytest.mark.parametrize("rounds", [1, 1000, 10**12])
@pytest.mark.parametrize("name", HARD)
def test_hard_problems_end_with_all_rounds_spent(name: str, rounds: int, ridge: float, rule: BatchRule) -> None:
    problem = Problem(**HARD[name], noise_std=0.1, bias_std=0.1, norm_bound=1.0, horizon=10**12, ridge=ridge)
    chosen = select(problem, everything(problem), rounds, 1.6, rule)
    assert chosen.pulls.sum() == rounds
    assert chosen.pulls.min() >= 1
    assert np.isfinite(chosen.information_gain)
    assert chosen.information_gain >= 0
    weights, variance = regress(problem, chosen.arms, chosen.pulls, everything(problem))
    mean = weights.sum(axis=1)
    assert np.isfinite(mean).all()
    assert np.all((variance >= 0) & (variance <= problem.prior_variance * (1 + 1e-12)))


def test_without_correlation_every_action_gets_its_share() -> None:
    problem = random_problem(14, n=8, kernel=SquaredExponential(1e-6), ridge=0.1)
    pulls = select(problem, everything(problem), 8000, 1.05).pulls
    assert len(pulls) == 8
    assert pulls.max() <= 1.05**2 * pulls.min() * 1.01


def test_more_rounds_tell_more() -> None:
    problem = random_problem(15)
    gains = [select(problem, everything(problem), rounds, 1.6).information_gain for rounds in (1, 4, 16, 64, 256)]
    assert gains == sorted(gains)
    assert gains[0] > 0


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 15),
    d=st.integers(1, 4),
    scale=st.floats(1e-3, 1e3),
    ridge=st.floats(1e-8, 1e3),
    ratio=st.floats(1.05, 10),
    rounds=st.integers(1, 500),
    rule=st.sampled_from(RULES),
    data=st.data(),
)
def test_any_selection_spends_its_rounds_on_distinct_active_arms(
    seed: int,
    n: int,
    d: int,
    scale: float,
    ridge: float,
    ratio: float,
    rounds: int,
    rule: BatchRule,
    data: st.DataObject,
) -> None:
    problem = random_problem(seed, n=n, d=d, kernel=SquaredExponential(scale), ridge=ridge)
    active = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1)))
    chosen = select(problem, np.array(active), rounds, ratio, rule)
    assert chosen.pulls.sum() == rounds
    assert chosen.pulls.min() >= 1
    assert len(set(chosen.arms.tolist())) == len(chosen.arms) <= chosen.batches <= rounds
    assert set(chosen.arms.tolist()) <= set(active)
    expected = information_gain(problem, chosen.arms, chosen.pulls)
    assert chosen.information_gain == pytest.approx(expected, rel=1e-5, abs=1e-6)

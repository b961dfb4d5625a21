"""The theorems as printed are the last lines of their proofs, and all bounds grow as they should."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest

from reproduction import theory
from tests.helpers import gram, random_problem
from tests.reproduction.helpers_theory import RULES
from voxpop.errors import InputError
from voxpop.gp.selection import BatchRule
from voxpop.model.kernels import Matern
from voxpop.model.problem import Problem


def plain(horizon: int, noise: float = 0.4, n: int = 12) -> Problem:
    """The paper's model: v = 1, lambda = sigma^2, beta = 1/(|D| T); kappa^2 = 2.5."""
    return random_problem(
        3, n, kernel=2.5 * Matern(0.3), noise_std=noise, bias_std=1.0, norm_bound=1.7, horizon=horizon
    )


def logarithm(problem: Problem) -> float:
    """log(|D| T)."""
    return math.log(problem.size * problem.horizon)


def last_line_of_the_regret(problem: Problem, alpha: float, C: float) -> float:
    """2B kappa + 16 T^(1-alpha/2) sqrt(2 kappa^2 log(|D|T)) + 8 sigma C_1 C sqrt(2 gamma_T T^(1-alpha) log(|D|T))
    + 32 sigma B C sqrt(gamma_T T) + 8 B kappa log(2T), the last logarithm to base two: 2^(L-1) <= T.
    """
    gamma = theory.information_gain_bound(problem, problem.horizon)
    sigma, B, T, log = problem.noise_std, problem.norm_bound, float(problem.horizon), logarithm(problem)
    kappa = math.sqrt(gram(problem).diagonal().max())
    C1 = math.sqrt(2 ** (1 - alpha)) / (math.sqrt(2 ** (1 - alpha)) - 1)
    return (
        2 * B * kappa
        + 16 * math.pow(T, 1 - alpha / 2) * math.sqrt(2 * kappa**2 * log)
        + 8 * sigma * C1 * C * math.sqrt(2 * gamma * math.pow(T, 1 - alpha) * log)
        + 32 * sigma * B * C * math.sqrt(gamma * T)
        + 8 * B * kappa * math.log2(2 * T)
    )


def last_line_of_the_private_regret(problem: Problem, alpha: float, C: float, epsilon: float, delta: float) -> float:
    """As without privacy, + 4 C_2 G_1 gamma_T sqrt(2 log(|D|T)) T^(1-alpha), and 12 instead of 8 B kappa log(2T)."""
    gamma = theory.information_gain_bound(problem, problem.horizon)
    sigma, B, T, log = problem.noise_std, problem.norm_bound, float(problem.horizon), logarithm(problem)
    kappa = math.sqrt(gram(problem).diagonal().max())
    delta_1 = delta_2 = delta / 2
    inside = 2 * (kappa**2 + sigma**2) * sigma**2 * math.log(1 / delta_1) * math.log(1.25 / delta_2)
    G1 = 8 * C**2 * math.sqrt(inside) / (epsilon * math.sqrt(C**2 - 1))
    C2 = 2 ** (1 - alpha) / (2 ** (1 - alpha) - 1)
    return (
        last_line_of_the_regret(problem, alpha, C)
        + 4 * C2 * G1 * gamma * math.sqrt(2 * log) * math.pow(T, 1 - alpha)
        + 4 * B * kappa * math.log2(2 * T)
    )


@pytest.mark.parametrize("horizon", [2**12, 3000])
@pytest.mark.parametrize(("alpha", "ratio"), [(0.3, 1.6), (0.7, 1.42), (0.9, 3.0)])
def test_the_printed_regret_is_the_last_line_of_its_proof(horizon: int, alpha: float, ratio: float) -> None:
    problem = plain(horizon)
    assert problem.ridge == pytest.approx(0.16, rel=1e-12)
    expected = last_line_of_the_regret(problem, alpha, ratio)
    assert theory.printed_regret(problem, alpha, ratio) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("horizon", [2**12, 3000])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (15.0, 1e-3)])
def test_the_printed_private_regret_is_the_last_line_of_its_proof(horizon: int, epsilon: float, delta: float) -> None:
    problem = plain(horizon)
    expected = last_line_of_the_private_regret(problem, 0.7, 1.6, epsilon, delta)
    assert theory.printed_private_regret(problem, 0.7, 1.6, epsilon, delta) == pytest.approx(expected, rel=1e-9)


def test_the_phases_sum_to_less_than_the_printed_theorem_rounds_up_to() -> None:
    """Where the printed lemmas hold, their sums are rounded up: phase by phase is below them for long horizons."""
    problem = plain(2**20, noise=1.0)
    assert theory.regret(problem, 0.7, 1.6) < theory.printed_regret(problem, 0.7, 1.6)


HORIZONS = [1, 2, 3, 10, 31, 32, 33, 500, 4096, 50_000, 10**6]


def increasing(values: Sequence[float], slack: float = 0.0) -> bool:
    return all(after >= before * (1 - slack) for before, after in pairwise(values))


@pytest.mark.parametrize("rule", RULES)
def test_more_rounds_cost_more_but_less_than_in_proportion(rule: BatchRule) -> None:
    problems = [plain(horizon) for horizon in HORIZONS]
    regrets = [theory.regret(problem, 0.7, 1.6, rule) for problem in problems]
    assert increasing(regrets)
    assert increasing([theory.numbers_sent(p, 0.7, 1.6, rule) for p in problems], slack=2 * theory.CLOSE)
    late = [regret / horizon for regret, horizon in zip(regrets, HORIZONS, strict=True)][-3:]
    assert late == sorted(late, reverse=True)
    assert late[-1] < late[0] / 2


def test_printed_bounds_grow_with_the_horizon() -> None:
    problems = [plain(horizon) for horizon in HORIZONS[3:]]
    assert increasing([theory.printed_regret(problem, 0.7, 1.6) for problem in problems])
    assert increasing([theory.printed_private_regret(problem, 0.7, 1.6, 5.0, 1e-6) for problem in problems])


@pytest.mark.parametrize("rule", RULES)
def test_more_people_mean_less_regret_and_more_numbers_sent(rule: BatchRule) -> None:
    problem, alphas = plain(100_000), [0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2, 2.0]
    regrets = [theory.regret(problem, alpha, 1.6, rule) for alpha in alphas]
    assert increasing(regrets[::-1])
    assert regrets[0] > 2 * regrets[-1]
    assert increasing([theory.numbers_sent(problem, alpha, 1.6, rule) for alpha in alphas])


def test_with_more_people_the_printed_regret_falls() -> None:
    values = [theory.printed_regret(plain(100_000), alpha, 1.6) for alpha in (0.1, 0.3, 0.5, 0.7)]
    assert increasing(values[::-1])


def test_more_privacy_costs_more_regret() -> None:
    problem = plain(100_000)
    by_epsilon = [theory.printed_private_regret(problem, 0.7, 1.6, eps, 1e-6) for eps in (0.1, 1.0, 5.0, 30.0)]
    assert increasing(by_epsilon[::-1])
    by_delta = [theory.printed_private_regret(problem, 0.7, 1.6, 5.0, delta) for delta in (1e-9, 1e-6, 1e-3)]
    assert increasing(by_delta[::-1])
    public = theory.printed_regret(problem, 0.7, 1.6)
    spent = [value - public for value in by_epsilon[:2]]
    assert spent[0] == pytest.approx(10 * spent[1], rel=1e-2)  # in proportion to 1/eps
    assert public < theory.printed_private_regret(problem, 0.7, 1.6, 1e9, 1e-6) < 1.01 * public


@pytest.mark.parametrize("alpha", [1.0, 1.3, 2.0])
def test_from_alpha_of_one_on_the_phases_still_have_bounds(alpha: float) -> None:
    problem = plain(1000)
    for rule in RULES:
        assert 0 < theory.regret(problem, alpha, 1.6, rule) < math.inf
        assert 0 < theory.numbers_sent(problem, alpha, 1.6, rule) < math.inf


@pytest.mark.parametrize("alpha", [1.0, 1.2, 2.0])
def test_from_alpha_of_one_on_the_printed_theorem_is_refused(alpha: float) -> None:
    """C_1 and C_2 are infinite at one and negative above: a negative bound on the regret says nothing."""
    with pytest.raises(InputError, match="alpha"):
        theory.printed_regret(plain(1000), alpha, 1.6)
    with pytest.raises(InputError, match="alpha"):
        theory.printed_private_regret(plain(1000), alpha, 1.6, 1.0, 1e-6)

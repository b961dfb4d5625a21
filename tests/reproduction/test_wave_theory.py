"""The theorem about waves against idealised waves, and the lower bounds against the best that can be done."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from reproduction.theory import largest_loss
from reproduction.wave_theory import WavesBound, arms_of_wave, least_regret, wave_bounds
from tests.helpers import everything, function_of_norm, gram, random_problem
from tests.reproduction.helpers_theory import ROUNDING, best_accuracy, kernels, least_total, problems, total_bound
from voxpop.errors import Array, InputError
from voxpop.gp.posterior import DensePosterior
from voxpop.model.kernels import Kernel, SquaredExponential
from voxpop.model.problem import Indices, Problem

# The theorem


def greedy_arms(problem: Problem, active: Indices, s: float) -> Indices:
    """Play arms once each with ridge s^2 until every active deviation is at most s."""
    K = gram(problem)
    ridged = Problem.of_matrix(K, problem.noise_std, problem.bias_std, norm_bound=1.0, horizon=1, ridge=s * s)
    posterior, arms = DensePosterior(ridged, active), []
    while posterior.variance.max() > s * s:
        arms.append(posterior.most_uncertain())
        posterior.observe(arms[-1], 1)
    return np.asarray(active[np.array(arms or [0])])


@dataclass(frozen=True)
class Played:
    """What idealised waves cost."""

    regret: float
    numbers: int
    kept: bool


def play(problem: Problem, f: Array, bound: WavesBound, rng: np.random.Generator) -> Played:
    """Play the waves of the theorem as its proof describes them, and check every step that does not depend on luck."""
    K, B, gaps = gram(problem), problem.norm_bound, f.max() - f
    active, reference, regret, numbers, rounds = everything(problem), 0, 0.0, 0, 0
    for wave in bound.waves:
        s = wave.deviation
        arms = greedy_arms(problem, active, s)
        assert len(set(arms.tolist())) == len(arms) <= wave.arms
        h = K[active] - K[reference]  # (active, n)
        a = np.linalg.solve(K[np.ix_(arms, arms)] + s * s * np.eye(len(arms)), h[:, arms].T).T
        left = h[:, active].diagonal() - h[:, reference] - 2 * np.sum(a * h[:, arms], axis=1)
        bias = np.sqrt(np.maximum(left + np.einsum("ij,jk,ik->i", a, K[np.ix_(arms, arms)], a), 0.0))
        N = problem.answer_noise(arms, np.full(len(arms), bound.rounds), wave.people)
        spread = bound.quantile * np.sqrt(np.einsum("ij,jk,ik->i", a, N, a))
        assert spread.max() <= wave.accuracy / 2 * ROUNDING
        assert B * bias.max() <= wave.accuracy / 2 * ROUNDING
        width = spread + B * bias
        y = f[arms] + np.linalg.cholesky(N) @ rng.standard_normal(len(arms))
        lead = a @ y
        regret += bound.rounds * float(gaps[arms].sum())
        rounds += bound.rounds * len(arms)
        numbers += wave.people * len(arms)
        keep = lead + width >= (lead - width).max()
        active, lead = active[keep], lead[keep]
        reference = int(active[np.argmax(lead)])
    regret += max(problem.horizon - rounds, 0) * float(gaps[reference])
    return Played(regret, numbers, bool(gaps[active].min() == 0))


def line(horizon: int = 5000, noise: float = 0.2, v: float = 0.3, norm_bound: float = 1.0) -> Problem:
    return Problem(np.linspace(0, 1, 15), SquaredExponential(0.3), noise, v, norm_bound=norm_bound, horizon=horizon)


@pytest.mark.parametrize("noise", [0.05, 1.0])
def test_idealised_waves_cost_no_more_than_the_theorem_allows(noise: float) -> None:
    problem = line(noise=noise)
    bound = wave_bounds(problem, 0.03, 0.1)
    failed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        found = play(problem, function_of_norm(problem, 1.0, rng), bound, rng)
        assert found.numbers <= bound.numbers
        failed += not found.kept or found.regret > bound.regret
    assert failed <= 4


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    kernel=kernels,
    noise=st.floats(0.01, 2),
    v=st.floats(0.01, 2),
    share=st.floats(0.01, 0.9),
)
def test_the_steps_of_the_proof_hold_for_any_problem(
    seed: int, n: int, kernel: Kernel, noise: float, v: float, share: float
) -> None:
    problem = random_problem(seed, n, 2, kernel, noise_std=noise, bias_std=v, norm_bound=2.0, horizon=1000)
    rng = np.random.default_rng(seed)
    bound = wave_bounds(problem, share * largest_loss(problem), 1e-6)
    found = play(problem, function_of_norm(problem, 2.0, rng), bound, rng)
    assert found.kept
    assert found.regret <= bound.regret * ROUNDING
    assert found.numbers <= bound.numbers


OPPOSITE = np.array([[1.0, -1.0], [-1.0, 1.0]])


def test_the_steps_of_the_proof_hold_where_they_are_tight() -> None:
    """Two opposite actions: with a variance of s^2 they are not played, and all of 2 s is bias; with 1 all is noise."""
    s = wave_bounds(line(), 1.0, 0.05).waves[0].deviation  # B = kappa = 1
    for scale in (s * s, 1.0):
        matrix = np.eye(3)
        matrix[:2, :2] = scale * OPPOSITE
        problem = Problem.of_matrix(matrix, 0.5, 0.3, norm_bound=1.0, horizon=100)
        rng = np.random.default_rng(0)
        play(problem, function_of_norm(problem, 1.0, rng), wave_bounds(problem, 1.0, 0.05), rng)


@given(problem=problems(), s=st.floats(0.01, 3))
def test_greedy_selection_needs_no_more_arms_than_the_information_gain_allows(problem: Problem, s: float) -> None:
    assert len(greedy_arms(problem, everything(problem), s)) <= arms_of_wave(problem, s)


def test_the_bound_on_arms_is_reached_by_actions_far_apart() -> None:
    apart = Problem(np.arange(8.0), SquaredExponential(1e-3), 0.1, 0.1, norm_bound=1.0, horizon=10)
    assert arms_of_wave(apart, 0.99) == 8
    assert arms_of_wave(apart, 1.01) < 8


def test_the_printed_form_of_the_theorem_follows_from_the_waves() -> None:
    """eps_l = G 2^-l; regret <= W sum min(G, 8 eps_l) H_l + 2 eps T; numbers <= H (L + 43 (z v kappa / eps)^2)."""
    problem, G = line(horizon=10**6), 2.0
    bound = wave_bounds(problem, G * 2**-7, 0.05)
    widths = [wave.accuracy for wave in bound.waves]
    assert widths == pytest.approx([G * 2**-l for l in range(1, 8)], rel=1e-9)
    waves = sum(min(G, 8 * wave.accuracy) * wave.arms for wave in bound.waves)
    assert bound.rounds == 1
    assert bound.regret == pytest.approx(waves + 2 * widths[-1] * 10**6, rel=1e-9)
    most = bound.waves[-1].arms * (7 + 43 * (bound.quantile * 0.3 / widths[-1]) ** 2)
    assert most / 2 <= bound.numbers <= most


@pytest.mark.parametrize("cost", [1e-5, 1e-3, 0.1])
def test_the_best_accuracy_is_nearly_the_best(cost: float) -> None:
    problem = line(horizon=10**5, norm_bound=5.0)
    found, G = best_accuracy(problem, cost, 0.05), largest_loss(problem)
    assert 0 < found < G
    bounds = [wave_bounds(problem, G * 2 ** (-j / 4), 0.05) for j in range(1, 60)]
    least = min(bound.regret + cost * bound.numbers for bound in bounds)
    assert least <= total_bound(problem, cost, 0.05) * 1.001
    assert total_bound(problem, cost, 0.05) <= 1.3 * least
    bound = wave_bounds(problem, found, 0.05)
    H, L, z = bound.waves[-1].arms, len(bound.waves), bound.quantile
    waves = sum(wave.regret for wave in bound.waves)
    closed = 3 * (43 * cost * H * (z * 0.3) ** 2 * 10**10) ** (1 / 3)
    assert total_bound(problem, cost, 0.05) <= (waves + closed + cost * L * H) * 1.01


def test_where_nothing_pays_nothing_is_asked() -> None:
    problem = line(horizon=3)
    assert best_accuracy(problem, 10.0, 0.05) == largest_loss(problem)
    assert total_bound(problem, 10.0, 0.05) == largest_loss(problem) * 3


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (line(), line(horizon=10_000)),
        (line(), line(v=0.6)),
        (line(), line(norm_bound=2.0)),
        (line(), line(noise=2.0)),
    ],
    ids=["horizon", "deviation", "norm", "noise"],
)
def test_a_harder_problem_costs_more(better: Problem, worse: Problem) -> None:
    assert total_bound(better, 0.001, 0.05) < total_bound(worse, 0.001, 0.05)
    assert total_bound(better, 0.001, 0.05) < total_bound(better, 0.01, 0.05)
    assert total_bound(better, 0.001, 0.05) < total_bound(better, 0.001, 0.001)


def test_a_sharper_end_takes_more_people_and_loses_less_afterwards() -> None:
    bounds = [wave_bounds(line(horizon=10**7), accuracy, 0.05) for accuracy in (0.4, 0.2, 0.1, 0.05)]
    numbers = [bound.numbers for bound in bounds]
    regrets = [bound.regret for bound in bounds]
    assert numbers == sorted(numbers)
    assert regrets == sorted(regrets, reverse=True)


@pytest.mark.parametrize("accuracy", [0.0, -1.0, 2.0])
def test_an_accuracy_out_of_range_is_refused(accuracy: float) -> None:
    with pytest.raises(InputError, match="accuracy must be a number above 0 and below 2"):
        wave_bounds(line(), accuracy, 0.05)


# The lower bounds: two functions +-gap h / |h|^2, of which any action is wrong for one


@cache
def pair() -> tuple[Problem, float]:
    """Two actions, and |h|."""
    problem = Problem([0.0, 1.0], SquaredExponential(0.5), 0.1, 0.3, norm_bound=50.0, horizon=10_000)
    K = gram(problem)
    return problem, math.sqrt(K[0, 0] + K[1, 1] - 2 * K[0, 1])


def regret_of_a_test(problem: Problem, reach: float, people: float, gap: float) -> float:
    """Return what the better of two actions, chosen by the averages of people known exactly, loses on either f."""
    return problem.horizon * gap * float(ndtr(-gap * math.sqrt(people) / (problem.bias_std * reach)))


@pytest.mark.parametrize("people", [1, 10, 1000])
def test_no_test_of_two_functions_does_better_than_the_lower_bound(people: int) -> None:
    problem, reach = pair()
    bound = least_regret(problem, people)
    assert bound == pytest.approx(10_000 * 0.3 * reach / (8 * math.sqrt(people)), rel=1e-9)
    gap = 0.3 * reach / (2 * math.sqrt(people))
    assert bound <= regret_of_a_test(problem, reach, people, gap) <= 1.3 * bound


def test_the_regret_of_the_test_is_what_people_cause() -> None:
    """Guards the formula: people who answer without any round noise, asked about both actions."""
    problem, reach = pair()
    K, people, rng = gram(problem), 20, np.random.default_rng(0)
    gap = 0.3 * reach / (2 * math.sqrt(people))
    f = gap * (K[0] - K[1]) / reach**2
    assert f[0] - f[1] == pytest.approx(gap, rel=1e-9)
    averages = f + rng.standard_normal((20_000, 2)) @ np.linalg.cholesky(0.3**2 * K / people).T
    wrong = np.mean(averages[:, 0] < averages[:, 1])
    exact = regret_of_a_test(problem, reach, people, gap)
    assert problem.horizon * gap * wrong == pytest.approx(exact, rel=0.05)
    assert problem.horizon * gap * wrong >= least_regret(problem, people)


@pytest.mark.parametrize("cost", [0.001, 0.1])
def test_no_test_of_any_size_and_no_sequential_test_beats_the_lower_bound_on_regret_and_cost(cost: float) -> None:
    problem, reach = pair()
    bound = least_total(problem, cost)
    assert bound == pytest.approx(0.375 * math.cbrt(2 * cost * (0.3 * reach * 10_000) ** 2), rel=1e-9)
    gap = math.cbrt(2 * cost * (0.3 * reach) ** 2 / 10_000)

    def of_size(log_people: float) -> float:
        people = math.exp(log_people)
        return regret_of_a_test(problem, reach, people, gap) + cost * people

    def sequential(wrong: float) -> float:
        """Wald's test of a Brownian motion: the least expected number of people for a share of wrong decisions."""
        people = (0.3 * reach / gap) ** 2 / 2 * (1 - 2 * wrong) * math.log((1 - wrong) / wrong)
        return problem.horizon * gap * wrong + cost * people

    assert bound <= least_of(of_size, -5, 20)
    assert bound <= least_of(sequential, 1e-6, 0.5 - 1e-6) <= 1.03 * bound


def least_of(function: Callable[[float], float], low: float, high: float) -> float:
    return float(minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 1e-6}).fun)


def test_a_small_norm_bound_limits_what_can_be_lost() -> None:
    problem = Problem([0.0, 1.0], SquaredExponential(0.5), 0.1, 0.3, norm_bound=0.01, horizon=10_000)
    reach = pair()[1]
    most = 0.01 * reach * 10_000  # the gap of +-f, in every round
    assert 0.4 * most < least_regret(problem, 1) < most / 2
    assert 0.4 * most < least_total(problem, 100.0) < most / 2


def test_the_lower_bound_is_below_the_upper_one() -> None:
    problem = line(horizon=10**5)
    for cost in (1e-6, 1e-4, 1e-2):
        assert least_total(problem, cost) < total_bound(problem, cost, 0.05)
    assert least_regret(problem, 10) > least_regret(problem, 100)
    assert least_total(problem, 0.01) > least_total(problem, 0.001)


def test_different_prior_means_have_no_lower_bound() -> None:
    problem = Problem([0.0, 1.0], SquaredExponential(0.5), 0.1, 0.3, norm_bound=1, horizon=10, prior_mean=[0.0, 9.0])
    with pytest.raises(InputError, match="leave prior_mean out"):
        least_regret(problem, 10)

"""The theorems put to the test: no selection, no width and no run costs more than they allow."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.helpers import everything, function_of_norm, gram, random_problem, standard_posterior
from voxpop.core.errors import Array, InputError
from voxpop.core.kernels import Kernel, Linear, Matern, SquaredExponential
from voxpop.core.problem import Indices, Problem
from voxpop.drivers.simulate import Run, simulate
from voxpop.lab import theory
from voxpop.lab.populations.gp import GPUsers
from voxpop.lab.scenarios import Options, Scenario, make_scenario
from voxpop.policies import make_policy
from voxpop.selection.greedy import BatchRule, Selection, select

RULES: list[BatchRule] = ["corrected", "printed", "single"]
BATCHED: list[BatchRule] = ["corrected", "printed"]
RULE_OF: dict[str, BatchRule] = {"dpbe": "corrected", "dpbe-paper": "printed", "dpbe-nobatching": "single"}
ROUNDING = 1 + 1e-7

kernels = st.one_of(
    st.floats(0.05, 2).map(SquaredExponential),
    st.floats(0.05, 2).map(lambda scale: 2.5 * Matern(scale, nu=1.5)),
    st.floats(0.1, 2).map(lambda offset: Linear(offset=offset)),
    st.just(Linear()),  # singular for two actions and more on a line
)
ridges = st.floats(-3, 1).map(lambda exponent: 10.0**exponent)


@st.composite
def problems(draw: st.DrawFn, most: int = 8) -> Problem:
    """Random actions, kernels and ridges."""
    size, dimension = draw(st.integers(1, most)), draw(st.integers(1, 3))
    return random_problem(draw(st.integers(0, 10**6)), size, dimension, draw(kernels), ridge=draw(ridges))


def gain_of(problem: Problem, rounds: Sequence[int] | Indices) -> float:
    """1/2 ln det(I + W K / lambda), with the rounds of every action."""
    matrix = np.eye(problem.size) + np.asarray(rounds)[:, None] * gram(problem) / problem.ridge
    return float(np.linalg.slogdet(matrix).logabsdet) / 2


def best_gain(problem: Problem, rounds: int) -> float:
    """gamma_T by trying every multiset of actions."""
    n = problem.size
    choices = combinations_with_replacement(range(n), rounds)
    return max(gain_of(problem, np.bincount(choice, minlength=n)) for choice in choices)


def first_gain(problem: Problem) -> float:
    return math.log1p(float(gram(problem).diagonal().max()) / problem.ridge) / 2


def left_variance(problem: Problem, chosen: Selection, active: Indices) -> float:
    """The largest variance of an active action after the rounds of a selection, played one by one."""
    played = np.repeat(chosen.arms, chosen.pulls)
    return float(standard_posterior(problem, played, np.zeros(len(played)))[1][active].max())


# gamma_T


@given(problem=problems(most=4), rounds=st.integers(1, 6))
def test_the_information_gain_is_an_upper_bound_on_every_choice_of_actions(problem: Problem, rounds: int) -> None:
    bound = theory.information_gain_bound(problem, rounds)
    assert best_gain(problem, rounds) <= bound * ROUNDING
    assert bound <= rounds * first_gain(problem) * ROUNDING


@given(problem=problems(most=15), rounds=st.integers(1, 3000), seed=st.integers(0, 1000), rule=st.sampled_from(RULES))
def test_the_information_gain_is_an_upper_bound_on_what_was_found(
    problem: Problem, rounds: int, seed: int, rule: BatchRule
) -> None:
    assume(rule != "single" or rounds <= 300)
    bound = theory.information_gain_bound(problem, rounds)
    rng = np.random.default_rng(seed)
    for concentration in (0.05, 1.0, 20.0):
        shares = rng.dirichlet(np.full(problem.size, concentration))
        assert gain_of(problem, rng.multinomial(rounds, shares)) <= bound * ROUNDING
    greedy = select(problem, everything(problem), rounds, 1.3, rule)
    pulls = np.zeros(problem.size, dtype=np.intp)
    pulls[greedy.arms] = greedy.pulls
    assert gain_of(problem, pulls) <= bound * ROUNDING
    assert bound <= rounds * first_gain(problem) * ROUNDING


@cache
def synthetic(seed: int = 0, horizon: int = 40_000) -> Scenario:
    return make_scenario("synthetic", Options(seed=seed, horizon=horizon))


def clustered(kernel: Kernel) -> Problem:
    """Most actions close together, so that equal shares are far from the best."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0.5, 0.01, size=(90, 2)), rng.uniform(size=(10, 2))])
    return Problem(points, kernel, 0.01, 0.1, norm_bound=1.0, horizon=40_000)


CROWDS: dict[str, Callable[[], Problem]] = {
    "synthetic": lambda: synthetic().problem,
    "cluster": lambda: clustered(SquaredExponential(0.2)),
    "rough cluster": lambda: clustered(Matern(0.2, nu=1.5)),
    "three dimensions": lambda: clustered(Linear(offset=0.3)),
}


@pytest.mark.parametrize("rounds", [1000, 40_000])
@pytest.mark.parametrize("name", CROWDS)
def test_the_information_gain_is_within_two_percent_of_an_allocation(name: str, rounds: int) -> None:
    problem = CROWDS[name]()
    pulls = np.zeros(problem.size, dtype=np.intp)
    chosen = select(problem, everything(problem), rounds, 1.05)
    pulls[chosen.arms] = chosen.pulls
    found = gain_of(problem, pulls)
    assert found <= theory.information_gain_bound(problem, rounds) * ROUNDING
    assert theory.information_gain_bound(problem, rounds) <= 1.02 * found


LINE = np.linspace(0.1, 1, 8)
APART = Problem(LINE, SquaredExponential(1e-3), math.sqrt(0.3), 1.0, norm_bound=1.0, horizon=100)  # lambda = 0.3
ALIKE: dict[str, Array] = {  # kernel matrices of rank one, and of largest variance one
    "one action": np.ones((1, 1)),
    "the same action eight times": np.ones((8, 8)),
    "a line through zero": np.outer(LINE, LINE),
}


def alike(name: str, ridge: float) -> Problem:
    return Problem.of_matrix(ALIKE[name], 0.1, 0.1, norm_bound=1.0, horizon=10**15, ridge=ridge)


@pytest.mark.parametrize("ridge", [1e-3, 0.3, 10.0])
@pytest.mark.parametrize("rounds", [1, 7, 10**6])
@pytest.mark.parametrize("name", ALIKE)
def test_without_a_second_dimension_the_information_gain_is_known(name: str, rounds: int, ridge: float) -> None:
    problem = alike(name, ridge)
    exact = math.log1p(rounds / ridge) / 2
    found = theory.information_gain_bound(problem, rounds)
    assert exact <= found * ROUNDING
    assert found <= 1.02 * exact
    if problem.size == 1:
        assert found == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("rounds", [1, 8, 800])
def test_without_correlation_the_information_gain_is_known(rounds: int) -> None:
    exact = rounds * math.log1p(1 / 0.3) / 2 if rounds < 8 else 8 * math.log1p(rounds / 8 / 0.3) / 2
    assert theory.information_gain_bound(APART, rounds) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("rounds", [10**9, 10**12, 10**15])
@pytest.mark.parametrize("ridge", [1e-6, 0.01])
@pytest.mark.parametrize("name", ALIKE)
def test_the_longest_horizons_of_a_singular_kernel_have_an_information_gain(
    name: str, ridge: float, rounds: int
) -> None:
    exact = math.log1p(rounds / ridge) / 2
    assert exact <= theory.information_gain_bound(alike(name, ridge), rounds) * (1 + 1e-6)


# lem:bound_h


@given(
    problem=problems(),
    rounds=st.integers(1, 400),
    ratio=st.floats(1.01, 6),
    rule=st.sampled_from(BATCHED),
    data=st.data(),
)
def test_no_selection_has_more_batches_than_its_information_gain_allows(
    problem: Problem, rounds: int, ratio: float, rule: BatchRule, data: st.DataObject
) -> None:
    active = np.array(sorted(data.draw(st.sets(st.integers(0, problem.size - 1), min_size=1))))
    chosen = select(problem, active, rounds, ratio, rule)
    own = theory.batches(problem, ratio, chosen.information_gain, rule)
    assert chosen.batches <= own * ROUNDING
    gain = theory.information_gain_bound(problem, rounds)
    assert own <= theory.batches(problem, ratio, gain, rule) * ROUNDING


def test_the_bound_on_batches_is_nearly_reached() -> None:
    ratio = math.sqrt(1 + 1.999 / 0.3)  # corrected: floor(1.999) rounds of every action of variance 1
    chosen = select(APART, everything(APART), 8, ratio)
    bound = theory.batches(APART, ratio, theory.information_gain_bound(APART, 8))
    assert chosen.batches == 8
    assert 8 <= bound <= 9.01


def test_single_rounds_have_no_bound_on_batches_but_the_rounds() -> None:
    assert theory.batches(APART, 1.6, 1.0, "single") == math.inf
    phases = theory.phase_bounds(APART, 0.7, 1.6, "single")
    assert [phase.batches for phase in phases] == [phase.rounds for phase in phases]


@pytest.mark.parametrize("rule", BATCHED)
def test_the_printed_bound_on_batches_is_false(rule: BatchRule) -> None:
    problem = synthetic().problem
    rounds = 2**6  # phase 7
    gain = theory.information_gain_bound(problem, rounds)
    printed = 4 * problem.ridge * 1.6**2 / (1.6**2 - 1) * gain
    assert theory.printed_batches(problem, 1.6, gain) == pytest.approx(printed, rel=1e-12)
    chosen = select(problem, everything(problem), rounds, 1.6, rule)
    assert chosen.batches > 4 * printed
    assert chosen.batches <= theory.batches(problem, 1.6, gain, rule)


def test_the_printed_bound_on_communication_is_false() -> None:
    problem = synthetic().problem
    phases = [phase for phase in theory.phase_bounds(problem, 0.7, 1.6) if phase.rounds <= 2**6]
    printed = sum(theory.printed_batches(problem, 1.6, phase.gain) * (2 ** (0.7 * phase.phase) + 1) for phase in phases)
    sent = sum(
        phase.users * len(select(problem, everything(problem), phase.rounds, 1.6).arms) for phase in phases
    )  # nothing can be dropped for certain, so this is what seven phases may cost
    assert sent > 2 * printed


@given(
    seed=st.integers(0, 10**6), ridge=st.floats(1, 5), ratio=st.floats(1.5, 4), rounds=st.integers(1, 400)
)  # lambda >= 1 and C^2 - 1 >= k(x, x): where the variance ratio holds without 1/lambda and no batch is empty
def test_the_printed_lemmas_hold_where_their_proofs_do(seed: int, ridge: float, ratio: float, rounds: int) -> None:
    problem = random_problem(seed, n=6, ridge=ridge)
    chosen = select(problem, everything(problem), rounds, ratio, "printed")
    gain = theory.information_gain_bound(problem, rounds)
    assert chosen.batches - 1 <= theory.printed_batches(problem, ratio, gain) * ROUNDING  # the last may be cut
    left = left_variance(problem, chosen, everything(problem))
    assert left <= theory.printed_variance(problem, ratio, gain, rounds) * ROUNDING


# lem:max_variance


@given(
    problem=problems(),
    rounds=st.integers(1, 300),
    ratio=st.floats(1.01, 6),
    rule=st.sampled_from(RULES),
    data=st.data(),
)
def test_no_active_action_keeps_more_variance_than_the_information_gain_allows(
    problem: Problem, rounds: int, ratio: float, rule: BatchRule, data: st.DataObject
) -> None:
    active = np.array(sorted(data.draw(st.sets(st.integers(0, problem.size - 1), min_size=1))))
    chosen = select(problem, active, rounds, ratio, rule)
    own = theory.variance(problem, ratio, chosen.information_gain, rounds, rule)
    assert left_variance(problem, chosen, active) <= own * ROUNDING + 1e-12
    gain = theory.information_gain_bound(problem, rounds)
    assert own <= theory.variance(problem, ratio, gain, rounds, rule) * ROUNDING


def test_the_bound_on_the_variance_is_nearly_reached() -> None:
    """Seven actions get their 30 rounds, which gain 1/2 ln(1 + 3) each, and the eighth a single one."""
    problem = Problem(LINE, SquaredExponential(1e-3), math.sqrt(10), 1.0, norm_bound=1.0, horizon=211)
    chosen = select(problem, everything(problem), 211, 2.0)
    assert chosen.pulls.tolist() == [30] * 7 + [1]
    left = left_variance(problem, chosen, everything(problem))
    assert left == pytest.approx(10 / 11)
    assert left <= theory.variance(problem, 2.0, chosen.information_gain, 211) <= 1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rounds", [1, 50, 5000])
def test_the_variance_of_one_action_is_within_the_information_gain_of_its_rounds(rule: BatchRule, rounds: int) -> None:
    problem = Problem([0.5], SquaredExponential(0.2), 0.1, 0.1, norm_bound=1.0, horizon=5000, ridge=0.5)
    exact = 0.5 / (rounds + 0.5)
    gain = theory.information_gain_bound(problem, rounds)
    assert exact <= theory.variance(problem, 1.6, gain, rounds, rule) <= min(1.0, 8 * gain * exact)


@pytest.mark.parametrize("rule", RULES)
def test_the_printed_bound_on_the_variance_is_false(rule: BatchRule) -> None:
    problem = synthetic().problem
    rounds = 2**5  # phase 6
    gain = theory.information_gain_bound(problem, rounds)
    chosen = select(problem, everything(problem), rounds, 1.6, rule)
    left = left_variance(problem, chosen, everything(problem))
    printed = theory.printed_variance(problem, 1.6, gain, rounds)
    assert printed == pytest.approx(2 * problem.ridge * 1.6**2 * gain / rounds, rel=1e-12)
    assert left > 4 * printed
    assert left <= theory.variance(problem, 1.6, gain, rounds, rule)


# thm:regret_upper_bound and thm:communication, phase by phase


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 8, 1000])
@pytest.mark.parametrize("rule", RULES)
def test_the_phases_are_those_of_the_algorithm(horizon: int, rule: BatchRule) -> None:
    phases = theory.phase_bounds(random_problem(0, horizon=horizon), 0.7, 1.6, rule)
    assert sum(phase.rounds for phase in phases) == horizon
    assert [phase.phase for phase in phases] == list(range(1, len(phases) + 1))
    assert [phase.rounds for phase in phases[:-1]] == [2**i for i in range(len(phases) - 1)]
    assert phases[-1].rounds <= 2 ** (len(phases) - 1)
    assert [phase.users for phase in phases] == [math.ceil(2 ** (0.7 * phase.phase)) for phase in phases]


def test_one_action_for_three_rounds_by_hand() -> None:
    problem = Problem([0.5], 4.0 * SquaredExponential(0.2), 0.2, 0.5, norm_bound=3.0, horizon=3)
    ridge, kappa, beta, product = 0.16, 2.0, 1 / 3, 1.6**2 - 1
    first, second = theory.phase_bounds(problem, 0.7, 1.6)
    assert (first.rounds, first.users, second.rounds, second.users) == (1, 2, 2, 3)
    assert first.gain == pytest.approx(math.log(1 + 4 / ridge) / 2, rel=1e-12)
    assert second.gain == pytest.approx(math.log(1 + 8 / ridge) / 2, rel=1e-12)
    for phase in (first, second):
        assert phase.batches == min(phase.rounds, 1 + 2 * phase.gain / math.log(1 + product / 2))
        assert phase.numbers == phase.users
        whole = 4 / ridge  # a single round's share of information at most
        left = 2 * ridge * phase.gain / phase.rounds * whole / math.log(1 + whole)
        apart = phase.rounds - 2 * phase.gain / math.log(1 + product)  # negative: too few rounds to set any apart
        assert apart < 0
        spread = 0.5 * math.sqrt(2 * math.log(1 / beta) / phase.users)
        assert phase.width == pytest.approx(spread * kappa + min(kappa, math.sqrt(left)) * (spread + 3.0), rel=1e-12)
    assert first.regret == 1 * 2 * 3.0 * kappa
    assert second.regret == pytest.approx(2 * min(2 * 3.0 * kappa, 4 * first.width), rel=1e-12)
    failure = 8 * 3.0 * kappa * 1 * beta * 2 * 3
    assert theory.regret(problem, 0.7, 1.6) == pytest.approx(first.regret + second.regret + failure, rel=1e-12)
    assert theory.communication(problem, 0.7, 1.6) == 2 + 3


def follow(run: Run, alpha: float, ratio: float, rule: BatchRule) -> None:
    """Every phase of a run, in which no bound failed, against the phase's bound; then the totals."""
    problem, f = run.scenario.problem, run.scenario.f
    bounds = theory.phase_bounds(problem, alpha, ratio, rule)
    assert len(run.steps) <= len(bounds)
    for step, bound in zip(run.steps, bounds, strict=False):
        assert not step.info.refuted
        assert step.plan.length == bound.rounds
        assert step.plan.participants == bound.users
        assert step.info.information_gain <= bound.gain * ROUNDING
        assert step.info.max_width <= bound.width * ROUNDING
        assert float((f.max() - f[step.plan.arms]) @ step.plan.pulls) <= bound.regret * ROUNDING
        assert len(step.plan.arms) <= bound.batches * ROUNDING
        assert step.plan.numbers <= bound.numbers * ROUNDING
    within_the_totals(run, alpha, ratio, rule)


def within_the_totals(run: Run, alpha: float, ratio: float, rule: BatchRule) -> None:
    assert run.metrics.regret <= theory.regret(run.scenario.problem, alpha, ratio, rule)
    assert run.metrics.communication <= theory.communication(run.scenario.problem, alpha, ratio, rule) * ROUNDING


@pytest.mark.parametrize(
    ("name", "seed"),
    [("dpbe-nobatching", 0), *((name, seed) for name in ("dpbe", "dpbe-paper") for seed in range(5))],
)
def test_no_phase_of_the_synthetic_study_costs_more_than_its_bound(name: str, seed: int) -> None:
    scenario = synthetic(seed)
    run = simulate(scenario, make_policy(name, **scenario.settings), seed)
    assert run.optimum_kept
    follow(run, 0.7, 1.6, RULE_OF[name])


@pytest.mark.parametrize("name", RULE_OF)
def test_late_phases_lose_four_widths_of_the_phase_before_in_every_round(name: str) -> None:
    problem = synthetic(0, 10**6 + 1).problem
    worst, uncapped = 2 * problem.norm_bound, 0
    for before, phase in pairwise(theory.phase_bounds(problem, 0.7, 1.6, RULE_OF[name])):
        assert phase.regret == pytest.approx(phase.rounds * min(worst, 4 * before.width), rel=1e-12)
        uncapped += 4 * before.width < worst
    assert uncapped >= 5
    assert theory.regret(problem, 0.7, 1.6, RULE_OF[name]) < worst * problem.horizon / 2


def study_of(problem: Problem, f: Array) -> Scenario:
    return Scenario("random", problem, GPUsers(problem, f), f)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    kernel=kernels,
    noise=st.floats(0.01, 2),
    bias=st.floats(0.01, 2),
    share=st.floats(0.05, 1),
    horizon=st.integers(1, 1000),
    alpha=st.floats(0.1, 1.3),
    ratio=st.floats(1.05, 4),
    name=st.sampled_from(sorted(RULE_OF)),
)
def test_no_run_with_a_valid_norm_bound_costs_more_than_the_theorems_allow(
    seed: int,
    n: int,
    kernel: Kernel,
    noise: float,
    bias: float,
    share: float,
    horizon: int,
    alpha: float,
    ratio: float,
    name: str,
) -> None:
    problem = random_problem(seed, n, 2, kernel, noise_std=noise, bias_std=bias, norm_bound=2.0, horizon=horizon)
    f = function_of_norm(problem, 2.0 * share, np.random.default_rng(seed))
    run = simulate(study_of(problem, f), make_policy(name, alpha=alpha, ratio=ratio), seed)
    within_the_totals(run, alpha, ratio, RULE_OF[name])


@pytest.mark.parametrize("name", ["dpbe", "dpbe-paper"])
def test_the_bound_covers_what_the_prior_mean_adds_to_the_gaps(name: str) -> None:
    f = np.array([0.0, 10.0])
    problem = Problem([0.0, 1.0], SquaredExponential(0.2), 0.1, 0.1, norm_bound=0.01, horizon=1, prior_mean=f)
    within_the_totals(simulate(study_of(problem, f), make_policy(name)), 0.7, 1.6, RULE_OF[name])


@pytest.mark.parametrize("name", ["dpbe", "dpbe-paper"])
def test_a_ridge_below_the_model_s_is_refused_or_covered(name: str) -> None:
    """The widths of the proofs hold for lambda = sigma^2 / v^2; here it is 10^8, and the ridge 10^-2."""
    f = np.array([-1.0, 1.0])
    problem = Problem([0.0, 1.0], SquaredExponential(0.2), 10.0, 0.001, norm_bound=1.5, horizon=10_000, ridge=1e-2)
    run = simulate(study_of(problem, f), make_policy(name))
    try:
        bounds = theory.phase_bounds(problem, 0.7, 1.6, RULE_OF[name])
    except InputError:
        return
    assert all(step.info.max_width <= bound.width for step, bound in zip(run.steps, bounds, strict=False))
    within_the_totals(run, 0.7, 1.6, RULE_OF[name])


SINGULAR = Problem(np.linspace(0, 1, 9), Linear(), 0.1, 0.3, norm_bound=2.0, horizon=777)
ALONE = Problem([0.3], SquaredExponential(0.2), 0.1, 0.3, norm_bound=2.0, horizon=777)


@pytest.mark.parametrize("name", RULE_OF)
@pytest.mark.parametrize("problem", [SINGULAR, ALONE], ids=["singular", "alone"])
def test_degenerate_problems_have_bounds_that_hold(problem: Problem, name: str) -> None:
    f = 1.5 * problem.decisions.points[:, 0]
    follow(simulate(study_of(problem, f), make_policy(name)), 0.7, 1.6, RULE_OF[name])


# Units: f, v, sigma and B have those of the reward; k those of its square, if v and B lose theirs.


def rescaled(unit: float, scale: float) -> Problem:
    return random_problem(
        5,
        kernel=scale**2 * SquaredExponential(0.3),
        noise_std=0.1 * unit,
        bias_std=0.3 * unit / scale,
        norm_bound=1.7 * unit / scale,
        horizon=5000,
    )


BOUNDS: dict[str, Callable[[Problem], float]] = {
    "regret": lambda problem: theory.regret(problem, 0.7, 1.6),
    "regret of single rounds": lambda problem: theory.regret(problem, 0.7, 1.6, "single"),
    "printed regret": lambda problem: theory.printed_regret(problem, 0.7, 1.6),
}


@pytest.mark.parametrize("unit", [0.01, 30.0])
@pytest.mark.parametrize("name", BOUNDS)
def test_regret_has_the_unit_of_the_reward(name: str, unit: float) -> None:
    assert BOUNDS[name](rescaled(unit, 1.0)) == pytest.approx(unit * BOUNDS[name](rescaled(1.0, 1.0)), rel=1e-6)


@pytest.mark.parametrize("scale", [0.1, 7.0])
@pytest.mark.parametrize("name", BOUNDS)
def test_the_scale_of_the_kernel_is_a_matter_of_convention(name: str, scale: float) -> None:
    assert BOUNDS[name](rescaled(1.0, scale)) == pytest.approx(BOUNDS[name](rescaled(1.0, 1.0)), rel=1e-6)


@pytest.mark.parametrize("unit", [0.01, 30.0])
@pytest.mark.parametrize("scale", [0.1, 7.0])
@pytest.mark.parametrize("rule", ["corrected", "single"])
def test_communication_does_not_depend_on_units(rule: BatchRule, unit: float, scale: float) -> None:
    expected = theory.communication(rescaled(1.0, 1.0), 0.7, 1.6, rule)
    assert theory.communication(rescaled(unit, scale), 0.7, 1.6, rule) == pytest.approx(expected, rel=1e-6)


# As printed


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


def test_the_printed_communication_is_the_sum_of_its_proof() -> None:
    problem = plain(3000)
    lengths = [2**l for l in range(11)] + [3000 - 2047]
    gains = [theory.information_gain_bound(problem, rounds) for rounds in lengths]
    expected = sum(
        4 * 0.4**2 * 1.6**2 / (1.6**2 - 1) * gain * (2 ** (0.7 * l) + 1) for l, gain in enumerate(gains, start=1)
    )
    assert theory.printed_communication(problem, 0.7, 1.6) == pytest.approx(expected, rel=1e-9)


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
    assert increasing([theory.communication(p, 0.7, 1.6, rule) for p in problems], slack=2 * theory.CLOSE)
    late = [regret / horizon for regret, horizon in zip(regrets, HORIZONS, strict=True)][-3:]
    assert late == sorted(late, reverse=True)
    assert late[-1] < late[0] / 2


def test_printed_bounds_grow_with_the_horizon() -> None:
    problems = [plain(horizon) for horizon in HORIZONS[3:]]
    for bound in (theory.printed_regret, theory.printed_communication):
        assert increasing([bound(problem, 0.7, 1.6) for problem in problems])
    assert increasing([theory.printed_private_regret(problem, 0.7, 1.6, 5.0, 1e-6) for problem in problems])


@pytest.mark.parametrize("rule", RULES)
def test_more_people_mean_less_regret_and_more_communication(rule: BatchRule) -> None:
    problem, alphas = plain(100_000), [0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2, 2.0]
    regrets = [theory.regret(problem, alpha, 1.6, rule) for alpha in alphas]
    assert increasing(regrets[::-1])
    assert regrets[0] > 2 * regrets[-1]
    assert increasing([theory.communication(problem, alpha, 1.6, rule) for alpha in alphas])
    assert increasing([theory.printed_communication(problem, alpha, 1.6) for alpha in alphas])


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
        assert 0 < theory.communication(problem, alpha, 1.6, rule) < math.inf
    assert 0 < theory.printed_communication(problem, alpha, 1.6) < math.inf


@pytest.mark.parametrize("alpha", [1.0, 1.2, 2.0])
def test_from_alpha_of_one_on_the_printed_theorem_is_refused(alpha: float) -> None:
    """C_1 and C_2 are infinite at one and negative above: a negative bound on the regret says nothing."""
    with pytest.raises(InputError, match="alpha"):
        theory.printed_regret(plain(1000), alpha, 1.6)
    with pytest.raises(InputError, match="alpha"):
        theory.printed_private_regret(plain(1000), alpha, 1.6, 1.0, 1e-6)

"""The theorems: no phase and no run costs more than they allow."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduction import theory
from tests.helpers import function_of_norm, random_problem
from tests.reproduction.helpers_theory import ROUNDING, RULE_OF, RULES, kernels, synthetic
from voxpop.errors import Array, InputError
from voxpop.gp.selection import BatchRule
from voxpop.model.kernels import Kernel, Linear, SquaredExponential
from voxpop.model.problem import Problem
from voxpop.policies import make_policy
from voxpop.simulation.people import GPPeople
from voxpop.simulation.runs import Run, Scenario, simulate

# thm:regret_upper_bound and thm:communication, phase by phase


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 8, 1000])
@pytest.mark.parametrize("rule", RULES)
def test_the_phases_are_those_of_the_algorithm(horizon: int, rule: BatchRule) -> None:
    phases = theory.phase_bounds(random_problem(0, horizon=horizon), 0.7, 1.6, rule)
    assert sum(phase.rounds for phase in phases) == horizon
    assert [phase.wave for phase in phases] == list(range(1, len(phases) + 1))
    assert [phase.rounds for phase in phases[:-1]] == [2**i for i in range(len(phases) - 1)]
    assert phases[-1].rounds <= 2 ** (len(phases) - 1)
    assert [phase.people for phase in phases] == [math.ceil(2 ** (0.7 * phase.wave)) for phase in phases]


def test_one_action_for_three_rounds_by_hand() -> None:
    problem = Problem([0.5], 4.0 * SquaredExponential(0.2), 0.2, 0.5, norm_bound=3.0, horizon=3)
    ridge, kappa, beta, product = 0.16, 2.0, 1 / 3, 1.6**2 - 1
    first, second = theory.phase_bounds(problem, 0.7, 1.6)
    assert (first.rounds, first.people, second.rounds, second.people) == (1, 2, 2, 3)
    assert first.gain == pytest.approx(math.log(1 + 4 / ridge) / 2, rel=1e-12)
    assert second.gain == pytest.approx(math.log(1 + 8 / ridge) / 2, rel=1e-12)
    for phase in (first, second):
        assert phase.batches == min(phase.rounds, 1 + 2 * phase.gain / math.log(1 + product / 2))
        assert phase.numbers == phase.people
        whole = 4 / ridge  # at most the information of a single round
        left = 2 * ridge * phase.gain / phase.rounds * whole / math.log(1 + whole)
        apart = phase.rounds - 2 * phase.gain / math.log(1 + product)  # negative: too few rounds to tell actions apart
        assert apart < 0
        spread = 0.5 * math.sqrt(2 * math.log(1 / beta) / phase.people)
        assert phase.width == pytest.approx(spread * kappa + min(kappa, math.sqrt(left)) * (spread + 3.0), rel=1e-12)
    assert first.regret == 1 * 2 * 3.0 * kappa
    assert second.regret == pytest.approx(2 * min(2 * 3.0 * kappa, 4 * first.width), rel=1e-12)
    failure = 8 * 3.0 * kappa * 1 * beta * 2 * 3
    assert theory.regret(problem, 0.7, 1.6) == pytest.approx(first.regret + second.regret + failure, rel=1e-12)
    assert theory.numbers_sent(problem, 0.7, 1.6) == 2 + 3


def follow(run: Run, alpha: float, ratio: float, rule: BatchRule) -> None:
    """Compare every phase of a run in which no bound failed with the phase's bound, and then the totals."""
    problem, f = run.scenario.problem, run.scenario.f
    bounds = theory.phase_bounds(problem, alpha, ratio, rule)
    assert len(run.closed) <= len(bounds)
    for step, bound in zip(run.closed, bounds, strict=False):
        assert not step.info.refuted
        assert step.plan.length == bound.rounds
        assert step.plan.people == bound.people
        assert step.info.information_gain <= bound.gain * ROUNDING
        assert step.info.max_width <= bound.width * ROUNDING
        assert float((f.max() - f[step.plan.arms]) @ step.plan.pulls) <= bound.regret * ROUNDING
        assert len(step.plan.arms) <= bound.batches * ROUNDING
        assert step.plan.numbers <= bound.numbers * ROUNDING
    within_the_totals(run, alpha, ratio, rule)


def within_the_totals(run: Run, alpha: float, ratio: float, rule: BatchRule) -> None:
    assert run.metrics.regret <= theory.regret(run.scenario.problem, alpha, ratio, rule)
    assert run.metrics.numbers <= theory.numbers_sent(run.scenario.problem, alpha, ratio, rule) * ROUNDING


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
    return Scenario("random", problem, GPPeople(problem, f), f)


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
    assert all(step.info.max_width <= bound.width for step, bound in zip(run.closed, bounds, strict=False))
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
def test_numbers_sent_do_not_depend_on_units(rule: BatchRule, unit: float, scale: float) -> None:
    expected = theory.numbers_sent(rescaled(1.0, 1.0), 0.7, 1.6, rule)
    assert theory.numbers_sent(rescaled(unit, scale), 0.7, 1.6, rule) == pytest.approx(expected, rel=1e-6)

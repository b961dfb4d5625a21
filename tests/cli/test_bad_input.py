"""Extremes of size, horizon and kernel: correct, finite, and no endless loop."""

from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.helpers import RUNNABLE, everything, random_problem
from tests.helpers_cli import refusal
from voxpop.cli import app
from voxpop.errors import InputError
from voxpop.gp import selection as greedy
from voxpop.gp.posterior import DensePosterior
from voxpop.gp.selection import fill, least_batches, select
from voxpop.model.kernels import Kernel, Linear, SquaredExponential
from voxpop.model.problem import Problem
from voxpop.policies import make_policy
from voxpop.runtime import machine as memory
from voxpop.simulation.people import GPPeople
from voxpop.simulation.runs import Scenario, simulate
from voxpop.simulation.scenarios import Options, make_scenario

LINE = np.linspace(0.1, 1, 7)
EXTREMES: dict[str, tuple[Any, Kernel]] = {
    "one action": ([0.3], SquaredExponential(0.2)),
    "all actions equal": (0.5 + 1e-9 * np.arange(6), SquaredExponential(1.0)),
    "rank one": (LINE, Linear()),
    "length-scale of a millionth": (LINE, SquaredExponential(1e-6)),
    "length-scale of a million": (LINE, SquaredExponential(1e6)),
}
SETTINGS: dict[str, dict[str, Any]] = {"dpbe-fixed": {"people": 5}}
PATIENT = (
    "waves",
    "dpbe",
    "dpbe-paper",
    "dpbe-fixed",
    "mini-gp-opt",
    "dbcare",
)  # these policies do not decide every round
BRIEF = (
    "pilot-only",
    "equal-split",
    "halving",
    "thompson",
    "rho",
    "botorch",
)  # these stop asking early, whatever they know


def scenario(name: str, horizon: int, **changes: Any) -> Scenario:
    points, kernel = EXTREMES[name]
    problem = Problem(points, kernel, 0.1, 0.1, 1.0, horizon, **changes)
    f = 0.3 * problem.kernel(problem.decisions.points, problem.decisions.points[-1:])[:, 0]
    return Scenario(name, problem, GPPeople(problem, f), f)


@pytest.mark.parametrize("policy", RUNNABLE)
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_give_finite_bounds_and_a_good_action(name: str, policy: str) -> None:
    study = scenario(name, 300)
    run = simulate(study, make_policy(policy, **SETTINGS.get(policy, {})), 0)
    assert sum(plan.length for plan in run.plans) <= 300
    assert np.isfinite(run.metrics.regret)
    assert np.isfinite(run.state.lower).all()
    assert np.isfinite(run.state.upper).all()
    assert run.optimum_kept
    # Actions that cannot be told apart (equal ones, a flat kernel) have nearly the same reward.
    assert study.f[run.best] >= study.f.max() - 0.3


@pytest.mark.parametrize("policy", PATIENT)
@pytest.mark.parametrize("name", EXTREMES)
def test_a_horizon_of_a_million_million_rounds_ends(name: str, policy: str) -> None:
    study = scenario(name, 10**12)
    run = simulate(study, make_policy(policy, **SETTINGS.get(policy, {})), 0)
    assert np.isfinite(run.metrics.regret)
    assert run.optimum_kept
    if policy != "dpbe-fixed":  # five people per wave never give enough information
        assert run.metrics.regret <= 1e-3 * 10**12 * max(float(np.ptp(study.f)), 1e-9)


@pytest.mark.parametrize("policy", [policy for policy in BRIEF if policy in RUNNABLE])
@pytest.mark.parametrize("name", EXTREMES)
def test_a_policy_that_stops_early_does_so_at_any_horizon(name: str, policy: str) -> None:
    run = simulate(scenario(name, 10**12), make_policy(policy), 0)
    assert np.isfinite(run.metrics.regret)
    assert sum(plan.length for plan in run.plans) <= 400


SHORT, LONG = 150, 10**12
MANY: dict[str, tuple[Any, Kernel, int]] = {
    "all actions equal": (0.5 + 1e-13 * np.arange(2500), SquaredExponential(1.0), LONG),
    "rank one": (np.linspace(0.1, 1, 2500), Linear(), LONG),
    "length-scale of a million": (np.linspace(0, 1, 2500), SquaredExponential(1e6), LONG),
    "length-scale of a millionth": (np.linspace(0, 1, 2500), SquaredExponential(1e-6), SHORT),
    "length-scale of nothing": (np.linspace(0, 1, 2500), SquaredExponential(5e-324), SHORT),
}


@pytest.mark.parametrize("name", MANY)
def test_extremes_among_many_actions_fill_a_wave(name: str) -> None:
    points, kernel, most = MANY[name]
    problem = Problem(points, kernel, 0.1, 0.1, 1.0, LONG, ridge=0.1)
    for rounds in (1, SHORT, most):
        chosen = select(problem, everything(problem), rounds, 1.6)
        assert chosen.pulls.sum() == rounds
        assert np.isfinite(chosen.information_gain)
        assert len(set(chosen.arms.tolist())) == len(chosen.arms) <= chosen.batches


@pytest.mark.parametrize("policy", sorted(set(RUNNABLE) - {*PATIENT, *BRIEF}))
def test_a_policy_that_plays_round_by_round_refuses_an_endless_horizon(policy: str) -> None:
    with pytest.raises(InputError, match=r"one round at a time.*at most 10,000,000.*use waves") as caught:
        simulate(scenario("rank one", 10**12), make_policy(policy), 0)
    refusal(caught)


def test_printed_batches_that_would_never_end_are_refused_at_once() -> None:
    study = scenario("length-scale of a millionth", 10**12, ridge=1e6)
    with pytest.raises(InputError, match=r"batches by the printed rule; use the corrected") as caught:
        simulate(study, make_policy("dpbe-paper"), 0)
    refusal(caught)
    run = simulate(study, make_policy("dpbe"), 0)  # the corrected rule ends
    assert np.isfinite(run.metrics.regret)


def test_more_batches_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy, "MOST_BATCHES", 200)
    problem = random_problem(0, n=12, kernel=SquaredExponential(1e-6), ridge=20.0)
    assert least_batches(problem, everything(problem), 5000, 1.56) <= 200
    with pytest.raises(InputError, match=r"200 batches left [\d,]+ rounds") as caught:
        select(problem, everything(problem), 5000, 1.6, "printed")
    refusal(caught)


@pytest.mark.parametrize("ridge", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("scale", [0.0, 0.3, 1.56])
@pytest.mark.parametrize("rounds", [1, 50, 2000])
def test_the_bound_on_the_number_of_batches_holds(ridge: float, scale: float, rounds: int) -> None:
    """It is attained, up to rounding down, where there is a single action."""
    for n in (1, 8):
        problem = random_problem(1, n=n, ridge=ridge)
        active = everything(problem)
        batches = fill(DensePosterior(problem, active), active, rounds, scale).batches
        assert least_batches(problem, active, rounds, scale) <= batches + 1


def test_a_covariance_of_every_pair_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_limit", lambda: 10**6)
    for policy in ("gp-ucb", "bbkb"):
        with pytest.raises(InputError, match=r"300 actions with a covariance of every pair.* at most \d+") as caught:
            simulate(make_scenario("sphere", Options(size=300, horizon=10)), make_policy(policy), 0)
        refusal(caught)


def test_the_memory_limit_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.memory_limit.cache_clear()
    monkeypatch.setenv("VOXPOP_MEMORY", "2.5")
    assert memory.memory_limit() == 2_500_000_000
    memory.memory_limit.cache_clear()
    monkeypatch.setenv("VOXPOP_MEMORY", "plenty")
    with pytest.raises(InputError, match="a number of gigabytes, got 'plenty'"):
        memory.memory_limit()
    monkeypatch.delenv("VOXPOP_MEMORY")
    assert memory.memory_limit() > 10**8
    memory.memory_limit.cache_clear()


def test_memory_is_stated_before_a_large_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_limit", lambda: 4 * 10**9)
    said = memory.statement(10**6)
    assert said == (
        "1,000,000 actions: at most 8 MB of memory for each batch of a wave; "
        "the limit of 4 GB holds at least 500 batches"
    )
    done = CliRunner().invoke(app, ["simulate", "sphere", "--size", "3000", "--horizon", "10", "--json"])
    assert done.exit_code == 0
    assert "3,000 actions" in done.stderr

"""Policies that play a block of rounds in one call: the same runs to the last bit, and records made on demand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.plain import plain_rounds
from tests.helpers import own
from voxpop.errors import Array, InputError
from voxpop.journal.wave import ClosedWave
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan
from voxpop.policies import Policy, make_policy
from voxpop.policies.gp_ucb import GPUCB
from voxpop.policies.protocol import RoundByRound
from voxpop.privacy import Budget, Ledger
from voxpop.simulation.people import TablePeople
from voxpop.simulation.runs import Run, Scenario, simulate
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.simulator import BLOCK, ClosedBlock, Population, simulate_waves

PLAYERS = ("gp-ucb", "mini-gp-opt")


class WaveByWave:
    """A policy that plays nothing by itself: each of its waves is planned, collected and learned from."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __getattr__(self, name: str) -> Any:
        if name == "play":
            raise AttributeError(name)
        return getattr(self._policy, name)


def told(wave: ClosedWave) -> list[Any]:
    plan, feedback = wave.plan, wave.feedback
    arrays = [array.tolist() for array in (plan.arms, plan.pulls, feedback.mean, wave.active)]
    return [*arrays, plan.wave, plan.people, plan.reference, plan.reports, feedback.count, wave.info, wave.release]


class Whole:
    """The people of a scenario, who cannot be asked about one arm without a plan."""

    def __init__(self, population: Population) -> None:
        self.observe, self.observe_each = population.observe, population.observe_each


@pytest.fixture(scope="module", params=["synthetic", "pricing", "table", "far out", "whole"])
def scenario(request: pytest.FixtureRequest) -> Scenario:
    named = request.param if request.param == "pricing" else "synthetic"
    made = make_scenario(named, Options(seed=3, size=40, horizon=2 * BLOCK + 90))
    if request.param == "whole":
        return replace(made, population=Whole(made.population))
    if request.param in ("table", "far out"):  # whose people stand in line, and are asked once each
        far = 1.0 if request.param == "table" else 1000.0
        rewards = far * np.random.default_rng(1).normal(made.f, 0.3, size=(150, 40))
        return replace(made, population=TablePeople(rewards, noise_std=0.1))
    return made


@pytest.mark.parametrize("name", PLAYERS)
def test_a_block_is_what_one_wave_after_the_other_is(scenario: Scenario, name: str) -> None:
    policy, plain = make_policy(name), WaveByWave(make_policy(name))
    assert isinstance(policy, RoundByRound)
    assert not isinstance(plain, RoundByRound)
    one, other = simulate(scenario, policy, 7), simulate(scenario, plain, 7)
    assert list(map(told, one.closed)) == list(map(told, other.closed))
    assert one.ledger.entries == other.ledger.entries
    assert (one.ended, one.metrics.regret) == (other.ended, other.metrics.regret)
    for part in ("wave", "rounds", "active", "lower", "upper", "centre", "lead", "lead_width"):
        np.testing.assert_array_equal(getattr(one.state, part), getattr(other.state, part))
    np.testing.assert_array_equal(own(one.state).belief.covariance, own(other.state).belief.covariance)


def test_gp_ucb_plays_the_arms_of_a_plain_loop(scenario: Scenario) -> None:
    run = simulate(scenario, "gp-ucb", 1)
    answers = np.concatenate([wave.feedback.mean for wave in run.closed])
    arms = np.concatenate([wave.plan.arms for wave in run.closed])
    np.testing.assert_array_equal(plain_rounds(scenario.problem, answers), arms)


def test_records_are_made_when_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ClosedWave] = []

    def counted(*parts: Any) -> ClosedWave:
        made.append(ClosedWave(*parts))
        return made[-1]

    monkeypatch.setattr("voxpop.simulation.simulator.ClosedWave", counted)
    run = simulate(make_scenario("sphere", Options(size=10, horizon=2 * BLOCK + 1)), "gp-ucb")
    assert all(isinstance(part, ClosedBlock) for part in run.log)
    assert (len(run.log), len(made)) == (3, 0)
    assert len(run.closed) == len(run.ledger.entries) == len(made) == 2 * BLOCK + 1
    assert run.closed is run.closed


def test_every_wave_of_a_block_is_watched() -> None:
    seen: list[int] = []
    scenario = make_scenario("sphere", Options(size=10, horizon=300))
    run = simulate(scenario, "gp-ucb", watch=lambda wave: seen.append(wave.plan.wave))
    assert seen == [wave.plan.wave for wave in run.closed] == list(range(1, 301))


@pytest.mark.parametrize("name", PLAYERS)
def test_playing_leaves_the_old_state_alone(name: str) -> None:
    problem, policy = make_scenario("sphere", Options(size=10, horizon=500)).problem, make_policy(name)
    assert isinstance(policy, RoundByRound)
    state, _ = policy.play(problem, policy.init(problem), 5, lambda wave, arm, rounds: 0.3 * arm)

    def contents(state: State) -> list[list[float]]:
        belief = own(state).belief
        return [part.tolist() for part in (state.upper, state.centre, belief.mean, belief.variance, belief.covariance)]

    before = contents(state)
    numbers: list[int] = []

    def answer(wave: int, arm: int, rounds: int) -> float:
        numbers.append(wave)
        return 1.0

    after, log = policy.play(problem, state, 40, answer)
    assert contents(state) == before != contents(after)
    assert (numbers, len(log), after.wave) == (list(range(6, 46)), 40, 45)


class Odd:
    """People with one answer to everything."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        raise NotImplementedError

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        return np.asarray(self.answer)

    def observe_one(self, arm: int, rounds: int, rng: np.random.Generator) -> float:
        return float(np.asarray(self.answer).flat[0])


def odd_run(problem: Problem, answer: Any) -> Run:
    return simulate(Scenario("odd", problem, Odd(answer), np.zeros(problem.size)), "gp-ucb")


@pytest.mark.parametrize(
    ("answer", "said"),
    [([np.nan], "finite"), ([np.inf], "finite"), ([1e300], "out of all proportion")],
)
def test_answers_that_are_none_are_refused_in_a_block_too(answer: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        odd_run(make_scenario("sphere", Options(size=10, horizon=50)).problem, answer)


def test_answers_far_out_are_clipped_as_they_are_in_other_waves() -> None:
    problem = make_scenario("sphere", Options(size=10, horizon=50)).problem
    run = odd_run(problem, [1000.0 * problem.grid_step * 2.0**45])
    (most,) = run.closed[0].feedback.mean.tolist()
    assert most == pytest.approx(run.closed[0].release.limits[1], rel=1e-9)
    assert odd_run(problem, [1.01 * most]).closed[0].feedback.mean.tolist() == [most]
    assert odd_run(problem, [0.99 * most]).closed[0].feedback.mean.tolist() != [most]


def test_a_ledger_with_a_budget_refuses_a_block_before_it_is_played() -> None:
    scenario = make_scenario("sphere", Options(size=10, horizon=50))
    ledger = Ledger(Budget(1.0, 1e-6))
    with pytest.raises(InputError, match="beyond the budget of 1"):
        next(simulate_waves(scenario.problem, GPUCB(), Odd([0.0]), 0, None, ledger))
    assert ledger.entries == []

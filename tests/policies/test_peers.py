"""What a practitioner would do: each peer plays, asks and decides as it says, up to the end of any horizon."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers import drive, own, random_problem
from voxpop.errors import Array, InputError
from voxpop.gp.belief import Belief, believe, pooled_best
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Evidence, Problem
from voxpop.model.state import State
from voxpop.model.waves import End, Feedback, Plan
from voxpop.policies import Policy, make_policy
from voxpop.policies import peers as module
from voxpop.policies.peers import few_rounds, spread
from voxpop.privacy import Private
from voxpop.simulation.people import GPPeople
from voxpop.simulation.simulator import simulate_waves

PEERS = ("pilot-only", "equal-split", "halving", "thompson", "dbcare", "rho")
PILOT = Evidence(np.array([[0.1, 0.1], [0.5, 0.5], [0.9, 0.2]]), np.full(3, 5.0), 30, np.array([0.2, 0.9, -0.4]))


def truth(problem: Problem) -> Array:
    return np.sin(4 * problem.decisions.points[:, 0])


def conducted(policy: Policy, problem: Problem, seed: int = 0) -> tuple[list[Plan], list[Feedback], State]:
    """Run a policy on people drawn around a sine; return its plans, the feedback and the last state."""
    people, rng = GPPeople(problem, truth(problem)), np.random.default_rng(seed)
    plans, feedbacks, state = [], [], policy.init(problem)

    def answer(plan: Plan) -> Feedback:
        return Feedback(people.observe(plan, plan.people, rng).mean(axis=0), plan.people)

    for _, plan, feedback, after, _ in drive(policy, problem, answer):
        plans.append(plan)
        feedbacks.append(feedback)
        state = after
    return plans, feedbacks, state


def reason(policy: Policy, problem: Problem, state: State) -> str:
    end = policy.plan(problem, state)
    assert isinstance(end, End)
    return end.reason


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("pilot", [(), (PILOT,)])
def test_a_peer_decides_by_all_answers_and_the_pilot_together(name: str, pilot: tuple[Evidence, ...]) -> None:
    problem = random_problem(1, n=20, horizon=2000, pilot=pilot)
    policy = make_policy(name)
    state = conducted(policy, problem)[2]
    assert policy.best(problem, state) == int(np.argmax(believe(problem, state.history).mean))


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_proves_nothing(name: str) -> None:
    """Its bounds stay those of the prior, so that nothing is certified that was not proved."""
    problem = random_problem(1, n=20, horizon=2000)
    state, prior = conducted(make_policy(name), problem)[2], State.prior(problem, problem.norm_bound)
    np.testing.assert_array_equal(state.active, np.arange(20))
    np.testing.assert_array_equal([state.lower, state.upper], [prior.lower, prior.upper])
    assert state.certified is None


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("horizon", [1, 2, 7, 12, 13, 30, 200, 217])
def test_a_peer_stops_at_the_horizon(name: str, horizon: int) -> None:
    problem = random_problem(1, n=12, noise_std=0.5, bias_std=0.4, horizon=horizon)
    assert few_rounds(problem) == min(4, horizon)
    plans = conducted(make_policy(name, **({"steps": 60} if name == "thompson" else {})), problem)[0]
    assert sum(plan.length for plan in plans) <= horizon
    assert all(plan.pulls.min() >= 1 for plan in plans)
    assert [plan.wave for plan in plans] == list(range(1, len(plans) + 1))
    if horizon == 7 and name == "thompson":
        assert [plan.length for plan in plans] == [4, 3]


FEW: dict[str, dict[str, int]] = {"thompson": {"people": 3, "steps": 4}, "rho": {"numbers": 9}}


@pytest.mark.parametrize("name", PEERS[1:])
def test_a_peer_enlists_the_people_whom_privacy_needs(name: str) -> None:
    problem = random_problem(1, n=6, horizon=300)
    policy = make_policy(name, **FEW.get(name, {"people": 3}))
    people = GPPeople(problem, truth(problem))
    waves = [wave for (wave,), _ in simulate_waves(problem, policy, people, 0, Private("central", 5.0, floor=77))]
    assert {wave.plan.people for wave in waves} == {77}
    assert all(wave.feedback.noise is not None for wave in waves)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("equal-split", {"people": 0}, "people must be a whole number, at least 1, got 0"),
        ("equal-split", {"arms": 0}, "arms must be a whole number, at least 1, got 0"),
        ("halving", {"people": 0}, "people must be a whole number, at least 1, got 0"),
        ("halving", {"arms": 2.5}, "arms must be a whole number, at least 1, got 2.5"),
        ("thompson", {"people": 0}, "people must be a whole number, at least 1, got 0"),
        ("thompson", {"steps": 0}, "steps must be a whole number, at least 1, got 0"),
        ("thompson", {"widen": 0}, "widen must be a number above 0 and at most 1000, got 0"),
        ("thompson", {"seed": -1}, "seed must be a whole number, at least 0, got -1"),
    ],
)
def test_a_bad_setting_is_refused(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as call:
        make_policy(name, **settings)
    assert str(call.value) == said


# Pilot only


def test_pilot_only_asks_nobody() -> None:
    problem = random_problem(1, n=20, pilot=(PILOT,))
    policy = make_policy("pilot-only")
    state = policy.init(problem)
    assert reason(policy, problem, state) == "it only uses the pilot"
    near = problem.decisions.points[policy.best(problem, state)]
    assert np.linalg.norm(near - [0.5, 0.5]) < 0.3


# Equal split


def test_equal_split_asks_the_same_people_once_about_everything() -> None:
    problem = random_problem(1, n=12, noise_std=0.5, bias_std=0.4, horizon=500)
    policy = make_policy("equal-split", people=30)
    (plan,), _, state = conducted(policy, problem)
    np.testing.assert_array_equal(plan.arms, np.arange(12))
    np.testing.assert_array_equal(plan.pulls, 4)  # 2 * 0.25 / 0.16, rounded up
    assert (plan.people, plan.reports, plan.numbers) == (30, "averages", 360)
    assert reason(policy, problem, state) == "every action was asked about once"


def test_equal_split_of_a_short_horizon_plays_fewer_rounds_and_then_fewer_arms() -> None:
    problem = random_problem(1, n=12, noise_std=0.5, bias_std=0.4)
    for horizon, arms, rounds in ((30, 12, 2), (12, 12, 1), (5, 5, 1)):
        ((plan,), _, _) = conducted(make_policy("equal-split"), replace(problem, horizon=horizon))
        assert (len(plan.arms), set(plan.pulls.tolist())) == (arms, {rounds})


def test_of_many_actions_a_spread_subset_is_played() -> None:
    grid = np.array(list(itertools.product(np.linspace(0, 1, 20), repeat=2)))
    problem = Problem(grid, SquaredExponential(0.2), 0.1, 0.3, norm_bound=1.0, horizon=1000)
    ((plan,), _, _) = conducted(make_policy("equal-split"), problem)
    assert len(set(plan.arms.tolist())) == 101
    gaps = np.linalg.norm(grid[:, None] - grid[plan.arms], axis=2).min(axis=1)
    assert gaps.max() < 0.11  # the best that 101 points can do is about 0.08


def test_actions_that_are_no_distance_apart_are_chosen_once_each() -> None:
    problem = Problem(1e-170 * np.arange(9), SquaredExponential(0.2), 0.1, 0.3, norm_bound=1.0, horizon=1000)
    assert len(set(spread(problem, 5).tolist())) == 5


# Halving


def test_halving_keeps_the_better_half_of_every_stage() -> None:
    problem = random_problem(1, n=23, horizon=5000)
    policy = make_policy("halving", people=8)
    plans, feedbacks, state = conducted(policy, problem)
    assert [len(plan.arms) for plan in plans] == [23, 12, 6, 3, 2]
    for before, feedback, after in zip(plans, feedbacks, plans[1:], strict=False):
        means = dict(zip(before.arms.tolist(), feedback.mean.tolist(), strict=True))
        dropped = means.keys() - set(after.arms.tolist())
        assert min(means[arm] for arm in after.arms.tolist()) >= max(means[arm] for arm in dropped)
    assert reason(policy, problem, state) == "one arm is left"


def test_every_stage_of_halving_sends_about_as_much() -> None:
    plans = conducted(make_policy("halving", people=8), random_problem(1, n=23, horizon=5000))[0]
    assert [plan.people for plan in plans] == [8, 16, 31, 62, 92]
    assert all(184 <= plan.numbers < 184 + len(plan.arms) for plan in plans)


def test_halving_plays_the_best_arms_in_the_rounds_that_are_left() -> None:
    problem = random_problem(1, n=12, horizon=15)  # one round of 12 arms, and three of six
    plans, feedbacks, state = conducted(make_policy("halving"), problem)
    assert [len(plan.arms) for plan in plans] == [12, 3]
    best = plans[0].arms[np.argsort(-feedbacks[0].mean)[:3]]
    np.testing.assert_array_equal(plans[1].arms, best)
    assert reason(make_policy("halving"), problem, state) == "every round of the horizon is played"


def test_halving_starts_from_a_spread_subset() -> None:
    problem = random_problem(1, n=60, horizon=5000)
    plans = conducted(make_policy("halving", arms=16), problem)[0]
    np.testing.assert_array_equal(plans[0].arms, spread(problem, 16))
    assert [len(plan.arms) for plan in plans] == [16, 8, 4, 2]


def test_one_action_needs_no_halving() -> None:
    problem = random_problem(1, n=1)
    policy = make_policy("halving")
    assert reason(policy, problem, policy.init(problem)) == "one arm is left"


# Thompson sampling


@pytest.mark.parametrize("steps", [1, 3, 13])
def test_thompson_s_posterior_is_the_pooled_one(steps: int) -> None:
    """Between two fits the constants are those of the last one."""
    problem = random_problem(2, n=15, horizon=500, prior_mean=0.7, pilot=(PILOT,))
    state = conducted(make_policy("thompson", steps=100), problem)[2]
    policy, history = make_policy("thompson", steps=100), state.history
    again = policy.init(problem)
    for plan, feedback in history[:steps]:
        again, _ = policy.advance(problem, again, plan, feedback)
    fitted = believe(problem, history[: 2 ** (steps.bit_length() - 1)])
    wanted = Belief(problem, believe(problem, history[:steps]).rows, fitted.tau, fitted.power)
    np.testing.assert_allclose(own(again).belief.mean, wanted.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(own(again).belief.covariance, wanted.covariance(np.arange(15)), rtol=1e-6, atol=1e-8)
    assert again.best == int(np.argmax(wanted.mean))


def test_thompson_counts_the_noise_of_privacy() -> None:
    problem = random_problem(2, n=15, horizon=500)
    policy = make_policy("thompson")
    state = policy.init(problem)
    for noise in (None, np.array([[0.5]]), np.array([[0.7]])):
        plan = policy.plan(problem, state)
        assert isinstance(plan, Plan)
        state, _ = policy.advance(problem, state, plan, Feedback(np.array([1.0]), 20, noise))
    fitted = believe(problem, state.history[:2])
    wanted = Belief(problem, believe(problem, state.history).rows, fitted.tau, fitted.power)
    np.testing.assert_allclose(own(state).belief.mean, wanted.mean, rtol=1e-6, atol=1e-8)


def test_thompson_plays_an_action_as_often_as_it_is_the_best_of_a_draw() -> None:
    problem = random_problem(2, n=5, horizon=500, pilot=(PILOT,))
    belief = believe(problem)
    draws = np.random.default_rng(0).multivariate_normal(belief.mean, belief.covariance(np.arange(5)), 20_000)
    wanted = np.bincount(draws.argmax(axis=1), minlength=5) / 20_000
    arms, state = [], make_policy("thompson").init(problem)
    for seed in range(1000):
        plan = make_policy("thompson", seed=seed, widen=1.0).plan(problem, state)
        assert isinstance(plan, Plan)
        arms.append(int(plan.arms[0]))
    np.testing.assert_allclose(np.bincount(arms, minlength=5) / 1000, wanted, atol=0.06)
    assert wanted.max() < 0.9


def test_thompson_draws_anew_in_every_step() -> None:
    problem = random_problem(2, n=15, horizon=500)
    policy = make_policy("thompson")
    state = policy.init(problem)
    plans = [policy.plan(problem, replace(state, wave=wave)) for wave in range(10)]
    assert len({int(plan.arms[0]) for plan in plans if isinstance(plan, Plan)}) > 3


def test_thompson_hardly_explores_if_its_draws_are_narrow() -> None:
    problem = random_problem(2, n=15, horizon=500, pilot=(PILOT,))
    policy = make_policy("thompson", widen=1e-6)
    plan = policy.plan(problem, policy.init(problem))
    assert isinstance(plan, Plan)
    assert plan.arms.tolist() == [pooled_best(problem)]


def test_thompson_plays_its_steps_with_a_seed_of_its_own() -> None:
    problem = random_problem(2, n=15, horizon=500)

    def arms(seed: int) -> list[int]:
        policy = make_policy("thompson", steps=30, people=7, seed=seed)
        plans, _, state = conducted(policy, problem)
        assert {(plan.people, len(plan.arms)) for plan in plans} == {(7, 1)}
        assert reason(policy, problem, state) == "every step is played"
        return [int(plan.arms[0]) for plan in plans]

    assert len(arms(0)) == 30
    assert arms(0) == arms(0) != arms(1)


def test_thompson_compares_a_spread_subset_of_many_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ACTIONS", 10)
    problem = random_problem(2, n=40, horizon=500)
    plans, _, state = conducted(make_policy("thompson", steps=20), problem)
    assert {int(plan.arms[0]) for plan in plans} <= set(spread(problem, 10).tolist())
    assert len(own(state).belief.mean) == 10
    assert state.best == int(np.argmax(believe(problem, state.history).mean))

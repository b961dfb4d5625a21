"""DBCARE with people: who is dropped, when the race is called off, and what its budget balances."""

import math

import numpy as np
import pytest

from tests.helpers import drive, random_problem
from voxpop.errors import Array, InputError
from voxpop.model.problem import Problem
from voxpop.model.waves import End, Feedback, Plan
from voxpop.policies import make_policy
from voxpop.policies.dbcare import DBCARE, answer_deviation


def raced(policy: DBCARE, problem: Problem, f: Array) -> tuple[list[Plan], str]:
    """Let people answer with the truth; return the waves, and why there are no more."""
    steps = list(drive(policy, problem, lambda plan: Feedback(f[plan.arms], plan.people)))
    end = policy.plan(problem, steps[-1][3])
    assert isinstance(end, End)
    return [plan for _, plan, *_ in steps], end.reason


def test_an_arm_is_dropped_when_it_is_clearly_behind() -> None:
    problem = random_problem(1, n=6, noise_std=0.5, bias_std=0.4, horizon=10**6)
    policy = DBCARE(people=50, width=2.0)
    far = 2.0 * answer_deviation(problem) * math.sqrt(2 / 50)
    f = 1.0 - far * np.array([0.98, 1.02, 0.0, 3.0, 0.1, 1.5])
    plans, reason = raced(policy, problem, f)
    assert plans[1].arms.tolist() == [2, 4, 0]  # best first
    assert plans[-1].arms.tolist() == [2, 4]
    assert reason == "one arm is left"


def test_averages_of_all_waves_count_by_their_people() -> None:
    problem = random_problem(1, n=3, horizon=10**6)
    policy = DBCARE(people=100, width=1.0)
    s = answer_deviation(problem)
    answers = iter([np.array([0.0, 0.0, 0.01]) * s, np.array([0.0, -0.25, 0.01]) * s, np.zeros(2)])
    plans = []
    for _, plan, *_ in drive(policy, problem, lambda plan: Feedback(next(answers)[: len(plan.arms)], plan.people)):
        plans.append(plan)
        if len(plans) == 3:
            break
    assert [plan.people for plan in plans] == [100, 100, 200]
    # Waves 1 and 2 list arms best first: (2, 0, 1). The arm of -0.25 is 0.13 s behind, with 0.1 s allowed.
    assert plans[1].arms.tolist() == [2, 0, 1]
    assert sorted(plans[2].arms.tolist()) == [1, 2]


def test_the_budget_balances_what_is_lost_and_what_numbers_cost() -> None:
    problem = random_problem(1, n=12, horizon=10**6)
    for arms in (2, 5, 12):
        policy = DBCARE(answer_cost=0.02, share=1.0)
        s = answer_deviation(problem)
        people = np.arange(1, 10**6)
        cost = 10**6 * s * np.sqrt(2 * math.log(arms) / people) + 0.02 * arms * people
        assert policy.budget(problem, arms) == pytest.approx(people[cost.argmin()], abs=1)


def test_the_budget_has_the_exponent_of_the_lower_bound() -> None:
    policy, short, long = DBCARE(), random_problem(1, horizon=10**9), random_problem(1, horizon=8 * 10**9)
    assert policy.budget(long, 4) == pytest.approx(4 * policy.budget(short, 4), rel=1e-3)
    dear = DBCARE(answer_cost=8.0).budget(long, 4)
    assert DBCARE(answer_cost=1.0).budget(long, 4) == pytest.approx(4 * dear, rel=1e-3)
    assert policy.budget(short, 2) > policy.budget(short, 4) > policy.budget(short, 8)


def test_arms_that_are_alike_are_asked_about_until_the_budget_is_spent() -> None:
    problem = random_problem(1, n=4, horizon=10**6)
    policy = DBCARE(people=30)
    plans, reason = raced(policy, problem, np.ones(4))
    assert reason == "more answers would cost more than they save"
    people = [plan.people for plan in plans]
    assert people[:3] == [30, 30, 60]
    assert sum(people) == policy.budget(problem, 4)


def test_one_action_needs_no_race() -> None:
    problem, policy = random_problem(1, n=1), make_policy("dbcare")
    assert policy.plan(problem, policy.init(problem)) == End("one arm is left")


@pytest.mark.parametrize(
    ("setting", "value"), [("answer_cost", 0), ("people", 0), ("arms", 0), ("width", 0), ("share", 0)]
)
def test_a_bad_setting_is_refused(setting: str, value: float) -> None:
    with pytest.raises(InputError, match=f"^{setting} must be .*, got 0$"):
        make_policy("dbcare", **{setting: value})

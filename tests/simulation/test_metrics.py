import numpy as np
import pytest

from tests.helpers import drive, function_of_norm, random_problem
from voxpop.model.waves import Feedback, Plan
from voxpop.policies import make_policy
from voxpop.report.stakes import measure, played, regret_curve

F = np.array([1.0, 3.0, 2.5])  # gaps 2, 0, 0.5


def a_plan(wave: int, arms: list[int], pulls: list[int], people: int) -> Plan:
    return Plan(wave, np.array(arms), np.array(pulls), people)


PLANS = [a_plan(1, [0], [1], 2), a_plan(2, [2, 0], [1, 1], 3), a_plan(3, [0, 1], [1, 3], 5)]  # 7 rounds


def test_regret_charges_every_round_its_gap() -> None:
    assert measure(PLANS, final=1, horizon=7, f=F).regret == pytest.approx(2 + 0.5 + 2 + 2 + 0)


def test_the_rounds_that_are_left_are_charged_to_the_final_action() -> None:
    assert measure(PLANS, final=2, horizon=17, f=F).regret == pytest.approx(6.5 + 10 * 0.5)
    assert measure(PLANS, final=1, horizon=17, f=F).regret == pytest.approx(6.5)


def test_numbers_sent_are_people_times_arms_summed_over_waves() -> None:
    assert measure(PLANS, final=1, horizon=10**6, f=F).numbers == 2 * 1 + 3 * 2 + 5 * 2


def test_people_are_summed_over_waves() -> None:
    assert measure(PLANS, final=1, horizon=7, f=F).people == 10


def test_switches_count_changes_of_action_also_between_waves() -> None:
    # Played: 0 | 2 0 | 0 1 (| final)
    assert measure(PLANS, final=1, horizon=7, f=F).switches == 3
    assert measure(PLANS, final=1, horizon=9, f=F).switches == 3
    assert measure(PLANS, final=0, horizon=9, f=F).switches == 4


def test_without_waves_everything_is_the_final_action() -> None:
    metrics = measure([], final=0, horizon=10, f=F)
    assert (metrics.regret, metrics.numbers, metrics.people, metrics.switches) == (20.0, 0, 0, 0)


def test_regret_does_not_change_when_all_rewards_shift() -> None:
    shifted = measure(PLANS, final=2, horizon=30, f=F - 7.0).regret
    assert shifted == pytest.approx(measure(PLANS, final=2, horizon=30, f=F).regret)


def test_played_lists_actions_and_rounds_up_to_the_horizon() -> None:
    arms, pulls = played(PLANS, final=2, horizon=9)
    assert arms.tolist() == [0, 2, 0, 0, 1, 2]
    assert pulls.tolist() == [1, 1, 1, 1, 3, 2]


RESTED = [
    Plan(1, np.array([0]), np.array([1]), 2, reference=2, rest=3),
    Plan(2, np.array([2, 0]), np.array([1, 1]), 3, reference=1, rest=0),
    Plan(3, np.array([0]), np.array([2]), 3, reference=1, rest=4),
]  # 12 rounds


def test_rounds_of_rest_are_the_reference_s() -> None:
    arms, pulls = played(RESTED, final=0, horizon=13)
    assert arms.tolist() == [0, 2, 2, 0, 0, 1, 0]
    assert pulls.tolist() == [1, 3, 1, 1, 2, 4, 1]
    metrics = measure(RESTED, final=0, horizon=13, f=F)
    assert metrics.regret == pytest.approx(2 + 3 * 0.5 + 0.5 + 2 + 2 * 2 + 0 + 2)
    assert (metrics.numbers, metrics.people) == (2 + 3 * 2 + 3, 8)  # nothing is asked about them
    assert metrics.switches == 4
    rounds, regret = regret_curve(RESTED, final=0, horizon=13, f=F)
    assert rounds.tolist() == [0, 1, 4, 5, 6, 8, 12, 13]
    assert regret == pytest.approx([0, 2, 3.5, 4, 6, 10, 10, 12])


def test_the_regret_curve_goes_through_hand_computed_points() -> None:
    rounds, regret = regret_curve(PLANS, final=2, horizon=9, f=F)
    assert rounds.tolist() == [0, 1, 2, 3, 4, 7, 9]
    assert regret == pytest.approx([0, 2, 2.5, 4.5, 6.5, 6.5, 7.5])


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_of_a_whole_run_ends_at_the_regret_and_equals_the_sum_over_rounds(seed: int) -> None:
    problem = random_problem(seed, horizon=500)
    f = function_of_norm(problem, 1.0, np.random.default_rng(seed))
    policy = make_policy("dpbe")
    steps = list(drive(policy, problem, lambda plan: Feedback(f[plan.arms], plan.people)))
    plans, final = [plan for _, plan, *_ in steps], policy.best(problem, steps[-1][3])
    rounds, regret = regret_curve(plans, final, problem.horizon, f)
    slow = sum(f.max() - f[a] for plan in plans for a, w in zip(plan.arms, plan.pulls, strict=True) for _ in range(w))
    slow += sum(plan.rest * (f.max() - f[plan.reference]) for plan in plans)
    slow += (500 - sum(int(plan.pulls.sum()) + plan.rest for plan in plans)) * (f.max() - f[final])
    assert rounds[-1] == 500
    assert regret[-1] == pytest.approx(measure(plans, final, problem.horizon, f).regret)
    assert regret[-1] == pytest.approx(slow)
    assert np.all(np.diff(regret) >= 0)

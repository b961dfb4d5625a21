"""What `dpbe` does beyond the paper: it keeps the decision that was certified best, and rests on its incumbent."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.helpers import drive, function_of_norm, random_problem
from voxpop.gp.large_widths import affine_values_and_gaps
from voxpop.gp.widths import AffineEstimator
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Feedback, Plan
from voxpop.policies.dpbe import DPBE
from voxpop.simulation.people import GPPeople
from voxpop.simulation.simulator import simulate_waves


def outcome(horizon: int, policy: DPBE) -> tuple[float, float]:
    """Return the certificate and the loss per round of a small study, in which two actions are never told apart."""
    problem = random_problem(0, noise_std=0.1, bias_std=0.1, horizon=horizon, beta=1e-3)
    f = function_of_norm(problem, 1.0, np.random.default_rng(0))
    state = list(simulate_waves(problem, policy, GPPeople(problem, f), 0))[-1][1]
    assert len(state.active) > 1
    return state.certificate, float(f.max() - f[state.best])


def test_a_last_phase_of_one_round_makes_nothing_worse() -> None:
    """After 255 = 1 + 2 + ... + 128 rounds a phase of one round follows, which plays one arm."""
    before, after = outcome(255, DPBE()), outcome(256, DPBE())
    assert after[0] <= before[0] + 1e-12
    assert after[1] <= before[1]
    printed = outcome(256, DPBE(settle=False))  # the leader of the last phase, whatever it could see
    assert printed[0] > 5 * before[0]
    assert printed[1] > before[1]


def test_the_certificate_never_grows_while_the_decision_stands() -> None:
    problem = random_problem(1, noise_std=0.1, bias_std=0.1, horizon=300, beta=1e-3)
    f = function_of_norm(problem, 1.0, np.random.default_rng(1))
    states = [state for _, state in simulate_waves(problem, DPBE(), GPPeople(problem, f), 1)]
    kept = [(a.certificate, b.certificate) for a, b in pairwise(states) if a.best in b.active]
    assert kept
    assert all(later <= earlier + 1e-12 for earlier, later in kept)


def rested(problem: Problem) -> list[tuple[State, Plan]]:
    """Return the phases, each with the state before it, of a study."""
    f = function_of_norm(problem, 1.0, np.random.default_rng(0))
    steps = drive(DPBE(), problem, lambda plan: Feedback(f[plan.arms], plan.people))
    return [(state, plan) for state, plan, *_ in steps]


def biased(noise_std: float) -> Problem:
    return random_problem(0, noise_std=noise_std, bias_std=0.5, horizon=500)


def widest_gap(problem: Problem, state: State, plan: Plan) -> float:
    """Return the largest width of a gap to the reference, were the plan's people asked."""
    noise = problem.answer_noise(plan.arms, plan.pulls, plan.people)
    estimator = AffineEstimator(problem, plan.arms, noise)
    y = np.zeros(len(plan.arms))
    return float(affine_values_and_gaps(estimator, state.active, plan.reference, state.norm_bound, y)[1][1].max())


@pytest.mark.parametrize("noise_std", [0.05, 0.2, 0.5])
def test_pulls_are_halved_while_the_widest_gap_grows_by_at_most_five_per_cent(noise_std: float) -> None:
    problem, rests = biased(noise_std), []
    for state, plan in rested(problem):
        full = DPBE(rest=False).plan(problem, state)
        assert isinstance(full, Plan)
        halvings = [
            replace(full, pulls=-(-full.pulls // 2**times)) for times in range(int(full.pulls.max()).bit_length())
        ]
        limit = 1.05 * widest_gap(problem, state, full)
        expected = [fewer for fewer in halvings if widest_gap(problem, state, fewer) <= limit][-1]
        assert plan.pulls.tolist() == expected.pulls.tolist()
        assert (plan.length, plan.people, plan.reference) == (full.length, full.people, state.best)
        assert plan.arms.tolist() == full.arms.tolist()
        rests.append(plan.rest)
    assert any(rests)


def test_the_phases_together_fill_the_horizon() -> None:
    plans = [plan for _, plan in rested(biased(0.05))]
    assert sum(plan.rest for plan in plans) > 0
    assert [plan.length for plan in plans][:5] == [1, 2, 4, 8, 16]
    assert sum(plan.length for plan in plans) <= 500

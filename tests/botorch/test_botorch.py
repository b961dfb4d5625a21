"""BoTorch's qLogNEI as a policy: what it is told, what it asks and what it proves."""

import numpy as np
import pytest
import torch

from tests.helpers import drive, own, random_problem
from voxpop.gp.belief import pilot_rows, total_noise
from voxpop.model.problem import Evidence
from voxpop.model.state import State
from voxpop.model.waves import End, Feedback, Plan
from voxpop.policies.botorch import BoTorch, in_unit_cube
from voxpop.policies.peers import spread

PILOT = Evidence(np.array([[0.1, 0.1], [0.5, 0.5], [0.9, 0.2]]), np.full(3, 5.0), 30, np.array([0.2, 0.9, -0.4]))
PROBLEM = random_problem(1, n=20, horizon=2000, prior_mean=0.3, pilot=(PILOT,))
BARE = random_problem(1, n=20, horizon=2000)


def answers(plan: Plan) -> Feedback:
    return Feedback(np.sin(4 * PROBLEM.decisions.points[plan.arms, 0]), plan.people)


def test_it_knows_all_averages_and_their_variances() -> None:
    steps = list(drive(BoTorch(batches=2, arms=3, people=50), PROBLEM, answers))
    gp, rows = own(steps[-1][3]).gp, pilot_rows(PROBLEM)
    x, y, variance = rows.points, PILOT.mean, rows.noise.diagonal()
    for _, plan, feedback, *_ in steps:
        x = np.concatenate([x, PROBLEM.decisions.points[plan.arms]])
        y = np.concatenate([y, feedback.mean])
        variance = np.concatenate([variance, total_noise(PROBLEM, plan, feedback).diagonal()])
    np.testing.assert_allclose(gp.train_inputs[0].numpy(), in_unit_cube(PROBLEM, x))
    everything = in_unit_cube(PROBLEM, PROBLEM.decisions.points)
    assert (everything.min(), everything.max()) == (0, 1)
    scale = y.std(ddof=1)
    np.testing.assert_allclose(gp.train_targets.numpy(), (y - y.mean()) / scale, atol=1e-8)
    np.testing.assert_allclose(gp.likelihood.noise_covar.noise.numpy(), variance / scale**2)


def test_it_uses_the_best_posterior_mean() -> None:
    *_, state, _ = list(drive(BoTorch(), PROBLEM, answers))[-1]
    with torch.no_grad():
        mean = own(state).gp.posterior(torch.tensor(in_unit_cube(PROBLEM, PROBLEM.decisions.points))).mean
    assert state.best == int(mean.argmax())
    near = np.abs(4 * PROBLEM.decisions.points[state.best, 0] - np.pi / 2)
    assert near == np.abs(4 * PROBLEM.decisions.points[:, 0] - np.pi / 2).min()


def test_it_plays_its_batches() -> None:
    policy = BoTorch()
    steps = list(drive(policy, PROBLEM, answers))
    assert [(len(plan.arms), plan.people) for _, plan, *_ in steps] == [(8, 100)] * 4
    assert all(len(set(plan.arms.tolist())) == 8 for _, plan, *_ in steps)
    assert policy.plan(PROBLEM, steps[-1][3]) == End("every batch is played")
    torch.manual_seed(99)  # which is none of its own
    again = [plan.arms.tolist() for _, plan, *_ in drive(policy, PROBLEM, answers)]
    assert again == [plan.arms.tolist() for _, plan, *_ in steps]


def test_without_a_pilot_it_begins_with_a_spread_batch() -> None:
    (_, first, *_), *others = list(drive(BoTorch(), BARE, answers))
    np.testing.assert_array_equal(first.arms, spread(BARE, 8))
    assert len(others) == 3


@pytest.mark.parametrize("horizon", [1, 2, 7, 30, 200])
def test_it_stops_at_the_horizon(horizon: int) -> None:
    problem = random_problem(1, n=12, noise_std=0.5, bias_std=0.4, horizon=horizon)
    plans = [plan for _, plan, *_ in drive(BoTorch(), problem, answers)]
    assert sum(plan.length for plan in plans) <= horizon
    assert all(plan.pulls.min() >= 1 for plan in plans)


def test_it_proves_nothing() -> None:
    state, prior = list(drive(BoTorch(), PROBLEM, answers))[-1][3], State.prior(PROBLEM, PROBLEM.norm_bound)
    np.testing.assert_array_equal([state.lower, state.upper], [prior.lower, prior.upper])
    np.testing.assert_array_equal(state.active, np.arange(20))

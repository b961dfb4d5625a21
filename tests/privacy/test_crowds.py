"""A crowd's sum drawn at once has the law of the sum of its people."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.helpers import random_problem
from voxpop.errors import Array
from voxpop.journal.wave import Wave
from voxpop.model.state import State
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Private
from voxpop.privacy.ball import Ball
from voxpop.privacy.central import Central
from voxpop.privacy.ledger import Entry
from voxpop.privacy.none import PlainRelease
from voxpop.privacy.release import Release
from voxpop.simulation import simulator as simulate_module
from voxpop.simulation.people import Customers, GPPeople, square_root
from voxpop.simulation.runs import simulate
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.simulator import GaussianPopulation, collect

PROBLEM = random_problem(0, n=6, bias_std=0.5)
PEOPLE = GPPeople(PROBLEM, np.array([0.3, -0.2, 0.5, 0.0, 0.1, 0.9]))
PLAN = Plan(1, np.array([0, 3, 5]), np.array([2, 1, 4]), 400)


def central(radius: float) -> Central:
    root = square_root(PROBLEM.answer_noise(PLAN.arms, PLAN.pulls) + 0.05 * np.eye(3))
    ball = Ball("test", np.array([0.1, 0.0, 0.5]), root, radius, (np.empty(0), np.empty(0)))
    return Central(ball, 0.01, Entry("central", 0, 1.0, 1e-6), 2.0**-30, 1.0)


def means(release: Release, at_once: bool, runs: int = 800) -> Array:
    """Return the mean report of PLAN's people in each of many studies, (runs, arms)."""
    rng, found = np.random.default_rng(int(at_once)), []
    for _ in range(runs):
        if at_once:
            drawn = release.crowd(*PEOPLE.law(PLAN), PLAN.people, rng)
            assert drawn is not None
            tally = drawn
        else:
            tally = release.tally(PEOPLE.observe(PLAN, PLAN.people, rng))
        assert tally.count == PLAN.people
        found.append(tally.feedback().mean)
    return np.array(found)


RELEASES: dict[str, Release] = {
    "plain": PlainRelease(PROBLEM.grid_step, 3),
    "hardly clipped": central(3.5),
    "often clipped": central(1.5),
    "nearly all clipped": central(0.3),
    "never clipped": central(math.inf),
}


@pytest.mark.parametrize("name", RELEASES)
def test_the_sum_of_a_crowd_has_the_law_of_the_sum_of_its_people(name: str) -> None:
    one_by_one, at_once = means(RELEASES[name], False), means(RELEASES[name], True)
    spread = one_by_one.std(axis=0)
    np.testing.assert_array_less(np.abs(at_once.mean(axis=0) - one_by_one.mean(axis=0)), 5 * spread / np.sqrt(400))
    ratio = np.linalg.eigvals(np.linalg.solve(np.cov(one_by_one.T), np.cov(at_once.T)))
    np.testing.assert_array_less(np.abs(np.log(ratio.real)), 0.35)
    for arm in range(3):
        assert stats.ks_2samp(one_by_one[:, arm], at_once[:, arm]).pvalue > 1e-4


def test_clipping_moves_the_mean_of_a_crowd() -> None:
    """Guards the test above: without clipping, it would fail."""
    assert np.abs(means(central(1.5), True).mean(axis=0) - means(central(math.inf), True).mean(axis=0)).max() > 0.02


def test_below_the_threshold_everyone_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    release = NoPrivacy().calibrate(PROBLEM, State.prior(PROBLEM, 1.0), PLAN)
    wave = Wave(PLAN, release)
    (alone,) = collect(wave, PEOPLE, 0)
    monkeypatch.setattr(simulate_module, "CROWD", PLAN.people - 1)
    (crowd,) = collect(wave, PEOPLE, 0)
    assert crowd != alone
    np.testing.assert_allclose(crowd.feedback().mean, alone.feedback().mean, atol=6 * 0.6 / math.sqrt(400))


def test_customers_are_not_a_gaussian_crowd() -> None:
    assert isinstance(PEOPLE, GaussianPopulation)
    assert not isinstance(Customers(np.array([2.0, 3.0])), GaussianPopulation)


@pytest.mark.parametrize("privacy", [NoPrivacy(), Private("central", 1.0, floor=10**9)])
def test_a_study_of_a_billion_people_a_wave(privacy: NoPrivacy | Private) -> None:
    scenario = make_scenario("synthetic", Options(seed=0, size=30, horizon=4000))
    run = simulate(scenario, make_policy("dpbe", people=10**9), 0, privacy)
    assert {plan.people for plan in run.plans} == {10**9}
    assert run.optimum_kept
    f, state = scenario.f, run.state
    assert np.all((state.lower <= f + 1e-9) & (f <= state.upper + 1e-9))

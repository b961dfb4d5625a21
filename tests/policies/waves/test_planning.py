"""Which waves are offered, and which of them is chosen."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import own, random_problem
from voxpop.model.problem import Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.policies.waves.planning import GOOD_ENOUGH, ROUNDS, Limits, Offer, Planner, numbers_of_people, useful_rounds
from voxpop.policies.waves.policy import Waves
from voxpop.policies.waves.sealing import SEALED
from voxpop.privacy import Private


@given(least=st.integers(1, 10**6), factor=st.floats(1.0, 1e6))
def test_numbers_of_people_grow_by_a_ratio_from_the_least_to_nearly_the_most(least: int, factor: float) -> None:
    most = int(least * factor)
    found = numbers_of_people(least, most)
    assert found[0] == least
    assert found[-1] <= most < found[-1] * 1.45 * (1 + 1e-9)
    assert (found == found.round()).all()
    assert (np.diff(found) > 0).all()
    assert (found[1:] <= 1.45 * found[:-1] + 1).all()


@pytest.mark.parametrize(("least", "most"), [(1, 1), (20, 20), (20, 21), (7, 10**7)])
def test_numbers_of_people_stay_within_their_limits(least: int, most: int) -> None:
    found = numbers_of_people(least, most)
    assert least <= found.min() <= found.max() <= most


@pytest.mark.parametrize(("noise", "v"), [(0.01, 1.0), (0.3, 0.3), (1.0, 0.1), (1.0, 1e-6)])
def test_no_more_rounds_than_make_the_noise_of_rounds_small(noise: float, v: float) -> None:
    """With the most rounds, the noise of a person's average is about what people differ by at the nearest arms."""
    problem = random_problem(0, noise_std=noise, bias_std=v)
    arms = np.arange(problem.size)
    apart = 2 - 2 * problem.covariance(arms, arms)
    np.fill_diagonal(apart, np.inf)
    nearest = v**2 * float(np.median(np.minimum(apart.min(axis=1), 1.0))) / 2
    found = useful_rounds(problem, arms)
    assert found[0] == 1
    assert found == sorted(set(found))
    assert len(found) == 1 or noise**2 / found[-1] > nearest / 2
    assert found[-1] == ROUNDS[-1] or noise**2 / (2 * found[-1]) <= nearest / 2


def test_shocks_are_averaged_by_rounds_alone() -> None:
    calm = random_problem(0, noise_std=0.01, bias_std=0.3)
    stormy = random_problem(0, noise_std=0.01, bias_std=0.3, shock_std=0.3)
    assert useful_rounds(calm, np.arange(4)) == [1]
    assert useful_rounds(stormy, np.arange(4))[-1] == ROUNDS[-1]


def offer(gain: float, answers: float, exploring: float = 0.0) -> Offer:
    return Offer(np.array([0, 2]), np.array([0, 1]), 3, 40, gain, answers, exploring)


def test_an_offer_counts_what_it_brings_and_costs() -> None:
    made = offer(10.0, 2.0, 1.0)
    assert (made.cost, made.net) == (3.0, 7.0)
    plan = made.plan(4, 2)
    assert (plan.wave, plan.reference, plan.people, plan.length, plan.numbers) == (4, 2, 40, 6, 80)
    assert plan.forecast is not None
    assert (plan.forecast.gain, plan.forecast.cost) == (10.0, 3.0)


def planner(
    problem: Problem,
    state: State,
    limits: Limits | None = None,
    answer_cost: float = 0.01,
    channel: Channel = OPEN,
    **more: Any,
) -> Planner:
    known: dict[str, Any] = {"delay": 0, "fewest": 20, "waves_left": None, **more}
    limits = limits or Limits(problem.horizon, 10**6, 10**7)
    return Planner(problem, state, channel, own(state).outlook, answer_cost, limits=limits, **known)


def looked(seed: int, horizon: int = 2000) -> tuple[Problem, State]:
    problem = random_problem(seed, horizon=horizon)
    return problem, Waves().init(problem)


def test_a_wave_that_measures_shocks_ends_before_the_horizon() -> None:
    problem, state = looked(0)
    limits = Limits(900, 10**6, 10**7)
    assert planner(problem, state, limits).measuring() is not None
    assert planner(problem, state, limits, delay=895).measuring() is None


def test_a_decision_that_may_be_tried_alone_measures_nothing() -> None:
    problem, state = looked(0)
    made = planner(problem, state)
    assert replace(made, outlook=replace(made.outlook, pool=made.outlook.pool[:1])).measuring() is None


@pytest.mark.parametrize("seed", range(3))
def test_no_offer_is_beyond_the_limits(seed: int) -> None:
    problem, state = looked(seed)
    limits = Limits(12, 300, 1000)
    offers = list(planner(problem, state, limits, delay=5)._offers())
    assert offers
    for made in offers:
        assert made.rounds * len(made.arms) + 5 < 12
        assert 20 <= made.people <= 300
        assert made.people * len(made.arms) <= 1000
        assert state.best in made.arms
        assert made.answers == pytest.approx(0.01 * made.people * len(made.arms))
        assert made.gain >= 0
    assert len({len(made.arms) for made in offers}) > 2
    assert len({made.people for made in offers}) > 3


@pytest.mark.parametrize("seed", range(3))
def test_the_chosen_wave_pays_almost_as_much_as_any_other_and_costs_less(seed: int) -> None:
    problem, state = looked(seed)
    made = planner(problem, state)
    best = made.best()
    assert best is not None
    most = max(made._again(other).net for other in made._offers() if other.people <= 2000)
    assert best.net >= 0.95 * GOOD_ENOUGH * most
    assert best.net > 0


def test_what_is_expected_of_a_wave_does_not_hang_on_the_draws_that_chose_it() -> None:
    problem, state = looked(0)
    made = planner(problem, state)
    best = made.best()
    assert best is not None
    people = np.array([float(best.people)])
    single = problem.answer_noise(best.arms, best.pulls // best.blocks) / (1 - SEALED)
    fresh = made.outlook.values_of_people(best.places, single, 0 * single, people, fresh=True)[0]
    assert best.gain == pytest.approx(problem.horizon * fresh, rel=1e-9)
    lost = float(made.outlook.loss(best.places).sum())
    assert best.exploring == pytest.approx(best.rounds * (lost + fresh * len(best.arms)), rel=1e-9)


def test_if_nothing_pays_nothing_is_offered() -> None:
    problem, state = looked(0)
    assert planner(problem, state, answer_cost=1e6).best() is None
    assert planner(problem, state, Limits(1, 100, 100)).best() is None
    assert planner(problem, state, Limits(100, 10, 100)).best() is None
    assert planner(problem, state, Limits(100, 100, 19)).best() is None
    assert planner(problem, state, delay=10**6).best() is None


def test_the_last_wave_leaves_less_to_be_made_up_for() -> None:
    problem, state = looked(1)
    ample, last = (planner(problem, state, waves_left=left).best() for left in (None, 1))
    assert ample is not None
    assert last is not None
    assert last.net >= ample.net
    assert last.cost > ample.cost


@pytest.mark.parametrize("model", ["central", "local"])
def test_noise_that_hides_people_lowers_the_value_of_a_wave(model: str) -> None:
    problem, state = looked(2)
    places, people = np.array([0, 1, 2]), np.array([30.0, 300.0, 3000.0])
    channel = Private(model, 3.0)
    made = planner(problem, state)
    noise = problem.answer_noise(made.outlook.actions[places], np.ones(3, int)) / (1 - SEALED)
    plain = made.outlook.values_of_people(places, noise, 0 * noise, people, fresh=True)
    hidden = planner(problem, state, channel=channel)._values(places, 1, people, fresh=True)
    assert (hidden < plain).all()
    assert (np.diff(hidden) > 0).all()
    assert math.isclose(float(made._values(places, 1, people, fresh=True)[1]), float(plain[1]), rel_tol=1e-9)


def test_too_few_people_to_hide_in_are_worth_nothing() -> None:
    problem, state = looked(2)
    people = np.array([1.0, 3.0, 60.0])
    values = planner(problem, state, channel=Private("shuffle", 0.02))._values(np.array([0, 1]), 1, people)
    assert values[0] == values[1] == 0.0
    assert values[2] > 0

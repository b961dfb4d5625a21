"""Simulated people who can be asked again."""

from dataclasses import replace

import numpy as np
import pytest

from voxpop.errors import InputError
from voxpop.journal.wave import Wave
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.privacy.none import PlainRelease
from voxpop.simulation.people import Customers, DrawnPeople, GPPeople, TablePeople
from voxpop.simulation.runs import Scenario, simulate
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.simulator import Staying, collect


def scenario(shocks: float = 0.0) -> Scenario:
    return make_scenario("sphere", Options(size=12, horizon=300, shocks=shocks))


def test_gaussian_people_stay_as_the_problem_says() -> None:
    people = scenario().population
    assert isinstance(people, GPPeople)
    drawn, problem = people.stay(20_000, np.random.default_rng(0)), people.problem
    every = np.arange(problem.size)
    expected = problem.bias_std**2 * problem.covariance(every, every)
    assert np.abs(np.cov(drawn.rewards.T) - expected).max() < 6 * expected.max() / np.sqrt(20_000)
    assert np.abs(drawn.mean - people.f).max() < 6 * np.sqrt(expected.max() / 20_000)
    assert drawn.noise_std == problem.noise_std


def test_customers_stay_with_their_own_reservation_prices() -> None:
    shop = Customers(np.linspace(2.0, 9.0, 8))
    drawn = shop.stay(20_000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean, shop.profit, atol=0.1)
    plan = Plan(1, np.array([3]), np.array([1]), 20_000)
    once, again = (drawn.averages(np.arange(20_000), 3, 1, np.random.default_rng(seed)) for seed in (0, 1))
    assert np.corrcoef(once, again)[0, 1] > 0.5  # they buy again, or not
    assert np.abs(once.mean() - shop.observe(plan, 20_000, np.random.default_rng(0)).mean()) < 0.1


def test_everyone_is_asked_about_every_block_of_every_wave() -> None:
    people = TablePeople(np.random.default_rng(0).normal(size=(30, 12)))  # whose rounds do not vary
    line = people.in_line(np.random.default_rng(1))
    for wave in (1, 2):
        plan = Plan(wave, np.array([2, 5]), np.array([4, 4]), 30, blocks=4, same=30)
        tallies = collect(Wave(plan, PlainRelease(2.0**-40, 2)), line, 0)
        assert [tally.count for tally in tallies] == [30] * 4
        for tally in tallies:
            np.testing.assert_allclose(tally.feedback().mean, people.mean[[2, 5]], atol=1e-9)


def test_the_truth_is_that_of_everybody_or_of_the_panels_population() -> None:
    made = scenario(0.1)
    runs = {who: simulate(made, make_policy("waves", who=who, population=30)) for who in ("panel", "everybody")}
    people = {who: run.scenario.population for who, run in runs.items()}
    assert isinstance(people["everybody"], TablePeople)
    np.testing.assert_array_equal(runs["everybody"].truth, people["everybody"].mean)
    np.testing.assert_array_equal(runs["panel"].truth, made.f)
    assert isinstance(people["panel"], TablePeople)
    np.testing.assert_array_equal(people["panel"].rewards, people["everybody"].rewards)
    for run in runs.values():
        assert run.metrics.people == 30
        assert not run.people_asked_again
        assert run.certificate_true
        assert run.scenario.weather == made.weather


def test_the_pilots_people_may_answer_again() -> None:
    voters = make_scenario("voters", Options(horizon=500))
    assert isinstance(voters.population, TablePeople)
    policy = voters.make_policy("waves", who="everybody")
    assert policy.settings()["population"] == len(voters.population) + 40
    assert voters.make_policy("waves").settings()["population"] == len(voters.population)


def test_people_who_are_drawn_anew_cannot_stay() -> None:
    people = DrawnPeople(lambda count, arms, rounds, rng: rng.normal(size=(count, len(arms))))
    assert not isinstance(people, Staying)
    made = replace(scenario(), population=people)
    with pytest.raises(InputError, match="are drawn anew whenever they are asked; ask fresh people"):
        simulate(made, make_policy("waves", who="panel", population=30))
    table = TablePeople(np.zeros((20, 12)))
    with pytest.raises(
        InputError, match="people who answer in every wave must be a whole number, at least 1 and at most 20"
    ):
        simulate(replace(made, population=table), make_policy("waves", who="everybody", population=30))

"""People of whom there is a list: who is asked, what they answer, and studies of them that begin with a pilot."""

from typing import Any

import numpy as np
import pytest

from voxpop.errors import InputError
from voxpop.model.decisions import Choice, Decisions, Float, Space
from voxpop.model.problem import Indices
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.simulation.people import GPPeople, Line, TablePeople
from voxpop.simulation.runs import Scenario, simulate
from voxpop.simulation.scenarios import Options, make_scenario, piloted, spread
from voxpop.simulation.simulator import FinitePopulation

EVERYONE = np.arange(20.0)[:, None] + np.array([0.0, 100.0])  # a person's number shows in every answer


def plan_of(arms: list[int], pulls: list[int], people: int = 1) -> Plan:
    return Plan(1, np.array(arms), np.array(pulls), people)


def test_nobody_is_asked_twice_until_all_were_asked() -> None:
    line = TablePeople(EVERYONE).in_line(np.random.default_rng(0))
    rng, plan = np.random.default_rng(1), plan_of([1], [3])
    waves = [line.observe(plan, people, rng)[:, 0] - 100 for people in (7, 8, 5)]
    assert sorted(np.concatenate(waves)) == list(range(20))
    assert list(np.concatenate(waves)) != list(range(20))
    again = line.observe(plan, 50, rng)[:, 0] - 100
    assert sorted(again[:20]) == sorted(again[20:40]) == list(range(20))
    assert list(again[:20]) != list(again[20:40])
    assert len(set(again[40:])) == 10


def test_a_person_answers_about_every_arm_and_one_person_about_a_round() -> None:
    people = TablePeople(EVERYONE)
    answers = people.observe(plan_of([1, 0], [3, 4]), 20, np.random.default_rng(0))
    np.testing.assert_array_equal(answers[:, 0] - answers[:, 1], np.full(20, 100.0))
    each = people.in_line(np.random.default_rng(0)).observe_each(plan_of([0, 1], [8, 12]), np.random.default_rng(1))
    assert 8 * each[0] + 12 * (each[1] - 100) == pytest.approx(sum(range(20)))


def test_a_run_asks_everyone_once_and_a_second_run_asks_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line belongs to a run, so that a scenario is never used up."""
    asked: list[int] = []
    take = Line._take

    def taken(line: Line, count: int) -> Indices:
        rows = take(line, count)
        asked.extend(rows.tolist())
        return rows

    monkeypatch.setattr(Line, "_take", taken)
    problem = make_scenario("sphere", Options(size=5, horizon=300)).problem
    people = TablePeople(np.random.default_rng(0).normal(np.arange(5.0), 0.1, size=(60, 5)))
    study = Scenario("twice", problem, people, people.mean)
    run = simulate(study, make_policy("dpbe", alpha=2.0))
    assert [wave.plan.people for wave in run.closed][:2] == [4, 16]
    assert len(set(asked[:60])) == 60
    once = list(asked)
    asked.clear()
    simulate(study, make_policy("dpbe", alpha=2.0))
    assert asked == once


@pytest.mark.parametrize("pulls", [1, 25])
def test_noise_is_that_of_an_average(pulls: int) -> None:
    people = TablePeople(np.zeros((20_000, 1)), noise_std=2.0)
    answers = people.observe(plan_of([0], [pulls]), 20_000, np.random.default_rng(0))
    assert answers.std() == pytest.approx(2.0 / np.sqrt(pulls), rel=0.02)
    each = [people.observe_each(plan_of([0], [pulls]), np.random.default_rng(seed))[0] for seed in range(400)]
    assert np.std(each) == pytest.approx(2.0 / np.sqrt(pulls), rel=0.15)


def test_stakes_are_paid_or_not() -> None:
    rewards = np.tile([0.5, -1.0, 0.0], (20_000, 1))  # chances 1/4, 1/2 and none
    people = TablePeople(rewards, stakes=np.array([2.0, -2.0, 0.0]))
    answers = people.observe(plan_of([0, 1, 2], [4, 1, 4]), 20_000, np.random.default_rng(0))
    assert set(answers[:, 0]) == {0.0, 0.5, 1.0, 1.5, 2.0}
    assert set(answers[:, 1]) == {0.0, -2.0}
    assert set(answers[:, 2]) == {0.0}
    np.testing.assert_allclose(answers.mean(axis=0), [0.5, -1.0, 0.0], atol=0.03)
    assert answers[:, 0].var() == pytest.approx(4 * 0.25 * 0.75 / 4, rel=0.05)


def test_people_may_have_stakes_of_their_own() -> None:
    stakes = np.array([[1.0, 2.0], [10.0, 20.0], [0.0, 0.0]])
    people = TablePeople(stakes, stakes=stakes)  # everyone pays for certain
    answers = people.observe(plan_of([1, 0], [3, 1]), 3, np.random.default_rng(0))
    assert sorted(answers.tolist()) == [[0.0, 0.0], [2.0, 1.0], [20.0, 10.0]]
    each = people.observe_each(plan_of([0, 1], [3, 3]), np.random.default_rng(0))
    np.testing.assert_allclose(each, stakes.mean(axis=0))
    for part in people.split(1, np.random.default_rng(0)):
        np.testing.assert_array_equal(part.stakes, part.rewards)


BAD: dict[str, tuple[Any, dict[str, Any]]] = {
    "no people": (np.zeros((0, 3)), {}),
    "one row": (np.zeros(3), {}),
    "infinite": ([[1.0, np.inf]], {}),
    "negative noise": ([[1.0]], {"noise_std": -1.0}),
    "noise and stakes": ([[1.0]], {"noise_std": 1.0, "stakes": [2.0]}),
    "stakes of another size": ([[1.0]], {"stakes": [2.0, 3.0]}),
    "more than the stake": ([[1.0, 3.0]], {"stakes": [2.0, 2.0]}),
    "stakes of other people": ([[1.0]], {"stakes": [[2.0], [2.0]]}),
    "more than one's own stake": ([[1.0], [1.0]], {"stakes": [[2.0], [0.5]]}),
    "the wrong sign": ([[1.0]], {"stakes": [-2.0]}),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_table_is_refused(case: str) -> None:
    rewards, others = BAD[case]
    with pytest.raises(InputError):
        TablePeople(rewards, **others)


def test_somebody_is_left_to_be_asked() -> None:
    with pytest.raises(InputError, match="at most 19"):
        TablePeople(EVERYONE).split(20, np.random.default_rng(0))


def test_the_pilot_s_people_are_not_asked_again() -> None:
    space = Space(price=Float(0, 1))
    decisions = space.grid(15)
    own = np.random.default_rng(0).normal(size=(50, 1))
    people = TablePeople(own - (decisions.points[:, 0] - 0.4) ** 2)
    study = piloted("tea", space, decisions, people, people.mean, 1000, people=30, tried=5, rounds=2)
    assert isinstance(study.population, TablePeople)
    assert len(study.population) == 20
    assert study.make_policy("waves").settings()["population"] == 20
    pilot = study.problem.pilot[0]
    assert (pilot.people, pilot.rounds.tolist(), study.pilot_numbers) == (30, [2] * 5, 150)
    total = 30 * pilot.mean[0] + 20 * study.population.mean[0]  # at the first decision
    assert total == pytest.approx(50 * people.mean[0])


def test_the_pilot_s_people_depend_on_the_seed() -> None:
    space = Space(price=Float(0, 1))
    own = np.random.default_rng(0).normal(size=(50, 1))
    people = TablePeople(own * space.grid(5).points[:, 0])
    made = [piloted("tea", space, space.grid(5), people, people.mean, 100, seed, people=20) for seed in (0, 0, 1)]
    first, second, third = (study.problem.pilot[0].mean[-1] for study in made)
    assert first == second != pytest.approx(third, rel=1e-3)


def test_a_pilot_takes_few_of_few_people() -> None:
    space = Space(price=Float(0, 1))
    people = TablePeople(np.random.default_rng(0).normal(size=(41, 5)))
    with pytest.raises(InputError, match=r"there are 41 people and the pilot takes 40"):
        piloted("tea", space, space.grid(5), people, people.mean, 100)


def test_decisions_of_several_parameters_are_spread() -> None:
    """A regular stride through a 10 by 10 grid would walk along one diagonal."""
    decisions = Space(price=Float(0, 1), size=Float(0, 1)).grid(10)
    points = decisions.points[spread(decisions, 12)]
    assert len(np.unique(points, axis=0)) == 12
    assert abs(np.asarray(np.corrcoef(points.T))[0, 1]) < 0.3
    apart = np.linalg.norm(points[:, None] - points, axis=2) + np.eye(12)
    assert apart.min() > 0.25
    choices = Space(size=Float(0, 1), plan=Choice(("a", "b", "c"))).grid(4)
    assert {choices[i]["plan"] for i in spread(choices, 6)} == {"a", "b", "c"}


def test_decisions_on_a_line_are_spread_by_their_place() -> None:
    shuffled = Decisions([0.5, 0.0, 1.0, 0.25, 0.75])
    assert spread(shuffled, 3).tolist() == [1, 0, 2]
    assert spread(shuffled, 9).tolist() == [0, 1, 2, 3, 4]


def test_gaussian_people_are_never_used_up() -> None:
    problem = make_scenario("sphere", Options(size=5)).problem
    assert not isinstance(GPPeople(problem, np.zeros(5)), FinitePopulation)
    assert isinstance(TablePeople(EVERYONE), FinitePopulation)

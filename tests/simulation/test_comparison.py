"""People as a function, and policies compared on them in one call."""

import numpy as np
import pytest

from voxpop.errors import Array, InputError
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Indices, Problem
from voxpop.model.waves import Plan
from voxpop.privacy import Private
from voxpop.simulation.comparison import compare
from voxpop.simulation.people import DrawnPeople
from voxpop.simulation.runs import Scenario, simulate

TRUTH = np.array([0.0, 1.0, 0.5])


def answer(people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
    own = rng.normal(0, 0.3, size=(people, 1))
    return np.asarray(TRUTH[arms] + own + rng.normal(0, 0.4, size=(people, len(arms))) / np.sqrt(rounds))


@pytest.fixture
def study() -> Scenario:
    problem = Problem([0.0, 0.5, 1.0], SquaredExponential(0.3), 0.4, 0.3, norm_bound=2.0, horizon=300)
    return Scenario("three", problem, DrawnPeople(answer), TRUTH)


def test_a_function_is_asked_for_all_people_of_a_wave_or_for_one_in_a_round() -> None:
    people = DrawnPeople(answer)
    found = people.observe(Plan(1, np.array([2, 1]), np.array([4, 9]), 5), 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(found.std(axis=0), np.sqrt([0.09 + 0.04, 0.09 + 0.16 / 9]), rtol=0.03)
    rng, plan = np.random.default_rng(0), Plan(1, np.array([1, 0]), np.array([100, 25]), 125)
    each = np.array([people.observe_each(plan, rng) for _ in range(2000)])
    np.testing.assert_allclose(each.mean(axis=0), [1.0, 0.0], atol=0.02)
    np.testing.assert_allclose(each.std(axis=0), [0.05, 0.1], rtol=0.08)  # a new person every round


def test_the_truth_is_estimated_from_many_people() -> None:
    np.testing.assert_allclose(DrawnPeople(answer).estimate(3), TRUTH, atol=0.01)
    asked: list[int] = []

    def counted(people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
        asked.append(people)
        return np.ones((people, len(arms)))

    np.testing.assert_array_equal(DrawnPeople(counted).estimate(600, people=4000), np.ones(600))
    assert (sum(asked), max(asked)) == (4000, 1666)


@pytest.mark.parametrize("shape", [(5,), (5, 3), (2, 5)])
def test_answers_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    people = DrawnPeople(lambda *_: np.zeros(shape))
    with pytest.raises(InputError, match=r"\(people, arms\), \(5, 2\), got"):
        people.observe(Plan(1, np.array([0, 1]), np.array([1, 1]), 5), 5, np.random.default_rng(0))


def test_every_policy_asks_with_every_seed(study: Scenario) -> None:
    found = compare(study, ["waves", "gp-ucb", "pilot-only"], seeds=[3, 4])
    assert list(found.cells) == ["waves", "gp-ucb"]
    assert found.left_out == {"pilot-only": "needs a pilot, and this study has none"}
    for name, cell in found.cells.items():
        assert cell["regret"].tolist() == [simulate(study, name, seed).metrics.regret for seed in (3, 4)]
    assert found.cells["gp-ucb"].mean("people") == 300
    assert set(found.frontier) <= {"waves", "gp-ucb"}
    lines = repr(found).splitlines()
    assert [line.split()[0] for line in lines] == ["policy", "waves", "gp-ucb", "No"]


def test_a_function_of_the_seed_makes_a_new_study_for_each(study: Scenario) -> None:
    made: list[int] = []

    def of_seed(seed: int) -> Scenario:
        made.append(seed)
        return study

    compare(of_seed, ["waves", "equal-split"], seeds=range(2))
    assert made == [0, 1]


def test_nothing_to_compare_is_refused(study: Scenario) -> None:
    with pytest.raises(InputError, match="no seeds"):
        compare(study, seeds=[])
    with pytest.raises(InputError, match=r"nothing is left to compare.*gp-ucb.*central"):
        compare(study, ["gp-ucb"], privacy=Private("central", 5.0))

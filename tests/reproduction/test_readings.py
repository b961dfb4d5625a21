"""The readings: without choices they are the paper's policies, and each choice does what its name says."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reproduction.exhibits import Scale
from reproduction.paper import judge_seconds
from reproduction.readings import AS_CAPTIONED, READINGS, Reading, Spread, light, make, play, present
from tests.reproduction.helpers import STUDIES
from voxpop.errors import Array
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.simulation.runs import Scenario, simulate

EXACT: Any = type("Exact", (), {"multivariate_normal": lambda self, mean, cov, method: mean})()


class Certain:
    """People who all answer with the truth."""

    def __init__(self, f: Array) -> None:
        self.f = f

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        return np.tile(self.f[plan.arms], (people, 1))

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        return np.asarray(self.f[plan.arms])


@pytest.mark.parametrize(
    ("policy", "reading", "people"),
    [
        ("dpbe-paper", Reading(), 0),
        ("dpbe-fixed", Reading(), 23),
        ("dpbe-nobatching", Reading(batches="single"), 0),
    ],
)
@pytest.mark.parametrize("study", ["synthetic", "camel", "light"])
def test_a_reading_without_choices_is_the_paper_s_policy(
    study: str, policy: str, reading: Reading, people: int
) -> None:
    problem, f, alpha, ratio = make(study, reading, 3)
    problem = replace(problem, horizon=1000)
    chosen = {"people": people} if people else {}
    scenario = Scenario(study, problem, Certain(f), f)
    run = simulate(scenario, scenario.make_policy(policy, alpha=alpha, ratio=ratio, **chosen))
    numbers, of_one = play(problem, f, reading, alpha, ratio, EXACT, people)
    assert numbers == run.metrics.numbers
    assert of_one * people == (numbers if people else 0)


def sent(reading: Reading, **changes: Any) -> int:
    problem, f, alpha, ratio = make("synthetic", reading, 0)
    return play(replace(problem, **changes), f, reading, alpha, ratio, EXACT)[0]


def test_each_choice_changes_what_is_sent_in_its_direction() -> None:
    usual = sent(Reading())
    assert sent(Reading(merged=False)) > usual
    assert sent(Reading(stops=False)) > usual
    assert sent(Reading(norm_bound=1.0)) < usual
    assert sent(Reading(rounds_up=False)) < usual
    assert sent(Reading(alpha=0.4)) < usual
    assert len({usual, sent(Reading(first=2)), sent(Reading(ridge=1e-4)), sent(Reading(batches="corrected"))}) == 4


def test_a_minimised_function_is_the_study_upside_down() -> None:
    problem, f, *_ = make("sphere", Reading(upside_down=True), 5)
    assert isinstance(problem, Problem)
    np.testing.assert_array_equal(-f, make("sphere", Reading(), 5)[1])


def test_the_sensors_rewards_by_other_meanings_of_normalised() -> None:
    for rewards in ("spread", "range"):
        f, matrix = light(rewards)
        assert f.shape == (41,)
        assert (f >= 0).all()
        assert (f <= 1).all()
        assert np.linalg.eigvalsh(matrix)[0] > 0
    assert (light("spread")[0].min(), light("spread")[0].max()) == (0.0, 1.0)
    assert light("range")[1].diagonal().mean() < 1  # the rest of the overall variance is between sensors


def test_a_spread_holds_what_lies_among_its_runs() -> None:
    runs = Spread({"DPBE": np.array([100.0, 200.0, 400.0])}, {"DPBE": 300.0})
    assert runs.holds("DPBE")
    assert replace(runs, printed={"DPBE": 439.0}).holds("DPBE")
    assert not replace(runs, printed={"DPBE": 441.0}).holds("DPBE")
    assert not replace(runs, printed={"DPBE": 90.0}).holds("DPBE")
    np.testing.assert_allclose(runs.factors, [3.0, 1.5, 4 / 3])


@pytest.mark.parametrize("study", STUDIES)
def test_every_printed_cell_has_a_verdict(study: str) -> None:
    shown = present(study, Scale(seeds=2, functions=2), {})
    cells, readings = shown.tables
    assert [row[0] for row in cells.rows[:3]] == ["DPBE", "DPBE-Fixed", "DPBE-NoBatching"]
    assert {row[-1].split(":")[0] for row in cells.rows} <= {"agrees", "does not"}
    assert [row[0] for row in readings.rows] == list(READINGS[study])
    assert readings.rows[0][0] == AS_CAPTIONED
    assert shown.figure is not None
    assert len(shown.findings) == 1 + (study == "synthetic")


def test_seconds_agree_within_a_factor_of_two_or_as_multiples() -> None:
    assert judge_seconds(0.2, 0.11, 0.1, 0.1) == "agrees"
    assert judge_seconds(0.2, 0.05, 0.1, 0.02) == "agrees: as a multiple of DPBE's"
    assert judge_seconds(5.0, 0.5, 0.1, 0.1) == "does not"

"""The pilot's own people, drawn again: their law, and a rehearsal with them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers_cli import draw, pilot_csv, read_pilot
from voxpop.calibration import calibrate
from voxpop.calibration.pilot import Pilot
from voxpop.errors import Array, InputError
from voxpop.io.studyfile import write_study
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import Matern
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.simulation.people import ResampledPeople
from voxpop.simulation.rehearsals import Rehearsal

POINTS = np.linspace(0, 1, 9)
TRIED = POINTS[::2]
KERNEL = Matern(0.3)
BIAS, NOISE, ROUNDS = 0.8, 0.5, 5
F = np.sin(4 * POINTS)


def resampled(answers: Array, noise: float = NOISE, rounds: int = ROUNDS) -> ResampledPeople:
    problem = Problem(POINTS, KERNEL, noise, BIAS, norm_bound=3.0, horizon=100)
    return ResampledPeople(problem, F, Pilot.of_matrix(Decisions(TRIED), answers, rounds), F[::2])


def of_model(people: int, seed: int = 0) -> Array:
    """Answers of people who follow the model, of shape (people, tried)."""
    rng = np.random.default_rng(seed)
    own = BIAS * draw(KERNEL(TRIED[:, None], TRIED[:, None]), rng, people)
    return np.asarray(F[::2] + own + NOISE / np.sqrt(ROUNDS) * rng.standard_normal(own.shape))


PLAN = Plan(1, np.array([0, 3, 4, 7]), np.array([1, 2, 10, 4]), 1)


def test_people_who_follow_the_model_deviate_as_the_model_says() -> None:
    """Between the decisions that the pilot tried, too: the spread is not that of the posterior means alone."""
    people = resampled(of_model(4000))
    answers = people.observe(PLAN, 60_000, np.random.default_rng(1))
    expected = people.problem.answer_noise(PLAN.arms, PLAN.pulls)
    np.testing.assert_allclose(answers.mean(axis=0), F[PLAN.arms], atol=0.05)
    np.testing.assert_allclose(np.cov(answers.T), expected, atol=0.05)


def test_the_truth_is_the_mean_of_those_who_answer() -> None:
    people = resampled(of_model(6))
    answers = people.observe(PLAN, 200_000, np.random.default_rng(1))
    np.testing.assert_allclose(answers.mean(axis=0), people.mean[PLAN.arms], atol=0.012)
    assert np.abs(people.mean - F).max() > 0.1  # of six people


def test_without_noise_people_answer_what_they_answered() -> None:
    answers = of_model(6)
    people = resampled(answers, noise=1e-6, rounds=1000)
    again = people.observe(Plan(1, np.array([0, 4, 8]), np.full(3, 1000), 1), 50, np.random.default_rng(0))
    apart = np.abs(again[:, None] - answers[:, [0, 2, 4]]).max(axis=2)  # (drawn, pilot)
    assert apart.min(axis=1).max() < 1e-3
    assert len(set(apart.argmin(axis=1).tolist())) == 6
    np.testing.assert_allclose(people.mean[::2], answers.mean(axis=0), atol=1e-4)


def test_two_kinds_of_people_stay_two_kinds() -> None:
    kinds = np.where(np.arange(20) % 2, 1.0, -1.0)[:, None]
    people = resampled(np.tile(kinds, (1, 5)) + 0.01 * np.arange(5), noise=0.05)
    arm = Plan(1, np.array([4]), np.array([50]), 1)
    answers = people.observe(arm, 5000, np.random.default_rng(0))[:, 0]
    assert np.mean(np.abs(answers) < 0.5) < 0.01  # as good as nobody in the middle, where Gaussian people would be
    assert np.mean(answers > 0) == pytest.approx(0.5, abs=0.03)


def test_single_rounds_have_the_same_law() -> None:
    people = resampled(of_model(5))
    plan = Plan(1, np.array([3]), np.array([1]), 1)
    many = people.observe(plan, 40_000, np.random.default_rng(0))[:, 0]
    rng = np.random.default_rng(1)
    each = np.array([people.observe_one(3, 1, rng) for _ in range(40_000)])
    assert each.mean() == pytest.approx(many.mean(), abs=0.03)
    assert each.std() == pytest.approx(many.std(), rel=0.03)
    found = people.observe_each(Plan(1, np.array([3, 0]), np.array([400, 500]), 900), np.random.default_rng(2))
    np.testing.assert_allclose(found, people.mean[[3, 0]], atol=0.2)


def test_people_may_have_tried_different_things() -> None:
    first, second = of_model(300), of_model(100, seed=1) - 0.2
    pilot = Pilot(
        Decisions(TRIED),
        np.concatenate([np.repeat(np.arange(300), 2), np.repeat(np.arange(300, 400), 5)]),
        np.concatenate([np.tile([0, 4], 300), np.tile(np.arange(5), 100)]),
        np.concatenate([first[:, [0, 4]].ravel(), second.ravel()]),
        np.full(300 * 2 + 100 * 5, float(ROUNDS)),
    )
    people = replace(resampled(second), pilot=pilot)
    answers = people.observe(PLAN, 60_000, np.random.default_rng(1))
    np.testing.assert_allclose(np.cov(answers.T), people.problem.answer_noise(PLAN.arms, PLAN.pulls), atol=0.15)
    np.testing.assert_allclose(answers.mean(axis=0), people.mean[PLAN.arms], atol=0.02)
    again = people.pilot_again(np.random.default_rng(0))
    assert [(group.people, len(group.mean)) for group in again] == [(300, 2), (100, 5)]


def test_another_pilot_varies_as_pilots_do() -> None:
    answers = of_model(40)
    people = resampled(answers)
    means = [people.pilot_again(np.random.default_rng(seed))[0].mean for seed in range(800)]
    np.testing.assert_allclose(np.mean(means, axis=0), answers.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(np.cov(np.transpose(means)), np.cov(answers.T, bias=True) / 40, atol=0.004)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pilot, and the study file that was calibrated with it."""
    records, space = read_pilot(pilot_csv(tmp_path / "pilot.csv"))
    text = write_study(calibrate(records, space), space, 2000, 11, "tea", {"name": "waves"})
    (tmp_path / "tea.toml").write_text(text)
    return tmp_path


def test_a_rehearsal_with_the_pilot_s_own_people(folder: Path) -> None:
    rehearsal = Rehearsal(str(folder / "tea.toml"), resample=str(folder / "pilot.csv"))
    gaussian, own = replace(rehearsal, resample=None).scenario(), rehearsal.scenario()
    assert isinstance(own.population, ResampledPeople)
    np.testing.assert_allclose(own.f, gaussian.f, atol=0.1)
    assert own.problem.decisions is not own.population.pilot.decisions
    kept, drawn = gaussian.problem.pilot[0], own.problem.pilot[0]
    np.testing.assert_allclose(kept.points, drawn.points)
    assert (kept.people, kept.rounds.tolist()) == (drawn.people, drawn.rounds.tolist())
    assert 0 < np.abs(kept.mean - drawn.mean).max() < 0.5
    other = replace(rehearsal, seed=1).scenario().problem.pilot[0]
    assert np.abs(other.mean - drawn.mean).max() > 0
    run = rehearsal.run()
    assert run.loss < 0.2


def test_protected_people_are_not_drawn_again(folder: Path) -> None:
    records, space = read_pilot(folder / "pilot.csv")
    text = write_study(calibrate(records, space), space, 2000, 11, "tea", {"name": "waves"})
    promise = "noise_std = 0.1\nepsilon = 5.0\ndelta = 1e-6\n\n[rehearsal]"
    (folder / "tea.toml").write_text(text.replace("[rehearsal]", promise))
    with pytest.raises(InputError, match="promised differential privacy"):
        Rehearsal(str(folder / "tea.toml"), resample=str(folder / "pilot.csv")).scenario()


def test_a_pilot_outside_the_study_is_refused(folder: Path) -> None:
    text = (folder / "pilot.csv").read_text().replace(",3.00,", ",4.00,")
    (folder / "other.csv").write_text(text)
    with pytest.raises(InputError, match=r"other\.csv: price: .*at most 3, got 4"):
        Rehearsal(str(folder / "tea.toml"), resample=str(folder / "other.csv")).scenario()

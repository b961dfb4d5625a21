"""Pilots in which people tried different things: the gradient, the effort, and what a study keeps of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voxpop.calibration import search
from voxpop.calibration.doubts import doubts
from voxpop.calibration.fit import Calibration, calibrate
from voxpop.calibration.likelihood import Design, Evaluation
from voxpop.calibration.pilot import Group, Pilot
from voxpop.calibration.protected import Protection
from voxpop.calibration.search import KERNELS, STARTS, Fit, Prior
from voxpop.calibration.tails import outlier, signed_skewness
from voxpop.errors import Array, InputError
from voxpop.gp.belief import believe, pilot_rows
from voxpop.io.schema import decode, encode
from voxpop.io.studyfile import read_study, write_study
from voxpop.model.decisions import Choice, Decisions, Float, Space
from voxpop.model.problem import Evidence, Problem
from voxpop.privacy.sources import Simulated


def random_pilot(people: int, each: int = 3, grid: int = 0, dimensions: int = 1, seed: int = 0) -> Pilot:
    """Everyone tries some settings at random, of a grid or of all (0); people follow the model."""
    rng = np.random.default_rng(seed)
    x = rng.random((people, each, dimensions))
    if grid:
        places = np.array([rng.permutation(grid)[:each] for _ in range(people)])
        x = places[:, :, None] / (grid - 1) * np.ones(dimensions)
    own = [0.5 * np.linalg.cholesky(0.8 * np.exp(-_distances(at) / 0.4) + 0.2) @ rng.normal(size=each) for at in x]
    answers = 1 - 4 * np.square(x - 0.6).sum(axis=2) + np.array(own) + 0.8 * rng.normal(size=(people, each))
    points, actions = np.unique(x.reshape(-1, dimensions), axis=0, return_inverse=True)
    who = np.repeat(np.arange(people), each)
    return Pilot(Decisions(points), who, actions.ravel(), answers.ravel(), rng.choice([1.0, 2.0, 3.0], len(who)))


def _distances(x: Array) -> Array:
    return np.asarray(np.sqrt(np.square(x[:, None] - x).sum(axis=2)))


def fit_of(groups: list[Group], points: Array, kernel: str, axes: dict[str, int], seed: int = 0) -> Fit:
    """A fit at constants away from any maximum."""
    prior = Prior.of(groups, len(axes))
    theta = prior.centre + 0.3 * np.random.default_rng(seed).normal(size=len(prior.centre))
    return Fit(kernel, points, axes, Design.of(groups), prior, theta)


PILOTS = {
    "settings of a grid": random_pilot(30, grid=9),
    "settings of their own": random_pilot(12, dimensions=3),
    "one thing each": random_pilot(20, each=1),
    "everything": Pilot.of_matrix(Decisions(np.arange(4) / 3), np.random.default_rng(1).normal(size=(7, 4)), 2),
}


def numerical(fit: Fit) -> Array:
    moves = 1e-5 * np.eye(len(fit.theta))
    ahead, behind = ([replace(fit, theta=fit.theta + s * move).log_density for move in moves] for s in (1, -1))
    return np.asarray((np.array(ahead) - np.array(behind)) / 2e-5)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", PILOTS)
def test_the_gradient_is_that_of_the_log_density(name: str, kernel: str) -> None:
    pilot = PILOTS[name]
    dimensions = pilot.decisions.points.shape[1]
    axes = {"a": 1, "b": dimensions - 1} if dimensions > 1 else {"a": 1}
    fit = fit_of(pilot.groups(), pilot.decisions.points, kernel, axes)
    np.testing.assert_allclose(fit.gradient, numerical(fit), rtol=1e-5, atol=1e-5)


def test_the_gradient_of_a_protected_pilot_is_that_of_its_log_density() -> None:
    """Two groups of several people share an action; their scatter is known by its moments."""
    rng = np.random.default_rng(3)
    actions = np.tile(np.repeat([[0, 1, 2], [2, 3, 4]], [8, 5], axis=0), 1)
    people = np.repeat(np.arange(13), 3)
    pilot = Pilot(Decisions(np.arange(5) / 4), people, actions.ravel(), rng.normal(size=39), np.ones(39), True)
    groups = Protection(-3, 3, 20.0).release(pilot, Simulated(rng))
    fit = fit_of(groups, pilot.decisions.points, "matern-3/2", {"a": 1})
    np.testing.assert_allclose(fit.gradient, numerical(fit), rtol=1e-5, atol=1e-5)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count evaluations of the likelihood, by how many actions they take."""
    sizes: list[int] = []
    original = Evaluation.at.__func__  # type: ignore[attr-defined]

    def at(cls: type[Evaluation], gram: Array, *rest: object) -> Evaluation:
        sizes.append(len(gram))
        found: Evaluation = original(cls, gram, *rest)
        return found

    monkeypatch.setattr(Evaluation, "at", classmethod(at))
    return sizes


def test_five_hundred_people_take_a_few_hundred_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finite differences, which take six times as many, took more than a minute."""
    sizes = counted(monkeypatch)
    found = calibrate(random_pilot(500, grid=51))
    assert found.people == 500
    assert set(sizes) == {51}  # however many patterns there are
    assert len(sizes) < 400


def test_where_everybody_tried_something_else_few_evaluations_take_all_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = counted(monkeypatch)
    calibrate(random_pilot(150))
    assert set(sizes) > {450}
    assert sizes.count(450) < 20
    assert max(size for size in sizes if size < 450) <= search.COARSE


@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_refined_maximum_is_that_of_a_search_with_all_actions(
    dimensions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pilot, axes = random_pilot(90, dimensions=dimensions), {f"x{i}": 1 for i in range(dimensions)}
    points, groups = pilot.decisions.points, pilot.groups()
    refined = Fit.search("matern-3/2", points, axes, groups)
    monkeypatch.setattr(search, "COARSE", 10**6)
    searched = Fit.search("matern-3/2", points, axes, groups)
    assert refined.log_density == pytest.approx(searched.log_density, abs=1e-4)
    np.testing.assert_allclose(refined.theta, searched.theta, atol=0.02 * refined.prior.spread.min())


def test_the_search_says_how_far_it_is() -> None:
    said: list[int] = []
    calibrate(random_pilot(20, grid=6), watch=lambda: said.append(1))
    assert len(said) == 3 * search.SEARCHES == 3 * (len(STARTS) + 1)


def study_of(found: Calibration, space: Space, path: Path) -> tuple[str, Problem]:
    text = write_study(found, space, 1000, 21, "study", {"name": "waves"})
    path.write_text(text)
    return text, read_study(path)[0]


def test_no_single_answer_stands_in_the_study_file_and_nothing_is_lost(tmp_path: Path) -> None:
    drawn, space = random_pilot(120, grid=9), Space(price=Float(0, 1))
    labels = [{"price": float(point)} for point in drawn.decisions.points[:, 0]]
    pilot = replace(drawn, decisions=Decisions(drawn.decisions.points, labels))
    found = calibrate(pilot, space, kernel="matern-5/2")
    assert min(group.people for group in pilot.groups()) == 1
    text, problem = study_of(found, space, tmp_path / "study.toml")
    assert not [answer for answer in pilot.averages if f"{answer:.6f}"[:-1] in text]
    (kept,) = problem.pilot
    assert kept.people == 120
    assert kept.numbers == 360
    whole = tuple(Evidence(pilot.decisions.points[g.actions], g.counts, g.people, g.mean) for g in pilot.groups())
    alike = replace(kept, variances=None)  # as if people varied everywhere as much
    before, after = (pilot_rows(replace(problem, pilot=pilot)) for pilot in (whole, (alike,)))
    np.testing.assert_allclose(after.residual, before.residual, atol=1e-5)
    np.testing.assert_allclose(after.noise, before.noise, atol=1e-5)


def test_settings_that_nobody_shares_are_averaged_with_their_neighbours(tmp_path: Path) -> None:
    drawn, space = random_pilot(200), Space(price=Float(0, 1))
    labels = [{"price": float(point)} for point in drawn.decisions.points[:, 0]]
    pilot = replace(drawn, decisions=Decisions(drawn.decisions.points, labels))
    found = calibrate(pilot, space, kernel="matern-5/2")
    _, problem = study_of(found, space, tmp_path / "study.toml")
    (kept,) = problem.pilot
    assert kept.answers is not None
    assert kept.answers.min() >= 5
    assert 50 < len(kept.mean) <= 100
    assert not np.isin(np.round(pilot.averages, 9), kept.mean).any()
    whole = tuple(Evidence(pilot.decisions.points[g.actions], g.counts, g.people, g.mean) for g in pilot.groups())
    alike = replace(kept, variances=None)
    before, after = (believe(replace(problem, pilot=pilot)) for pilot in (whole, (alike,)))
    assert np.abs(after.mean - before.mean).max() < 0.3 * before.deviation.mean()
    np.testing.assert_allclose(after.deviation, before.deviation, rtol=0.15)


def test_one_person_who_tried_less_is_pooled_with_all_others() -> None:
    answers = np.random.default_rng(0).normal(size=(20, 5))
    everything = Pilot.of_matrix(Decisions(np.arange(5) / 4), answers, 1)
    people, actions, averages = everything.people[:99], everything.actions[:99], everything.averages[:99]
    (kept,) = calibrate(Pilot(everything.decisions, people, actions, averages, np.ones(99)), kernel="matern-5/2").groups
    assert kept.people == 20
    assert kept.answers is not None
    assert kept.answers.tolist() == [20, 20, 20, 20, 19]


def test_options_of_a_choice_are_averaged_without_being_mixed_in_name(tmp_path: Path) -> None:
    rng, teas = np.random.default_rng(2), ("black", "green", "white")
    rows = [
        {"person": who, "tea": teas[rng.integers(3)], "price": round(float(price), 6), "reward": rng.normal()}
        for who in range(40)
        for price in rng.random(2)
    ]
    pilot = Pilot.from_table(rows)
    assert pilot.space is not None
    _, problem = study_of(calibrate(pilot, kernel="matern-5/2"), pilot.space, tmp_path / "study.toml")
    assert problem.pilot[0].numbers == 80
    assert Choice(teas) == pilot.space.parameters["tea"]


GOOD: dict[str, Any] = {
    "points": [[0.0], [1.0]],
    "rounds": [1, 1],
    "people": 30,
    "mean": [0.2, 0.4],
    "answers": [20, 25],
    "covariance": [[0.1, 0.02], [0.02, 0.1]],
}


def test_what_is_pooled_is_stored_and_read_again() -> None:
    pooled = Evidence(**GOOD)
    problem = Problem([0.0, 1.0], KERNELS["matern-3/2"](0.3), 0.5, 0.5, 1.0, 100, pilot=[pooled], shock_std=0.0)
    (read,) = decode(Problem, encode(problem)).pilot
    assert encode(read) == encode(pooled)
    assert "epsilon" not in encode(pooled)
    assert pilot_rows(problem).noise.ravel() == pytest.approx([0.1, 0.02, 0.02, 0.1])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"covariance": None}, "belong together"),
        ({"answers": [20]}, "a covariance of that many rows"),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "not positive definite"),
    ],
)
def test_what_cannot_be_pooled_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Evidence(**{**GOOD, **given})


def test_a_study_file_with_groups_of_one_still_opens(tmp_path: Path) -> None:
    drawn, space = random_pilot(12, grid=5), Space(price=Float(0, 1))
    labels = [{"price": float(point)} for point in drawn.decisions.points[:, 0]]
    found = calibrate(replace(drawn, decisions=Decisions(drawn.decisions.points, labels)), space, kernel="matern-5/2")
    old = replace(found, groups=tuple(drawn.groups()))
    _, problem = study_of(old, space, tmp_path / "study.toml")
    assert [group.people for group in problem.pilot] == [group.people for group in drawn.groups()]


def test_skewness_and_outliers_are_seen_where_nobody_shares_a_setting() -> None:
    pilot, rng = random_pilot(100), np.random.default_rng(4)
    skewed = replace(pilot, averages=rng.exponential(size=300))
    assert 1.2 < signed_skewness(skewed) < 4
    assert outlier(pilot) is None
    wild = pilot.averages.copy()
    wild[10] = 450.0
    assert (found := outlier(replace(pilot, averages=wild))) is not None
    assert found.record == 10
    said = doubts(calibrate(skewed, kernel="matern-5/2"), skewed, str, str)
    assert any("lopsided" in sentence for sentence in said)

"""What a person left out costs that answer and no other: averages of incomplete answers, and what they are worth."""

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import block_diag

from tests.helpers_cli import draw, refusal
from tests.study.test_study_private import asked
from voxpop import Float, Problem, Space, SquaredExponential, Study
from voxpop.errors import Array, InputError
from voxpop.gp.belief import own_noise, total_noise
from voxpop.journal.wave import Wave
from voxpop.model.waves import Feedback, Plan
from voxpop.privacy import NoPrivacy
from voxpop.study.answers import filled

KNOWN = Problem(Space(price=Float(1.0, 3.0)).grid(5), SquaredExponential(0.4), 0.3, 0.5, 2.0, 2000, shock_std=0.0)
PLAN = Plan(1, np.arange(5), np.full(5, 2), 60)
WAVE = Wave(PLAN, NoPrivacy().calibrate(KNOWN, Study(KNOWN).state, PLAN))
MODEL = KNOWN.answer_noise(PLAN.arms, PLAN.lived)


def average(answers: Array) -> Feedback:
    return filled(KNOWN, WAVE, answers)


def answers_of(seed: int, share: float = 0.3, covariance: Array = MODEL) -> Array:
    """Draw people with mean zero, of whose answers this share is missing."""
    rng = np.random.default_rng(seed)
    answers = draw(covariance, rng, 60)
    answers[rng.random(answers.shape) < share] = np.nan
    return answers[np.isfinite(answers).any(axis=1)]


def squares(answers: Array) -> tuple[Array, Array, Array]:
    """Return generalised least squares of all answers in one go, and its covariance; also what was seen."""
    seen = np.isfinite(answers)
    design = np.concatenate([np.eye(5)[row] for row in seen])
    inverse = np.linalg.inv(block_diag(*(MODEL[np.ix_(row, row)] for row in seen)))
    covariance = np.linalg.inv(design.T @ inverse @ design)
    return covariance @ design.T @ inverse @ answers[seen], covariance, seen


def test_the_average_is_generalised_least_squares_of_all_answers() -> None:
    answers = answers_of(0)
    mean, covariance, seen = squares(answers)
    found = average(answers)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    assert (found.count, found.freedom) == (len(answers), seen.sum(axis=0).min() - 1)
    np.testing.assert_allclose(total_noise(KNOWN, PLAN, found), covariance, rtol=0.15, atol=0.1 * covariance.min())
    whole = MODEL / seen.all(axis=1).sum()  # of those who answered about everything
    assert (np.diag(total_noise(KNOWN, PLAN, found)) < 0.5 * np.diag(whole)).all()


def test_whole_answers_are_averaged_as_ever_and_the_order_of_people_does_not_matter() -> None:
    whole, gaps = answers_of(1, share=0.0), answers_of(2)
    np.testing.assert_allclose(average(whole).mean, whole.mean(axis=0), atol=1e-9)
    assert average(whole).noise is None
    one, other = average(gaps), average(gaps[::-1])
    np.testing.assert_array_equal(one.mean, other.mean)
    assert one.scatter is not None
    np.testing.assert_array_equal(one.scatter, other.scatter)


@pytest.mark.parametrize("more", [1.0, 3.0])
def test_errors_are_as_large_as_they_are_said_to_be(more: float) -> None:
    """Also of people who vary three times as much as the model says, where their answers are seen."""
    sizes = []
    for seed in range(200):
        found = average(answers_of(seed, covariance=more**2 * MODEL))
        noise, _ = own_noise(KNOWN, PLAN, found)
        sizes.append(found.mean @ np.linalg.solve(noise, found.mean) / 5)
    assert 0.85 < np.mean(sizes) < (1.1 if more == 1 else 1.25)  # the model counts as twenty people


def study(path: Path | None = None, **said: object) -> Study:
    return Study(KNOWN, path=path, **said)  # type: ignore[arg-type]


def told(study: Study) -> list[dict[str, object]]:
    rows = asked(study).rows()
    return [
        {name: value for name, value in row.items() if name not in ("price", "reward")}
        | {"decision": {"price": row["price"]}, "average": 2 - (row["price"] - 1.8) ** 2 + 0.01 * (place % 7)}
        for place, row in enumerate(rows)
    ]


@pytest.mark.parametrize("strata", [None, {"young": 0.3, "old": 0.7}])
def test_a_wave_with_gaps_counts_everybody_and_is_kept(tmp_path: Path, strata: dict[str, float] | None) -> None:
    begun = study(tmp_path / "study.json", strata=strata)
    people, records = asked(begun).people, told(begun)
    left_out = [record for place, record in enumerate(records) if place % 11]
    lack = len({record["person"] for place, record in enumerate(records) if not place % 11})
    with pytest.raises(InputError, match=rf"{lack} of {people} people lack an answer; complete them, or hand in") as no:
        begun.tell(1, left_out)
    assert refusal(no).endswith("as --partial (partial=True) does")
    begun.tell(1, left_out, partial=True)
    assert (begun.closed[0].people, begun.state.spent) == (people, study_of(strata).state.spent)
    np.testing.assert_allclose(begun.closed[0].feedback.mean, study_of(strata).closed[0].feedback.mean, atol=0.01)
    np.testing.assert_array_equal(Study.load(tmp_path / "study.json").state.centre, begun.state.centre)


def study_of(strata: dict[str, float] | None) -> Study:
    """Return a study whose people answered about everything."""
    begun = study(strata=strata)
    begun.tell(1, told(begun))
    return begun


def test_a_decision_or_a_block_that_nobody_answered_about_is_named() -> None:
    begun = study()
    records, first = told(begun), asked(begun).decisions[0]
    with pytest.raises(InputError, match=r"nobody .* answered about price = .*; add answers about it") as caught:
        begun.tell(1, [one for one in records if one["decision"] != first], partial=True)
    refusal(caught)
    if asked(begun).in_blocks:
        gone = [{**one, "average": None} if one["block"] == 1 else one for one in records]
        with pytest.raises(InputError, match="nobody answered about block 1"):
            begun.tell(1, gone, partial=True)
    assert not begun.closed

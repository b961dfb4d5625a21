"""Studies whose people were sampled unevenly: the strata are known, so the answers are weighed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import refusal
from tests.study.test_study_private import asked
from voxpop.errors import Array, InputError
from voxpop.journal.journal import Definition
from voxpop.journal.question import Question
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Feedback
from voxpop.study.study import Study

HALVES = {"young": 0.5, "old": 0.5}
# Over six decisions the young like the first best and the old the last; halves of both, the third.
YOUNG = np.array([1.0, 0.85, 0.75, 0.3, 0.0, -0.3])
OLD = np.array([-0.4, 0.15, 0.55, 0.6, 0.7, 0.8])
POPULATION = (YOUNG + OLD) / 2


def problem() -> Problem:
    known = {"norm_bound": 3.0, "horizon": 2000, "shock_std": 0.0}
    return Problem(np.linspace(0, 1, 6), SquaredExponential(0.35), 0.1, 0.4, **known)  # type: ignore[arg-type]


def study(**named: Any) -> Study:
    return Study(problem(), most_waves=1, strata=HALVES, **named)


def arms(question: Question) -> list[int]:
    return [round(5 * decision[0]) for decision in question.decisions]


def answers(rng: np.random.Generator, question: Question, count: int, mean: Array) -> Array:
    """Draw people of a stratum, who differ among themselves as the model says."""
    at = np.array(arms(question))
    noise = problem().answer_noise(at, np.array(question.rounds))
    return rng.multivariate_normal(mean[at], noise, size=count)


def records(question: Question, parts: dict[str, Array]) -> list[dict[str, Any]]:
    return [
        {"person": f"{stratum}{person}", "stratum": stratum, "decision": decision, "average": average}
        for stratum, matrix in parts.items()
        for person, row in enumerate(matrix.tolist())
        for decision, average in zip(question.decisions, row, strict=True)
    ]


def uneven(question: Question, seed: int = 0) -> dict[str, Array]:
    """Four fifths of the people who answer are young."""
    rng, people = np.random.default_rng(seed), question.people
    young = people - people // 5
    return {"young": answers(rng, question, young, YOUNG), "old": answers(rng, question, people // 5, OLD)}


def test_uneven_people_mislead_a_plain_average_and_not_a_weighted_one() -> None:
    """In 200 waves, four of five people are young, as is half of the population: whose bounds hold, who is right."""
    question = asked(study(delta=0.02))
    assert asked(Study(problem(), most_waves=1, delta=0.02)).decisions == question.decisions
    assert int(np.argmax(POPULATION)) == 2
    held, right = list[bool](), list[bool]()
    for seed in range(200):
        parts = uneven(question, seed)
        weighted, plain = study(delta=0.02), Study(problem(), most_waves=1, delta=0.02)
        for opened, told in ((weighted, parts), (plain, np.concatenate(list(parts.values())))):
            opened.ask()
            opened.tell(1, told)
            lower, upper = opened.course.state.lower, opened.course.state.upper
            held.append(bool(np.all((lower <= POPULATION) & (upper >= POPULATION))))
            right.append(opened.best.index == 2)
    assert np.mean(held[::2]) >= 0.95
    assert np.mean(right[::2]) >= 0.9
    assert np.mean(held[1::2]) <= 0.5
    assert np.mean(right[1::2]) <= 0.1


def test_the_question_says_how_many_to_draw_from_each_stratum() -> None:
    question = asked(study())
    assert sum(question.strata.values()) == question.people
    assert abs(question.strata["young"] - question.strata["old"]) <= 1
    assert asked(Study(problem())).strata == {}


def test_every_form_gives_the_same_average() -> None:
    opened = study()
    question = asked(opened)
    parts = uneven(question)
    shuffled = records(question, parts)
    np.random.default_rng(1).shuffle(shuffled)
    averages = {name: {"mean": rows.mean(axis=0), "count": len(rows)} for name, rows in parts.items()}
    found = []
    for told in (parts, records(question, parts), shuffled, averages):
        again = study()
        again.tell(asked(again).wave, told)
        found.append(again.log[0].feedback)
    for feedback in found:
        np.testing.assert_allclose(feedback.mean, sum(rows.mean(axis=0) / 2 for rows in parts.values()))
        assert feedback.count == question.people
        assert feedback.effective == pytest.approx(1 / sum(0.25 / len(rows) for rows in parts.values()))
    np.testing.assert_array_equal(found[1].mean, found[2].mean)
    assert found[0].scatter is not None
    assert found[3].scatter is None


def test_the_noise_is_that_of_the_people_the_average_is_worth() -> None:
    """Told as one average of that many people drawn at random, it proves the same."""
    opened, same = study(), Study(problem(), most_waves=1)
    question = asked(opened)
    parts = uneven(question)
    averages = {name: {"mean": rows.mean(axis=0), "count": len(rows)} for name, rows in parts.items()}
    opened.tell(1, averages)
    effective = opened.log[0].feedback.effective
    assert 0.5 * question.people < effective < 0.7 * question.people
    plan, feedback = opened.log[0]
    drawn = replace(plan, people=round(effective)), Feedback(feedback.mean, round(effective))
    proved, _ = same.policy.advance(same.problem, same.state, *drawn)
    np.testing.assert_allclose(opened.state.upper, proved.upper, rtol=0.02)


def test_a_saved_study_remembers_its_strata_and_weights(tmp_path: Path) -> None:
    opened = study(path=tmp_path / "tea.json")
    question = asked(opened)
    assert Study.load(tmp_path / "tea.json").ask() == question
    opened.tell(1, uneven(question))
    again = Study.load(tmp_path / "tea.json")
    assert again.strata == opened.strata
    assert again.log[0].feedback.weighting == opened.log[0].feedback.weighting
    np.testing.assert_array_equal(again.state.upper, opened.state.upper)
    given = Definition(problem(), opened.policy, opened.privacy, strata=opened.strata)
    assert again.differs_from(given) is None
    assert again.differs_from(replace(given, strata=None)) == "strata"


def test_too_few_people_are_told_what_their_weights_cost() -> None:
    opened = study()
    question = asked(opened)
    few = {name: rows[: max(1, len(rows) // 4)] for name, rows in uneven(question).items()}
    worth = 1 / sum(0.25 / len(rows) for rows in few.values())
    ratio = np.sqrt(question.people / worth)
    with pytest.raises(InputError, match=f"about {ratio:.1f} times as large as planned"):
        opened.tell(1, few)
    opened.tell(1, few, partial=True)
    assert len(opened.log) == 1


def refused(told: object) -> str:
    """Tell a study something that it refuses, and see that nothing has changed."""
    opened = study()
    asked(opened)
    with pytest.raises(InputError) as caught:
        opened.tell(1, told, partial=True)
    assert opened.log == []
    assert opened.course.wave is not None
    return refusal(caught)


def test_what_does_not_say_who_is_of_which_stratum_is_refused() -> None:
    question = asked(study())
    parts = uneven(question)
    everyone = np.concatenate(list(parts.values()))
    rows = records(question, parts)
    assert "tell records with the key stratum, or one part for each: {'young': ..., 'old': ...}" in refused(everyone)
    assert "tell records with the key stratum" in refused({"mean": everyone.mean(axis=0), "count": len(everyone)})
    assert "tell records with the key stratum" in refused(Feedback(everyone.mean(axis=0), len(everyone)))
    without = [{key: value for key, value in row.items() if key != "stratum"} for row in rows]
    assert "record 1 must have the keys person, decision, average and stratum, one of young, old" in refused(without)
    assert "record 1: unknown stratum 'yung'; did you mean 'young'?" in refused([{**rows[0], "stratum": "yung"}])
    assert "is of stratum 'old' and of 'young'; give one of them" in refused([{**rows[0], "stratum": "old"}, *rows])
    assert "nobody of stratum 'old' answered" in refused({"young": parts["young"]})
    assert "nobody of stratum 'old' answered" in refused([row for row in rows if row["stratum"] == "young"])
    assert "stratum 'old': wave 1 takes a matrix" in refused({**parts, "old": [[0.1]]})
    assert "tell all strata in the same form" in refused({**parts, "old": {"mean": parts["old"][0], "count": 3}})
    assert "unknown stratum 'men'" in refused({**parts, "men": parts["old"]})


def test_a_study_without_strata_takes_none() -> None:
    opened = Study(problem())
    question = asked(opened)
    with pytest.raises(InputError, match="must have the keys person, decision and average"):
        opened.tell(1, records(question, uneven(question)))
    assert Study(problem()).strata is None


def test_strata_that_are_the_same_as_text_are_refused() -> None:
    made = Study(problem(), strata={"1": 0.5, "2": 0.5})
    question = made.ask()
    assert question is not None
    row = [0.1] * len(question.decisions)
    with pytest.raises(InputError, match="are not all different as text"):
        made.tell(question.wave, {1: [row], "1": [row], 2: [row]}, partial=True)

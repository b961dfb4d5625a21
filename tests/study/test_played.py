"""Rounds that were not played, or played with another decision: the wave is used as it was, and no average is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voxpop import Calendar, Problem, SquaredExponential, Study, make_privacy
from voxpop.errors import InputError
from voxpop.gp.belief import shown_in, total_noise
from voxpop.journal.question import Question
from voxpop.model.waves import Answered, Feedback, Plan
from voxpop.report.stakes import played
from voxpop.report.summary import summarise

TRUTH = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 0.6, 0.4, 0.3, 0.2])


def problem(**settings: Any) -> Problem:
    known = {"noise_std": 0.1, "bias_std": 0.3, "norm_bound": 1.0, "horizon": 5000, "shock_std": 0.2, **settings}
    return Problem(np.linspace(0, 1, len(TRUTH)), SquaredExponential(0.3), **known)


def in_blocks(turns: int = 4, arms: int = 3, blocks: int = 2, **parts: Any) -> Plan:
    plan = Plan(1, np.arange(arms), np.full(arms, turns * max(1, parts.get("washout", 0))), 40, blocks=blocks, **parts)
    return plan.shuffled(np.random.default_rng(0))


def told(question: Question, happened: dict[int, float]) -> list[dict[str, Any]]:
    """Let people average the rounds of their block: the truth, and what happened to everybody in each round."""
    cells: dict[tuple[Any, Any], list[float]] = {}
    for row in question.schedule():
        if row["block"] is not None:
            reward = float(TRUTH[round(8 * row["decision"][0])]) + happened.get(row["round"], 0.0)
            cells.setdefault((row["block"], str(row["decision"])), []).append(reward)
    return [
        {
            "person": f"p{person}",
            "block": block,
            "decision": decision,
            "average": float(np.mean(cells[block, str(decision)])),
        }
        for person, block in enumerate(question.assigned[""])
        for decision in question.decisions
    ]


def begun(**settings: Any) -> tuple[Study, Question]:
    study = Study(problem(**settings))
    question = study.ask()
    assert question is not None
    assert question.blocks > 1
    return study, question


def test_what_happened_in_a_round_that_was_not_played_does_not_count() -> None:
    study, question = begun()
    lost = question.schedule()[1]["round"]
    now = study.played({lost: None})
    assert now.over
    assert now.schedule()[1]["decision"] is None
    study.tell(1, told(now, {lost: 1000.0}))
    assert study.closed[0].feedback.mean == pytest.approx(TRUTH[study.closed[0].plan.arms])


def test_a_round_of_another_decision_counts_for_that_decision() -> None:
    plan = in_blocks(turns=4)
    actions = plan.sequence.copy()
    first = int(np.flatnonzero(actions == 0)[0])
    actions[first] = 2
    late = plan.as_played(actions)
    assert late.counts is not None
    assert late.counts.tolist() == [[1, 2, 3], [2, 2, 2]]
    assert late.counting[first] == 1


def test_unequal_rounds_count_with_their_harmonic_mean_and_show_no_shocks() -> None:
    plan = in_blocks(turns=8)
    actions = plan.sequence.copy()
    actions[np.flatnonzero(actions[:12] == 1)[:3]] = -1
    late = plan.as_played(actions)
    assert late.pulls.tolist() == [8, 3, 8], "2 blocks of 1 and 4 rounds: 2 * 1.6, rounded down"
    means = np.random.default_rng(0).normal(size=(2, 3))
    feedback = Feedback(means.mean(axis=0), 40, by_block=means)
    assert total_noise(problem(), late, feedback)[1, 1] > total_noise(problem(), plan, feedback)[1, 1]
    known = problem().shocks
    assert shown_in(problem(), [Answered(plan, feedback)]).shocks != known
    assert shown_in(problem(), [Answered(late, feedback)]).shocks == known


def test_the_noise_that_is_counted_with_is_at_least_that_of_the_rounds() -> None:
    """The average over blocks of an arm's averages over its rounds, with white shocks of variance 1."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        plan = in_blocks(turns=8, arms=4, blocks=4)
        actions = plan.sequence.copy()
        actions[rng.random(len(actions)) < 0.2] = -1
        late = plan.as_played(actions)
        counts = np.array(
            [[((actions == arm) & (late.counting == block)).sum() for arm in late.arms] for block in late.numbered]
        )
        assert (counts > 0).all()
        assert (1 / late.pulls >= (1 / counts).sum(axis=0) / len(counts) ** 2 - 1e-12).all()


def test_blocks_and_decisions_that_cannot_be_compared_are_left_out_with_their_people() -> None:
    study, question = begun()
    plan = study.course.pending
    assert plan is not None
    (block,) = {row["block"] for row in question.schedule()[:1]}
    lost = {row["round"]: None for row in question.schedule() if row["block"] == block}
    now = study.played(lost)
    assert block not in now.numbered
    assert len(now.decisions) == len(question.decisions)
    assert now.people < question.people
    records = told(now, {})
    for record in (dict(records[0], block=block), dict(records[0], person="new", block=block)):
        with pytest.raises(
            InputError, match=f"unknown block '{block}'; known: .*; leave out answers about other blocks"
        ):
            study.tell(1, [*records[1:], record])
    study.tell(1, records)
    assert study.closed[0].people == now.people
    assert any(line.name == "Played otherwise" for line in summarise(study.course))


def test_a_table_with_people_of_a_lost_block_is_refused_also_if_one_block_is_left() -> None:
    study, question = begun()
    lost = {row["round"]: None for row in question.schedule() if row["block"] != 1}
    now = study.played(lost)
    assert (now.blocks, now.numbered) == (1, (1,))
    table = question.table()
    table["reward"] = 0.5
    with pytest.raises(InputError, match="unknown block '2'; known: 1; leave out answers about other blocks"):
        study.tell(1, table)
    study.tell(1, table[table["block"] == 1])
    assert study.closed[0].people == now.people


def test_a_decision_that_was_never_played_is_left_out_and_its_answers_are_refused() -> None:
    study, question = begun()
    gone = question.decisions[0]
    now = study.played({row["round"]: None for row in question.schedule() if row["decision"] == gone})
    assert gone not in now.decisions
    assert now.blocks == question.blocks
    with pytest.raises(InputError, match="did not ask as it was played; leave its answers out"):
        study.tell(1, [*told(now, {}), {"person": "p0", "block": 1, "decision": gone, "average": 0.1}])


def test_a_decision_that_was_played_throughout_instead_is_asked_about() -> None:
    study, question = begun()
    spare = next(index for index in range(9) if study.problem.decisions[index] not in question.decisions)
    gone, new = question.decisions[0], study.problem.decisions[spare]
    now = study.played({row["round"]: new for row in question.schedule() if row["decision"] == gone})
    assert new in now.decisions
    assert gone not in now.decisions
    study.tell(1, told(now, {}))
    assert study.closed[0].feedback.mean == pytest.approx(TRUTH[study.closed[0].plan.arms])


def test_what_was_said_is_kept_and_can_be_corrected(tmp_path: Path) -> None:
    study = Study(problem(), path=tmp_path / "study.json")
    question = study.ask()
    assert question is not None
    lost = question.schedule()[0]["round"]
    now = study.played({lost: None})
    again = Study.load(tmp_path / "study.json")
    assert again.ask() == now
    assert again.played({lost: None}) == now, "nothing new is written"
    assert len(Study.load(tmp_path / "study.json").course.plans) == 0
    assert again.played({}) == question
    again.played({lost: None})
    again.tell(1, told(now, {lost: 9.0}))
    again.take_back()
    assert again.ask() == now
    assert again.played({}) == question


def test_a_private_wave_is_released_for_the_decisions_that_were_played() -> None:
    study = Study(problem(), privacy=make_privacy("central", 5.0))
    question = study.ask()
    assert question is not None
    gone = question.decisions[0]
    now = study.played({row["round"]: None for row in question.schedule() if row["decision"] == gone})
    assert now.people == question.people
    wave = study.course.wave
    assert wave is not None
    assert wave.release.arms == len(now.decisions) == len(question.decisions) - 1
    study.tell(1, np.tile(TRUTH[wave.plan.arms], (now.people, 1)))
    assert len(study.closed[0].feedback.mean) == len(now.decisions)


@pytest.mark.parametrize(
    ("otherwise", "said"),
    [
        (lambda rows: {0: None}, "a round of the wave must be a whole number, at least 1"),
        (lambda rows: {len(rows) + 1: None}, "a round of the wave must be"),
        (lambda rows: {1: [0.33]}, r"round 1: \[0.33\] is not in the decision set"),
        (lambda rows: {row["round"]: None for row in rows}, "no two decisions of wave 1 were played in the same block"),
        (lambda rows: {row["round"]: [0.5] for row in rows}, "no two decisions of wave 1 were played"),
    ],
)
def test_what_cannot_be_is_refused(otherwise: Callable[[list[Any]], dict[int, Any]], said: str) -> None:
    study, question = begun()
    with pytest.raises(InputError, match=said):
        study.played(otherwise(question.schedule()))
    assert study.ask() == question
    with pytest.raises(InputError, match="no wave is open"):
        Study(problem()).played({})


def test_the_decision_in_force_at_a_date_is_the_one_that_was() -> None:
    study = Study(problem(), calendar=Calendar("day", "2026-03-02", "Europe/Berlin"))
    question = study.ask()
    assert question is not None
    other = study.problem.decisions[4]
    study.played({1: None, 2: other})
    assert study.decision_at("2026-03-02") is None
    assert study.decision_at("2026-03-03") == other
    assert study.decision_at("2026-03-04") == question.schedule()[2]["decision"]


def test_rounds_take_as_long_as_planned_and_what_they_lost_is_what_was_in_force() -> None:
    plan = replace(in_blocks(), reference=3, rest=2)
    actions = plan.sequence.copy()
    actions[:2] = -1, 8
    late = plan.as_played(actions)
    assert late.length == plan.length
    arms, pulls = played([late], 4, 100)
    assert (arms[:2].tolist(), pulls.sum()) == ([3, 8], 100)

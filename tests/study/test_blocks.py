"""Waves in blocks: the order of play is random and kept, and everybody is asked about the rounds of one block."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import refusal
from tests.helpers_randomness import assert_from_the_operating_system
from tests.study.test_study_private import asked
from tests.study.test_tables import problem
from voxpop.errors import Array, InputError
from voxpop.journal.question import Question
from voxpop.journal.tables import answer_rows, wave_rows
from voxpop.model.decisions import Float, Space
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.strata import Strata
from voxpop.model.waves import MOST_SHUFFLED, Feedback, Plan
from voxpop.policies.waves import planning
from voxpop.privacy import make_privacy
from voxpop.report.summary import summarise
from voxpop.report.tables import wave_table
from voxpop.study import answers
from voxpop.study.study import BaseStudy, Study

pd = pytest.importorskip("pandas")
SHARES = {"young": 0.7, "old": 0.3}


@pytest.fixture(autouse=True)
def two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waves of four arms show enough of shocks in two blocks."""
    monkeypatch.setattr(planning, "RESIDUALS", 3)


def rows_of(question: Question, seed: int = 0) -> Array:
    """Return one row of answers a person: those about block 2 are higher by 0.5 for the first decision."""
    blocks = np.array([block for part in question.assigned.values() for block in part])
    matrix = np.random.default_rng(seed).integers(0, 9, (question.people, len(question.decisions))) / 8
    matrix[:, 0] += 0.5 * (blocks == 2)
    return matrix


def long(question: Question, matrix: Array) -> Any:
    table = question.table()
    table[question.measure] = matrix.ravel()
    return table


def wide(question: Question, matrix: Array) -> Any:
    table = question.table(wide=True)
    table[list(question.labels)] = matrix
    return table


def records(question: Question, matrix: Array) -> list[dict[str, Any]]:
    table = long(question, matrix).rename(columns={question.measure: "average"})
    table["decision"] = [{"price": price} for price in table.pop("price")]
    said: list[dict[str, Any]] = table.to_dict("records")
    return said


FORMS: dict[str, Callable[[Question, Array], Any]] = {
    "matrix": lambda question, matrix: matrix,
    "records": records,
    "records in another order": lambda question, matrix: records(question, matrix)[::-1],
    "long": long,
    "long, blocks are floats": lambda question, matrix: long(question, matrix).astype({"block": float}),
    "long, without blocks": lambda question, matrix: long(question, matrix).drop(columns="block"),
    "wide": wide,
    "wide in another order": lambda question, matrix: wide(question, matrix).iloc[::-1],
    "wide, without names": lambda question, matrix: wide(question, matrix).iloc[::-1].drop(columns="person"),
    "wide, without blocks": lambda question, matrix: wide(question, matrix).drop(columns="block"),
    "columns": lambda question, matrix: wide(question, matrix).drop(columns="person").to_dict("list"),
    "by person": lambda question, matrix: {
        f"p{person}": dict(zip(question.labels, row, strict=True)) for person, row in enumerate(matrix.tolist())
    },
}


def test_a_wave_is_played_in_random_orders_of_the_operating_system_which_are_kept(tmp_path: Path) -> None:
    assert_from_the_operating_system(lambda: asked(Study(problem())).order, bits=128)
    study = Study(problem(), path=tmp_path / "study.json")
    question = asked(study)
    assert question.blocks == 2
    assert asked(study) == asked(Study.load(tmp_path / "study.json")) == question
    plan = study.course.pending
    assert plan is not None
    assert [row["decision"] for row in question.schedule()] == [study.problem.decisions[arm] for arm in plan.sequence]
    arms, places = len(question.decisions), np.array(question.order)
    assert (np.sort(places.reshape(-1, arms), axis=1) == np.arange(arms)).all()  # every arm once, then again
    assert question.rounds == (len(places) // arms,) * arms


def test_a_question_says_when_to_play_what_and_whom_to_ask_about_it() -> None:
    decisions = ({"price": 4.5}, {"price": 5.0})
    question = Question(3, decisions, (2, 2), people=5, blocks=2, order=(1, 0, 0, 1))
    assert str(question) == (
        "wave 3: play price = 4.5 for 2 rounds and price = 5 for 2 rounds, in the order of its schedule and in 2 "
        "blocks, then ask 5 people, 2 about block 1 and 3 about block 2"
    )
    assert question.plays == (
        ("play", "rounds", "block 1", "block 2"),
        [("price = 4.5", "2", "2", "3"), ("price = 5", "2", "1", "4")],
    )
    third = question.schedule()[2]
    assert (third["round"], third["block"], third["decision"]) == (3, 2, {"price": 4.5})
    shown = question._repr_html_()
    assert "then ask 5 people, 2 about block 1 and 3 about block 2, for their average reward of each" in shown
    assert "<th>price = 5</th><td>2</td><td>1</td><td>4</td>" in shown
    assert question.table()["block"].tolist() == [1, 1, 1, 1, 2, 2, 2, 2, 2, 2]
    assert question.table(wide=True)["block"].tolist() == [1, 1, 2, 2, 2]
    whole = Question(3, decisions, (2, 2), people=5, order=(1, 0, 0, 1))
    assert whole.plays[0] == ("play", "rounds", "in rounds")
    assert whole.plays[1][1] == ("price = 5", "2", "1, 4")
    fourth = whole.schedule()[3]
    assert (fourth["round"], fourth["block"], fourth["decision"]) == (4, 1, {"price": 5.0})
    assert "block" not in whole.table()
    unordered = Question(3, decisions, (2, 1), people=5).schedule()
    assert [row["decision"] for row in unordered] == [decisions[0], decisions[0], decisions[1]]


@pytest.mark.parametrize("people", [1, 2, 5, 12, 13])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_people_are_spread_over_blocks_as_the_simulator_does(people: int, blocks: int) -> None:
    question = Question(1, ({"price": 4.5},), (6,), people, blocks=blocks)
    counts = [question.assigned[""].count(block + 1) for block in range(blocks)]
    assert counts == [(people + block) // blocks for block in range(blocks)]
    strata = Strata(SHARES | {"young": 0.69, "very old": 0.01}).allocate(people, blocks)
    drawn = Question(1, ({"price": 4.5},), (6,), sum(strata.values()), blocks=blocks, strata=strata).assigned
    assert {name: len(part) for name, part in drawn.items()} == strata
    everyone = [block for part in drawn.values() for block in part]
    counts = [everyone.count(block + 1) for block in range(blocks)]
    assert counts == [(len(everyone) + block) // blocks for block in range(blocks)]
    for part in drawn.values():  # whoever stands for a stratum does so in every block
        spread = [part.count(block + 1) for block in range(blocks)]
        assert min(spread) >= 1
        assert max(spread) - min(spread) <= 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_every_form_gives_the_averages_of_each_block(form: str, direction: str) -> None:
    study = Study(problem(), direction=direction)
    question = asked(study)
    matrix = rows_of(question)
    study.tell(1, FORMS[form](question, matrix))
    sign = 1 if direction == "maximize" else -1
    feedback = study.log[0].feedback
    blocks = np.array(question.assigned[""])
    expected = sign * np.stack([matrix[blocks == block].mean(axis=0) for block in (1, 2)])
    assert feedback.by_block is not None
    np.testing.assert_allclose(feedback.by_block, expected, rtol=1e-9)
    np.testing.assert_allclose(feedback.mean, expected.mean(axis=0), rtol=1e-9)
    assert feedback.count == question.people
    assert [row["rounds"] for row in answer_rows(study.course)] == [rounds // 2 for rounds in question.rounds]


def test_blocks_count_the_same_however_many_people_answer_about_each() -> None:
    study = Study(problem())
    question = asked(study)
    matrix = rows_of(question)
    blocks = np.array(question.assigned[""])
    kept = (blocks == 1) | (np.arange(len(blocks)) % 4 == 0)
    told = wide(question, matrix)[kept]
    with pytest.raises(InputError, match=r"close the wave with these: --partial") as caught:
        study.tell(1, told)
    refusal(caught)
    study.tell(1, told, partial=True)
    feedback = study.log[0].feedback
    few, many = int((kept & (blocks == 2)).sum()), int((blocks == 1).sum())
    expected = [matrix[kept & (blocks == block)].mean(axis=0) for block in (1, 2)]
    np.testing.assert_allclose(feedback.mean, np.mean(expected, axis=0), rtol=1e-9)
    assert feedback.effective == pytest.approx(4 / (1 / few + 1 / many))
    plan = study.log[0].plan
    read = answers.read(study.problem, plan, told, private=False)
    assert isinstance(read, answers.Answers)
    assert read.effective == pytest.approx(feedback.effective)


def other(question: Question, **changes: Any) -> list[dict[str, Any]]:
    """Return all records, the first of which says something else."""
    first, *rest = records(question, rows_of(question))
    return [first | changes, *rest]


REFUSED: dict[str, tuple[Callable[[Question], Any], str]] = {
    "fewer rows": (
        lambda question: rows_of(question)[1:],
        r"nothing says which of them each of these \d+ was asked about; add the column block",
    ),
    "more people": (lambda question: np.tile(rows_of(question), (2, 1)), "add the column block"),
    "records without blocks": (
        lambda question: [{k: v for k, v in record.items() if k != "block"} for record in other(question)],
        "record 1 must have the keys person, decision, average and block, one of 1, 2",
    ),
    "an unknown block": (lambda question: other(question, block=3), "record 1: unknown block '3'; known: 1, 2"),
    "no block": (lambda question: other(question, block=None), "record 1: unknown block 'None'"),
    "an unknown block without names": (
        lambda question: wide(question, rows_of(question)).drop(columns="person").replace({"block": {1: 7}}),
        "unknown block '7'; known: 1, 2",
    ),
    "two blocks": (lambda question: other(question, block=2), "is of block '2' and of '1'; give one of them"),
    "one block": (
        lambda question: wide(question, rows_of(question))[lambda table: table["block"] == 2],
        "nobody answered about block 1 of wave 1; add answers about it",
    ),
    "averages of other blocks": (
        lambda question: Feedback(rows_of(question)[0], 40, by_block=rows_of(question)[:3]),
        "wave 1 has 2 blocks of",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_say_who_is_of_which_block_is_refused(case: str) -> None:
    make, said = REFUSED[case]
    study = Study(problem())
    told = make(asked(study))
    with pytest.raises(InputError, match=said) as caught:
        study.tell(1, told, partial=True)
    refusal(caught)
    assert not study.log
    assert len(study.ledger.entries) == 0


def test_an_average_of_everybody_is_taken_without_blocks() -> None:
    study = Study(problem())
    question = asked(study)
    study.tell(1, {"mean": rows_of(question)[0], "count": question.people})
    assert study.log[0].feedback.by_block is None


@pytest.mark.parametrize("form", ["parts", "records", "long", "wide", "wide, without names"])
def test_strata_are_averaged_within_blocks(form: str) -> None:
    study = Study(problem(), strata=SHARES)
    question = asked(study)
    matrix = rows_of(question)
    strata = np.repeat(list(question.strata), list(question.strata.values()))
    blocks = np.array([block for part in question.assigned.values() for block in part])
    parts = {name: matrix[strata == name] for name in SHARES}
    study.tell(1, parts if form == "parts" else FORMS[form](question, matrix))
    feedback = study.log[0].feedback
    expected = [
        sum(share * matrix[(strata == name) & (blocks == block)].mean(axis=0) for name, share in SHARES.items())
        for block in (1, 2)
    ]
    assert feedback.by_block is not None
    np.testing.assert_allclose(feedback.by_block, expected, rtol=1e-9)
    np.testing.assert_allclose(feedback.mean, np.mean(expected, axis=0), rtol=1e-9)


def test_a_stratum_that_is_missing_in_a_block_is_refused() -> None:
    study = Study(problem(), strata=SHARES)
    question = asked(study)
    told = wide(question, rows_of(question))
    told = told[(told["block"] == 1) | (told["stratum"] == "young")]
    with pytest.raises(InputError, match="block 2: nobody of stratum 'old' answered") as caught:
        study.tell(1, told, partial=True)
    refusal(caught)
    fewer = {name: rows_of(question)[:4] for name in SHARES}
    with pytest.raises(InputError, match=r"stratum 'young': wave 1 asked \d+ people about 2 blocks") as caught:
        study.tell(1, fewer, partial=True)
    refusal(caught)


def test_who_hides_among_others_is_asked_about_all_rounds() -> None:
    study = Study(problem(), privacy=make_privacy("central", 3.0, 1e-6))
    question = asked(study)
    assert question.blocks == 1
    assert sorted(question.order) == sorted(list(range(len(question.decisions))) * question.rounds[0])
    table = question.table()
    table["reward"], table["block"] = 0.5, "the one behind the station"  # which does not matter here
    study.tell(1, table)
    assert study.log[0].feedback.by_block is None


def test_a_parameter_may_be_called_block() -> None:
    known: dict[str, Any] = {"norm_bound": 1.5, "horizon": 4000, "pilot": problem().pilot}
    study = Study(Problem(Space(block=Float(1, 9)).grid(9), SquaredExponential(0.3), 0.1, 0.2, **known))
    question = asked(study)
    assert (question.blocks, len(question.order)) == (1, sum(question.rounds))
    table = question.table()
    table["reward"] = 1 - (table["block"] - 5) ** 2 / 10
    study.tell(1, table)
    expected = [1 - (decision["block"] - 5) ** 2 / 10 for decision in question.decisions]
    np.testing.assert_allclose(study.log[0].feedback.mean, expected, rtol=1e-9)


def test_where_only_tallies_are_seen_everybody_is_asked_about_all_rounds() -> None:
    devices = BaseStudy._begun_as(Study(problem()).definition, None)
    wave = devices._next_wave()
    assert wave is not None
    assert (wave.plan.blocks, wave.plan.orders is None) == (1, False)
    assert devices._next_wave() is wave


def test_very_many_rounds_are_played_one_arm_after_the_other() -> None:
    rng = np.random.default_rng(0)
    most = MOST_SHUFFLED // 2
    plan = Plan(1, np.array([3, 5]), np.array([most, most]), 100, blocks=2)
    assert plan.shuffled(rng).blocks == 2
    longer = Plan(1, np.array([3, 5]), np.array([10**12, 10**12]), 100, blocks=2).shuffled(rng)
    assert (longer.blocks, longer.orders) == (1, None)


def test_tables_and_reports_say_that_a_wave_is_in_blocks() -> None:
    study = Study(problem())
    question = asked(study)
    waiting = next(line.value for line in summarise(study.course) if line.name == "Open")
    assert waiting.endswith(f"decisions, played for {question.rounds[0]} rounds each, in 2 blocks")
    study.tell(1, rows_of(question))
    assert [row["blocks"] for row in wave_rows(study.course)][:2] == [None, 2]
    assert wave_table(study.course).rows[1][1].endswith(f"{sum(question.rounds)} in 2 blocks")
    assert wave_table(study.course).rows[0][1] == "pilot"

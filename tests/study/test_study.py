"""Ask/tell: the same waves for every driver, and nothing is lost when the program dies."""

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import unordered
from tests.helpers_cli import ENVIRONMENT, ROOT, refusal
from voxpop.errors import Array, InputError
from voxpop.journal.question import Question
from voxpop.model.decisions import Choice, Float, Space
from voxpop.model.kernels import Matern, SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Feedback, Plan
from voxpop.policies import make_policy
from voxpop.simulation.people import GPPeople
from voxpop.simulation.simulator import simulate_waves
from voxpop.study.study import Study

SPACE = Space(price=Float(1, 3), tea=Choice(("black", "green")))


def small_problem(horizon: int = 300) -> Problem:
    return Problem(SPACE.grid(8), Matern(0.4, nu=1.5), 0.2, 0.1, norm_bound=2.0, horizon=horizon, prior_mean=0.3)


def answers(question: Question, people: int | None = None) -> Array:
    """Return people's answers; they depend on the question alone, so that every driver gets the same."""
    rng = np.random.default_rng(question.wave)
    rewards = [1 - (d["price"] - 2.2) ** 2 + 0.2 * (d["tea"] == "green") for d in question.decisions]
    return np.array(rewards) + rng.normal(0, 0.15, size=(people or question.people, len(rewards)))


def records(question: Question, matrix: Array) -> list[dict[str, Any]]:
    return [
        {"person": f"u{person}", "decision": dict(decision), "average": float(average)}
        for person, row in enumerate(matrix)
        for decision, average in zip(question.decisions, row, strict=True)
    ]


def ask(study: Study) -> Question:
    question = study.ask()
    assert question is not None
    return question


def advanced(waves: int, path: Path | None = None) -> Study:
    study = Study(small_problem(), "dpbe", path, alpha=0.6)
    for _ in range(waves):
        study.tell(ask(study).wave, answers(ask(study)))
    return study


def conducted(study: Study) -> list[Question]:
    """The study played to its end."""
    questions = []
    while (question := study.ask()) is not None:
        questions.append(question)
        study.tell(question.wave, answers(question))
    return questions


def assert_same(a: Study, b: Study) -> None:
    assert (a.state.wave, a.state.rounds, a.state.norm_bound) == (b.state.wave, b.state.rounds, b.state.norm_bound)
    for name in ("active", "lower", "upper", "centre", "lead", "lead_width"):
        np.testing.assert_array_equal(getattr(a.state, name), getattr(b.state, name))
    assert a.best == b.best
    assert unordered(a.ask()) == unordered(b.ask())


def test_asking_again_gives_the_same_question() -> None:
    study = advanced(3)
    assert study.ask() == study.ask()
    assert unordered(study.ask()) == unordered(advanced(3).ask())
    assert len(study.log) == 3


def test_the_questions_are_in_the_caller_s_words() -> None:
    question = ask(advanced(4))
    assert question.wave == 5
    assert question.people == 8  # 2^(0.6 * 5)
    assert sum(question.rounds) + question.rest == 16  # 2^4
    assert len(question.rounds) == len(question.decisions) == len({str(d) for d in question.decisions})
    assert all(set(decision) == {"price", "tea"} for decision in question.decisions)


def test_three_forms_of_feedback_give_the_same_state() -> None:
    studies = [advanced(4) for _ in range(4)]
    question = ask(studies[0])
    assert len(question.decisions) > 1
    # Averages of eighths are exact in floating point, so the aggregate is too.
    matrix = np.round(answers(question) * 8) / 8
    aggregate = {"mean": matrix.mean(axis=0), "count": len(matrix)}
    forms = [matrix, records(question, matrix), aggregate, Feedback(**aggregate)]
    for study, form in zip(studies, forms, strict=True):
        study.ask()
        study.tell(5, form)
        assert_same(study, studies[0])


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_the_order_of_the_answers_does_not_matter(shuffle: Any) -> None:
    first, second = advanced(3), advanced(3)
    question = ask(first)
    said = records(question, answers(question, 30) / 7)
    second.ask()
    first.tell(4, said)
    shuffle.shuffle(said)
    second.tell(4, said)
    np.testing.assert_array_equal(first.state.lower, second.state.lower)
    assert unordered(first.ask()) == unordered(second.ask())


def test_a_decision_may_be_named_by_its_index() -> None:
    first, second = advanced(3), advanced(3)
    question = ask(first)
    matrix = answers(question)
    named = records(question, matrix)
    numbered = [{**r, "decision": list(first.problem.decisions).index(r["decision"])} for r in named]
    second.ask()
    first.tell(4, named)
    second.tell(4, numbered)
    assert_same(first, second)


@pytest.mark.parametrize("policy", ["dpbe", "dpbe-paper"])
def test_ask_and_tell_play_the_same_waves_as_the_simulator(policy: str) -> None:
    points = np.random.default_rng(0).uniform(size=(30, 2))
    problem = Problem(points, SquaredExponential(0.3), 0.05, 0.1, norm_bound=2.0, horizon=3000)
    people = GPPeople(problem, np.sin(4 * points[:, 0]) * points[:, 1])
    steps = list(simulate_waves(problem, make_policy(policy), people, seed=4))
    study = Study(problem, policy)
    for (step,), state in steps:
        question = ask(study)
        assert question.decisions == tuple(points[step.plan.arms].tolist())
        assert (question.rounds, question.people) == (tuple(step.plan.pulls), step.plan.people)
        study.tell(question.wave, {"mean": step.feedback.mean, "count": step.feedback.count})
        np.testing.assert_array_equal(study.state.upper, state.upper)
    assert study.ask() is None
    assert study.best.index == steps[-1][1].best


def test_a_finished_study_has_an_answer_and_no_question() -> None:
    study = Study(small_problem(), "dpbe", alpha=0.6)
    started = study.ended
    conducted(study)
    assert study.ask() is None
    assert started is None
    assert study.ended == ("nothing else can be best" if study.best.certain else "every round of the horizon is played")
    assert sum(plan.length for plan, _ in study.log) == study.state.rounds
    assert study.state.rounds == 300 or study.best.certain
    best = study.best
    assert best.decision == study.problem.decisions[best.index]
    assert best.low is not None
    assert best.high is not None
    assert best.low <= best.high
    assert best.regret is not None
    assert best.regret >= 0
    before = study.state
    with pytest.raises(InputError, match="takes no feedback for wave 99; see what is best") as no:
        study.tell(99, [[0.0]])
    assert study.ended is not None
    assert f"the study is over ({study.ended})" in refusal(no)
    assert study.state is before


def test_a_study_without_an_open_question_asks_to_be_asked() -> None:
    with pytest.raises(InputError, match="no question is open that feedback for wave 1 could answer; ask first"):
        Study(small_problem()).tell(1, [[0.0]])


@pytest.mark.parametrize("waves", [0, 1, 5])
@pytest.mark.parametrize("asked", [True, False])
def test_a_loaded_study_is_the_saved_one(tmp_path: Path, waves: int, asked: bool) -> None:
    study = advanced(waves)
    if asked:
        study.ask()
    study.save(tmp_path / "study.json")
    assert_same(Study.load(tmp_path / "study.json"), study)
    again = Study.load(tmp_path / "study.json")
    if asked:
        assert again.ask() == study.ask()  # with the order of play
    assert list(map(unordered, conducted(again))) == list(map(unordered, conducted(study)))


def test_a_study_with_a_path_is_saved_after_every_change(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    study = Study(small_problem(), "dpbe", path, alpha=0.6)
    for wave in range(1, 4):
        assert len(Study.load(path).log) == wave - 1
        question = ask(study)
        assert Study.load(path).ask() == question
        study.tell(wave, answers(question))
    study.ask()
    assert_same(Study.load(path), study)
    assert [entry.name for entry in tmp_path.iterdir()] == ["study.json"]  # nothing half-written is left


def test_a_loaded_study_goes_on_saving_to_its_file(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    advanced(2, path)
    study = Study.load(path)
    study.tell(ask(study).wave, answers(ask(study)))
    assert len(Study.load(path).log) == 3


def test_a_new_study_does_not_overwrite_a_saved_one(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    advanced(2, path)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"exists already; open it with Study\.load"):
        Study(small_problem(), path=path)
    assert path.read_bytes() == before


VICTIM = """
    import sys
    from pathlib import Path
    from tests.study.test_study import answers, small_problem
    from voxpop.study.study import Study

    path = Path(sys.argv[1])
    study = Study.load(path) if path.exists() else Study(small_problem(), "dpbe", path, alpha=0.6)
    while (question := study.ask()) is not None:
        print(repr(question), flush=True)
        sys.stdin.readline()  # killed here in some waves
        study.tell(question.wave, answers(question))
    print("done", study.best.index, flush=True)
"""


def test_a_killed_program_resumes_with_the_same_plans(tmp_path: Path) -> None:
    whole = Study(small_problem(), "dpbe", alpha=0.6)
    expected = [repr(unordered(question)) for question in conducted(whole)]
    seen: list[str] = []
    for kill_after in (1, 3, len(expected)):  # waves that each life of the program completes, then SIGKILL
        command = [sys.executable, "-c", textwrap.dedent(VICTIM), str(tmp_path / "study.json")]
        environment = {**ENVIRONMENT, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as victim:
            assert victim.stdin is not None
            assert victim.stdout is not None
            for _ in range(kill_after):
                if (line := victim.stdout.readline()).startswith("done"):
                    break
                seen.append(line.strip())
                victim.stdin.write("\n")
                victim.stdin.flush()
            else:
                seen.append(victim.stdout.readline().strip())  # this question stays unanswered
                os.kill(victim.pid, signal.SIGKILL)
                assert victim.wait() == -signal.SIGKILL
                continue
            assert line.strip() == f"done {whole.best.index}"
    # The question that was open at each kill is asked again, word for word, and only that one.
    once = [q for i, q in enumerate(seen) if i == 0 or q != seen[i - 1]]
    assert [re.sub(r"order=\(.*?\)", "order=()", question) for question in once] == expected
    assert len(seen) == len(expected) + 2


GOOD = [[0.5], [0.25]]
REFUSED: dict[str, tuple[int, Any, str]] = {
    "an earlier wave": (2, GOOD, "feedback for wave 2 does not answer the open question of wave 3"),
    "a later wave": (4, GOOD, "feedback for wave 4"),
    "wave zero": (0, GOOD, "feedback for wave 0"),
    "too many columns": (3, [[0.1] * 9], r"shape \(people, \d\), got \(1, 9\)"),
    "a vector": (3, [0.1, 0.2], "shape"),
    "nobody": (3, np.empty((0, 3)), "shape|empty"),
    "an empty list": (3, [], "shape|empty|people"),
    "ragged": (3, [[0.1, 0.2], [0.1]], "one shape"),
    "words": (3, "good", "must be a number"),
    "nothing": (3, None, "None|numbers|feedback"),
    "infinite": (3, {"mean": [np.inf], "count": 3}, "finite, got inf"),
    "no count": (3, {"mean": [0.1]}, "mean and count"),
    "count zero": (3, {"mean": [0.1], "count": 0}, "count must be a whole number, at least 1, got 0"),
    "count a half": (3, {"mean": [0.1], "count": 2.5}, "count must be a whole number, at least 1, got 2.5"),
    "short mean": (3, {"mean": [], "count": 2}, r"asks for \d averages"),
    "record without a person": (3, [{"decision": 0, "average": 1.0}], "record 1 must have the keys"),
    "another decision": (3, [{"person": 1, "decision": {"price": 9.0}, "average": 1.0}], "not in the decision set"),
    "a list for a price": (3, [{"person": 1, "decision": {"price": [1.0]}, "average": 1.0}], "not in the decision set"),
    "a number among records": (3, [{"person": 1, "decision": 0, "average": 1.0}, 0.3], "record 2"),
    "a word for an average": (3, [{"person": 1, "decision": 0, "average": "good"}], "good|average|numbers"),
    "index outside": (3, [{"person": 1, "decision": 99, "average": 1.0}], "at most 15, got 99"),
}


@pytest.fixture
def third() -> tuple[Study, Plan]:
    study = advanced(2)
    study.ask()
    assert study.course.pending is not None
    return study, study.course.pending


@pytest.mark.parametrize("case", REFUSED)
def test_feedback_that_does_not_fit_is_refused_and_changes_nothing(third: tuple[Study, Plan], case: str) -> None:
    study, _ = third
    wave, feedback, said = REFUSED[case]
    with pytest.raises(InputError, match=said) as caught:
        study.tell(wave, feedback)
    refusal(caught)
    assert_same(study, advanced(2))
    study.tell(3, answers(ask(study)))
    assert_same(study, advanced(3))

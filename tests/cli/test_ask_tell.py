"""`voxpop ask`, `voxpop tell` and `voxpop undo` with files that are locked, restored, incomplete or strange."""

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import STUDY, Outcome, main_of, pilot_csv, study_file
from voxpop.io.files import locked
from voxpop.study.study import Study

Main = Callable[..., Outcome]
PRIVATE = STUDY + '\n[privacy]\nmodel = "central"\nepsilon = 5.0\n'


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    study_file(tmp_path / "tea.toml")
    study_file(tmp_path / "private.toml", PRIVATE)
    return main_of(monkeypatch)


def asked(main: Main, study: str) -> dict[str, Any]:
    question = json.loads(main("ask", study, "--json").out)
    assert isinstance(question, dict)
    return question


def answers(question: dict[str, Any], people: int | None = None, prefix: str = "u", first: str = "0.5") -> str:
    """Write answers; return the name of their file."""
    rewards = [first] + ["0.5"] * (question["people"] - 1)
    rows = [
        f"{prefix}{person},{decision['price']},{rewards[person]}"
        for person in range(question["people"] if people is None else people)
        for decision in question["decisions"]
    ]
    Path("answers.csv").write_text("person,price,reward\n" + "\n".join(rows) + "\n")
    return "answers.csv"


@pytest.mark.parametrize("reward", ["", "nan", "inf", "-1e999", "1e300", "good"])
def test_a_private_study_takes_any_reward(main: Main, reward: str) -> None:
    done = main("tell", "private.toml", answers(asked(main, "private.toml"), first=reward))
    assert (done.code, done.err) == (0, "")
    assert np.isfinite(Study.load("private.json").log[0].feedback.mean).all()


@pytest.mark.parametrize("reward", ["", "nan", "inf", "good"])
def test_other_rewards_are_refused_with_their_place(main: Main, reward: str) -> None:
    done = main("tell", "tea.toml", answers(asked(main, "tea.toml"), first=reward))
    assert done.code == 2
    assert "answers.csv, line 2, column 3 (reward)" in done.err
    assert (repr(reward) if reward else "is empty; leave the row out") in done.err


def test_a_private_answer_needs_a_person_and_a_decision(main: Main) -> None:
    asked(main, "private.toml")
    for row in (",1.0,0.5", "ann,,0.5"):
        Path("answers.csv").write_text(f"person,price,reward\n{row}\n")
        done = main("tell", "private.toml", "answers.csv")
        assert (done.code, "leave the row out" in done.err) == (2, True)


@pytest.mark.parametrize("study", ["tea.toml", "private.toml"])
def test_one_command_at_a_time(main: Main, study: str) -> None:
    with locked(Path(study).with_suffix(".json")):
        done = main("ask", study)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert "is being changed by another program; wait until it is done" in done.err
    told = answers(asked(main, study))
    with locked(Path(study).with_suffix(".json")):
        assert main("tell", study, told).code == 2
    assert main("tell", study, told).code == 0


def test_answers_that_are_told_twice_do_not_answer_the_next_question(main: Main) -> None:
    told = answers(asked(main, "tea.toml"))
    assert main("tell", "tea.toml", told).code == 0
    done = main("tell", "tea.toml", told)
    assert (done.code, "wave 2 could answer; ask first" in done.err) == (2, True)


def test_tell_says_what_missing_people_cost_and_asks(main: Main) -> None:
    for wave in range(4):
        main("tell", "tea.toml", answers(asked(main, "tea.toml"), prefix=f"w{wave}-"))
    question = asked(main, "tea.toml")
    assert question["people"] == 8
    done = main("tell", "tea.toml", answers(question, 2))
    assert (done.code, done.out) == (2, "")
    assert "wave 5 asked 8 people and 2 answered" in done.err
    assert "about 2.0 times as large as planned" in done.err
    assert "--partial" in done.err
    assert asked(main, "tea.toml") == question
    assert main("tell", "tea.toml", "answers.csv", "--partial").code == 0


def test_undo_opens_the_last_wave_again_until_the_next_question(main: Main) -> None:
    question = asked(main, "tea.toml")
    assert main("tell", "tea.toml", answers(question)).code == 0
    assert main("undo", "tea.toml").out == "wave 1 is open again\n"
    assert asked(main, "tea.toml") == question
    assert main("undo", "tea.toml").code == 2
    assert main("tell", "tea.toml", "answers.csv", "--json").code == 0
    asked(main, "tea.toml")
    done = main("undo", "tea.toml")
    assert (done.code, done.out) == (2, "")
    assert "until the next question is asked" in done.err


def test_undo_says_what_it_costs_later_certificates(main: Main, tmp_path: Path) -> None:
    study_file(tmp_path / "waves.toml", STUDY.replace('name = "dpbe"\nalpha = 0.6', 'name = "waves"'))
    main("tell", "waves.toml", answers(asked(main, "waves.toml")))
    said = main("undo", "waves.toml").out
    assert said == (
        "wave 1 is open again; what it certified was seen, so that certificates count errors 2.2 times from then on\n"
    )
    assert Study.load("waves.json").state.spent > 0.049  # the journal of an open study remembers it, too


def test_undo_of_a_private_study_says_that_its_people_have_taken_part(main: Main) -> None:
    question = asked(main, "private.toml")
    main("tell", "private.toml", answers(question))
    done = main("undo", "private.toml")
    assert f"stays charged, so that its {question['people']} people have taken part: ask others" in done.out
    again = main("tell", "private.toml", answers(question))
    assert (again.code, "'u0' has taken part 1 times" in again.err) == (2, True)
    assert main("tell", "private.toml", answers(question, prefix="v")).code == 0


def test_an_older_copy_of_a_private_study_is_not_continued(main: Main) -> None:
    question = asked(main, "private.toml")
    shutil.copy("private.json", "copy.json")
    main("tell", "private.toml", answers(question))
    shutil.copy("private.json", "newest.json")
    shutil.copy("copy.json", "private.json")
    done = main("tell", "private.toml", answers(question, prefix="v"))
    assert (done.code, "private.json holds 1 steps, and private.mark knows 2 steps of it" in done.err) == (2, True)
    shutil.copy("newest.json", "private.json")
    assert asked(main, "private.toml")["wave"] == 2


def test_a_study_of_an_earlier_version_is_refused_and_left_alone(main: Main) -> None:
    for name in ("private.json", "private.releases"):
        shutil.copy(Path(__file__).parents[1] / "journal" / "version_2" / name, name)
    before = Path("private.json").read_bytes()
    said = (
        "private.json has format version 2, and this voxpop reads 3 only; finish the study with the voxpop that began"
    )
    for command in (["status", "private.json"], ["ask", "private.toml"], ["ask", "private.toml", "--newest"]):
        done = main(*command)
        assert (done.code, said in done.err) == (2, True)
    assert Path("private.json").read_bytes() == before
    Path("private.json").unlink()
    assert "private.releases is of an earlier study with releases" in main("ask", "private.toml").err


def test_a_lost_mark_is_accepted_on_request(main: Main) -> None:
    main("tell", "private.toml", answers(asked(main, "private.toml")))
    Path("private.mark").unlink()
    done = main("ask", "private.toml")
    assert (done.code, "--newest" in done.err) == (2, True)
    assert main("ask", "private.toml", "--newest").code == 0
    assert main("tell", "private.toml", answers(asked(main, "private.toml"), prefix="v")).code == 0


def test_the_horizon_may_be_changed_after_the_study_began(main: Main, tmp_path: Path) -> None:
    question = asked(main, "tea.toml")
    study_file(tmp_path / "tea.toml", STUDY.replace("horizon = 500", "horizon = 9000"))
    done = main("ask", "tea.toml", "--json")
    assert (done.code, json.loads(done.out)) == (0, question)
    assert done.err == "note: the study now has 9,000 rounds instead of 500\n"
    assert main("tell", "tea.toml", answers(question)).err == ""
    assert Study.load("tea.json").problem.horizon == 9000


def test_decisions_may_be_changed_between_waves(main: Main, tmp_path: Path) -> None:
    waves = STUDY.replace('name = "dpbe"\nalpha = 0.6', 'name = "waves"').replace("horizon = 500", "horizon = 5000")
    values = [waves.replace("points = 5", f"values = {some}") for some in ([1, 1.5, 2, 2.5, 3], [1, 1.5, 2.25, 3])]
    study_file(tmp_path / "tea.toml", values[0])
    question = asked(main, "tea.toml")
    study_file(tmp_path / "tea.toml", values[1])
    assert asked(main, "tea.toml") == question  # while a wave is open, it stays as it was asked
    assert main("tell", "tea.toml", answers(question)).code == 0
    done = main("ask", "tea.toml", "--json")
    assert (done.code, done.err) == (
        0,
        "note: 1 decision came and 2 went; what is certified from now on rests on the waves that follow\n",
    )
    found = json.loads(done.out)
    left = found["decisions"] if found["wave"] else [found["best"]["decision"]]
    assert {decision["price"] for decision in left} <= {1, 1.5, 2.25, 3}
    assert main("ask", "tea.toml", "--json").err == ""


def test_decisions_on_another_scale_are_refused(main: Main, tmp_path: Path) -> None:
    asked(main, "tea.toml")
    study_file(tmp_path / "tea.toml", STUDY.replace("high = 3.0", "high = 4.0"))
    done = main("ask", "tea.toml")
    assert done.code == 2
    assert "only its horizon, reward_range and decisions may be" in done.err


@pytest.mark.parametrize(("old", "new"), [("noise_std = 0.1", "noise_std = 0.2"), ("alpha = 0.6", "alpha = 0.7")])
def test_other_changes_after_the_study_began_are_refused(main: Main, tmp_path: Path, old: str, new: str) -> None:
    asked(main, "tea.toml")
    before = Path("tea.json").read_bytes()
    study_file(tmp_path / "tea.toml", STUDY.replace(old, new).replace("horizon = 500", "horizon = 900"))
    done = main("ask", "tea.toml")
    assert done.code == 2
    assert "only its horizon, reward_range and decisions may be; undo the other changes" in done.err
    assert Path("tea.json").read_bytes() == before


def piloted(main: Main) -> dict[str, Any]:
    """Begin a study with a pilot, whose first wave is in blocks."""
    pilot_csv(Path("pilot.csv"))
    assert main("calibrate", "pilot.csv", "--out", "blocks.toml", "--horizon", 20_000, "--points", 21).code == 0
    question = asked(main, "blocks.toml")
    assert question["blocks"] == 2
    return question


def read(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_order_of_play_and_the_table_for_the_answers_are_written_to_files(main: Main) -> None:
    question = piloted(main)
    done = main("ask", "blocks.toml", "--schedule", "order.csv", "--template", "answers.csv")
    printed = " ".join(done.out.split())
    people = [(question["people"] + block) // 2 for block in (0, 1)]
    assert f"ask {sum(people)} people, {people[0]} about block 1 and {people[1]} about block 2" in printed
    assert "with the columns person, block, price, reward" in printed
    order = read("order.csv")
    assert [float(row["price"]) for row in order] == [
        question["decisions"][place]["price"] for place in question["order"]
    ]
    assert [int(row["round"]) for row in order] == list(range(1, sum(question["rounds"]) + 1))
    assert [row["block"] for row in order] == ["1"] * (len(order) // 2) + ["2"] * (len(order) // 2)
    rows = read("answers.csv")
    assert Counter(row["block"] for row in rows) == {
        str(block): count * len(question["decisions"]) for block, count in enumerate(people, start=1)
    }
    assert {row["reward"] for row in rows} == {""}
    refused = main("ask", "blocks.toml", "--template", "answers.csv")
    assert (refused.code, "answers.csv exists; choose another name" in refused.err) == (2, True)
    filled = Path("answers.csv").read_text().replace(",\n", ",0.5\n").splitlines()
    Path("answers.csv").write_text("\n".join([filled[0], *filled[:0:-1]]))  # in another order
    done = main("tell", "blocks.toml", "answers.csv")
    assert (done.code, done.err) == (0, "")
    feedback = Study.load("blocks.json").log[0].feedback
    assert (feedback.by_block is not None, feedback.count) == (True, question["people"])
    assert "in 2 blocks" in main("status", "blocks.toml").out


def test_a_study_is_not_overwritten_with_a_table_for_its_answers(main: Main) -> None:
    done = main("ask", "tea.toml", "--template", "tea.json")
    assert (done.code, "tea.json is where the study is kept" in done.err) == (2, True)
    assert not Path("tea.json").exists()


def test_answers_about_a_wave_in_blocks_say_which_block_they_are_about(main: Main) -> None:
    question = piloted(main)
    done = main("tell", "blocks.toml", answers(question))
    assert (done.code, "has no column block" in done.err) == (2, True)
    text = Path("answers.csv").read_text().splitlines()
    for block, said in (("3", "unknown block '3'; known: 1, 2"), ("2", "nobody answered about block 1 of wave 1")):
        Path("answers.csv").write_text("\n".join(["block," + text[0], *(f"{block},{row}" for row in text[1:])]))
        done = main("tell", "blocks.toml", "answers.csv")
        assert (done.code, said in done.err) == (2, True)

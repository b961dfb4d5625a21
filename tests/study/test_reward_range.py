"""Limits of the reward, from the pilot to the report: found, given, kept by all that is shown, and refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from tests.helpers_cli import Outcome, main_of, refusal
from voxpop import Pilot, Protection, Study, calibrate, make_privacy
from voxpop.errors import InputError
from voxpop.io.studyfile import read_study, write_study
from voxpop.journal.tables import decision_rows
from voxpop.report.figures import draw, pictures
from voxpop.report.summary import pilot_sentences, summarise
from voxpop.report.view import View

Main = Callable[..., Outcome]
PRICES = np.linspace(1.0, 9.0, 9)


def buys(rng: np.random.Generator, people: int, prices: Any, rounds: int = 1) -> np.ndarray:
    """Whether people with different tastes buy, or how often of some rounds: nearly all do at low prices."""
    tastes = rng.normal(6.0, 1.0, size=(people, 1))
    chance = 1 / (1 + np.exp(3 * (np.asarray(prices, dtype=float) - tastes)))
    return rng.binomial(rounds, chance) / rounds


def pilot(rounds: int = 1, measure: str = "reward", scale: float = 1.0, shift: float = 0.0) -> pd.DataFrame:
    answers = shift + scale * buys(np.random.default_rng(0), 30, PRICES, rounds)
    people, tried = np.indices(answers.shape)
    columns = {"person": [f"u{who}" for who in people.ravel()], "price": PRICES[tried.ravel()]}
    return pd.DataFrame({**columns, "rounds": rounds, measure: answers.ravel()})


def conducted(direction: str = "maximize", waves: int = 2) -> Study:
    """A study of yes and no; if it minimises, of the share of people who do not buy."""
    less = direction == "minimize"
    table = pilot(measure="cost" if less else "reward", scale=-1.0 if less else 1.0, shift=float(less))
    study = Study.from_pilot(table, 3000, 17, direction=direction, kernel="matern-5/2")
    rng = np.random.default_rng(1)
    for _ in range(waves):
        question = study.ask()
        assert question is not None
        told = buys(rng, question.people, [decision["price"] for decision in question.decisions], question.rounds[0])
        study.tell(question.wave, 1 - told if less else told)
    return study


@pytest.fixture(scope="module")
def yes_and_no() -> dict[str, Study]:
    return {direction: conducted(direction) for direction in ("maximize", "minimize")}


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (pilot(), "0:1"),
        (pilot(rounds=7), "0:1"),
        (pilot(rounds=7).round(3), "0:1"),
        (pilot(scale=0.9), "0:"),
        (pilot(rounds=7, scale=0.93), "0:"),
        (pilot(scale=2.0), "0:"),
        (pilot(scale=-1.0), ":"),
    ],
)
def test_answers_of_yes_and_no_and_those_never_negative_show_their_limits(table: pd.DataFrame, found: str) -> None:
    assert Pilot.from_table(table).found_range == found


def test_limits_that_were_found_are_said_and_can_be_switched_off() -> None:
    found, given, off = (calibrate(pilot(), kernel="matern-5/2", reward_range=it) for it in (None, "-1:2", ":"))
    assert [it.reward_range for it in (found, given, off)] == ["0:1", "-1:2", ":"]
    assert pilot_sentences(found)[2] == (
        "All answers are yes or no (1 or 0): no reward is below 0 or above 1, and nothing is certified or drawn beyond "
        "that. If that is not so, add --reward-range : (no limits)."
    )
    assert pilot_sentences(given)[2].startswith("No reward is below -1 or above 2, and nothing")
    assert len(pilot_sentences(off)) == 2
    positive = calibrate(pilot(scale=2.0), kernel="matern-5/2")
    assert pilot_sentences(positive)[2].startswith("No answer is negative: no reward is below 0, and")
    assert max(reward.high for reward in off.rewards) > 1 >= max(reward.high for reward in found.rewards)


def test_a_protected_pilot_shows_no_limits_and_its_noise_breaks_none() -> None:
    protection = Protection(0, 1, epsilon=1.0)
    assert calibrate(pilot(), kernel="matern-5/2", protection=protection).reward_range == ":"
    found = calibrate(pilot().assign(reward=9.0), kernel="matern-5/2", protection=protection, reward_range="0:1")
    assert max(group.mean.max() for group in found.groups) > 1
    assert Study.from_calibration(found, 500, 5).problem.reward_range == "0:1"


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_nothing_is_shown_outside_of_the_limits(yes_and_no: dict[str, Study], direction: str) -> None:
    study = yes_and_no[direction]
    course, view = study.course, View(study.course)
    state, sign = course.state, 1 if direction == "maximize" else -1
    assert (sign * state.centre).max() > 1 or (sign * state.centre).min() < 0  # or this tests nothing
    rows = decision_rows(course)
    shown = [row[name] for row in rows for name in ("estimate", "low", "high") if row[name] is not None]
    best = study.best
    shown += [value for value in (best.estimate, best.low, best.high) if value is not None]
    shown += [sign * end for ends in (view.bounds(), view.likely() or ()) for end in np.ravel(ends) if np.isfinite(end)]
    assert min(shown) >= 0
    assert max(shown) <= 1
    assert {"decision", "waves", "progress"} <= set(pictures(view))
    for name in ("decision", "waves", "progress"):
        for ax in filter(Axes.get_visible, draw(view, name)[0].axes):
            lines = [line for line in ax.lines if line.get_label() in ("estimate", "chosen", "decision then")]
            drawn = [np.asarray(line.get_ydata(), dtype=float) for line in lines]
            drawn += [np.asarray(path.vertices)[:, 1] for band in ax.collections for path in band.get_paths()]
            known = sign * np.concatenate(drawn)
            assert len(drawn) >= 3
            assert np.nanmin(known) >= 0
            assert np.nanmax(known) <= 1


def test_what_is_lost_is_no_more_than_the_limits_leave(yes_and_no: dict[str, Study]) -> None:
    best = yes_and_no["maximize"].best
    assert best.estimate is not None
    assert best.expected_loss is not None
    assert best.expected_loss <= 1 - best.estimate


def refused(study: Study, told: object, said: str) -> None:
    events, best = len(study._events), study.best
    with pytest.raises(InputError, match=said) as caught:
        study.tell(study.course.pending.wave, told, partial=True)  # type: ignore[union-attr]
    refusal(caught)
    assert (len(study._events), study.best) == (events, best)


def test_an_answer_outside_of_the_limits_is_refused_with_its_person() -> None:
    study = conducted(waves=0)
    question = study.ask()
    assert question is not None
    fine = np.full((question.people, len(question.decisions)), 0.5)
    wrong = fine.copy()
    wrong[3, 1] = 1.2
    price = question.decisions[1]
    beyond = "outside of the reward_range 0:1; correct it, or give wider limits"
    refused(study, wrong, rf"the answer of row 3 about {price} is 1.2, {beyond}")
    table = question.table()
    table["reward"] = 0.5
    table.loc[(table["person"] == table["person"].iloc[-1]) & (table["price"] == price["price"]), "reward"] = -0.1
    refused(study, table, rf"the answer of '{table['person'].iloc[-1]}' about {price} is -0.1, {beyond}")
    refused(study, {"mean": wrong[3], "count": 400}, rf"the average about {price} is 1.2, {beyond}")
    study.tell(question.wave, fine)


def test_costs_are_refused_as_costs() -> None:
    study = conducted("minimize", waves=0)
    question = study.ask()
    assert question is not None
    wrong = np.full((question.people, len(question.decisions)), 0.5)
    wrong[0, 0] = -0.25
    refused(study, wrong, "is -0.25, outside of the reward_range 0:1")


def test_a_private_study_refuses_nothing_for_its_value() -> None:
    study = Study.from_pilot(pilot(), 3000, 17, kernel="matern-5/2", privacy=make_privacy("central", 5.0))
    question = study.ask()
    assert question is not None
    study.tell(question.wave, np.full((question.people, len(question.decisions)), 7.0))
    assert len(study.closed) == 1


def test_earlier_answers_keep_the_limits_too() -> None:
    study = conducted(waves=0)
    record = {"person": "ann", "decision": {"price": 2.0}, "average": 1.5}
    with pytest.raises(InputError, match=r"record 1's average, of 'ann', is 1.5, outside of the reward_range 0:1"):
        study.attach([record])
    with pytest.raises(InputError, match=r"the average about \{'price': 2.0\} is 1.5, outside of the reward_range"):
        study.attach({"decisions": [{"price": 2.0}], "mean": [1.5], "count": 4})


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_limits_that_turn_out_wrong_are_widened_and_kept(direction: str, tmp_path: Path) -> None:
    study = conducted(direction)
    study.save(tmp_path / "study.json")
    study = Study.load(tmp_path / "study.json")
    before = study.best
    study.change_reward_range("-1:1")
    again = Study.load(tmp_path / "study.json")
    assert study.direction.problem(again.problem).limits == (-1.0, 1.0)
    for each in (study, again):
        assert (each.best.index, each.best.decision) == (before.index, before.decision)
        assert each.best.low is not None
        assert before.low is not None
        assert each.best.low <= before.low
        assert each.state.spent == pytest.approx(study.state.spent)
        assert len(each.closed) == 2
    question = study.ask()
    assert question is not None
    study.tell(question.wave, np.full((question.people, len(question.decisions)), -0.5))
    with pytest.raises(InputError, match=r"can be widened, and 0:1 is narrower; leave it as it was"):
        study.change_reward_range("0:1")


def test_a_study_file_may_be_given_wider_limits(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    table = pilot()
    found = calibrate(table, kernel="matern-5/2")
    file.write_text(write_study(found, found.require_space(), 3000, 9, "study", {"name": "waves"}))
    question = Study.from_file(file).ask()
    assert question is not None
    file.write_text(file.read_text().replace('reward_range = "0:1"', 'reward_range = "0:"'))
    assert Study.from_file(file, looking=True).problem.reward_range == "0:1"
    study = Study.from_file(file)
    assert (study.ask(), study.problem.reward_range) == (question, "0:")
    study.tell(question.wave, np.full((question.people, len(question.decisions)), 1.5))
    file.write_text(file.read_text().replace('reward_range = "0:"', 'reward_range = "0:1"'))
    with pytest.raises(InputError, match="can be widened, and 0:1 is narrower"):
        Study.from_file(file)


def test_a_tolerance_that_the_limits_make_empty_is_refused() -> None:
    with pytest.raises(InputError, match="nothing is better by more than 1, so that a tolerance of 1 asks for nothing"):
        Study.from_pilot(pilot(), 3000, 17, kernel="matern-5/2", tolerance=1.0)
    assert Study.from_pilot(pilot(), 3000, 17, kernel="matern-5/2", tolerance=0.5).ended is None


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    pilot().to_csv(tmp_path / "pilot.csv", index=False)
    return main_of(monkeypatch)


def test_the_command_finds_takes_and_refuses_limits(main: Main, tmp_path: Path) -> None:
    calibrating = ("calibrate", "pilot.csv", "--kernel", "matern-5/2", "--force")
    done = main(*calibrating)
    assert (done.code, "add --reward-range : (no limits)" in done.out) == (0, True)
    assert read_study(tmp_path / "study.toml")[0].reward_range == "0:1"
    assert "# as the pilot's answers show" in (tmp_path / "study.toml").read_text()
    for given in ("0:", "-1:1", ":"):
        assert main(*calibrating, "--reward-range", given).code == 0
        assert read_study(tmp_path / "study.toml")[0].reward_range == given
    before = (tmp_path / "study.toml").read_bytes()
    for wrong, said in {
        "1:0": "reward_range must be two rising numbers such as 0:1 or 0:, got '1:0'",
        "0:0.5": "the answer of u0, line 2 is 1, outside of the reward_range 0:0.5; correct it, or give wider limits",
    }.items():
        done = main(*calibrating, "--reward-range", wrong)
        assert done.code == 2
        assert said in done.err
    assert (tmp_path / "study.toml").read_bytes() == before


def test_what_is_read_first_names_the_limits_bound(yes_and_no: dict[str, Study]) -> None:
    lines = {line.name: line for line in summarise(yes_and_no["maximize"].course)}
    assert lines["Expect"].note.split("; ")[1].endswith(" to 1")  # likely, cut at the limit

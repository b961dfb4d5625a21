"""A fielded study: tallies in, the simulator's plans out, and nothing released twice."""

import json
from pathlib import Path

import numpy as np
import pytest

from voxpop.errors import InputError
from voxpop.journal.replay import disagreements
from voxpop.journal.wave import Wave
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Tally
from voxpop.policies import make_policy
from voxpop.privacy import Secure, make_privacy
from voxpop.study.study import Study
from voxpop_flower.study import DeviceStudy

MODELS = ("none", "central", "local", "aggregate")


def problem(noise_std: float = 0.2) -> Problem:
    points = np.linspace(0.0, 1.0, 9)[:, None].tolist()
    return Problem(points, SquaredExponential(0.4), noise_std, bias_std=0.4, norm_bound=1.5, horizon=2_000)


def opened(model: str, path: Path | None = None, noise_std: float = 0.2) -> DeviceStudy:
    privacy = make_privacy(model, None if model == "none" else 5.0)
    return DeviceStudy.open(problem(noise_std), make_policy("waves", population=200), privacy, path)


def answer(wave: Wave) -> tuple[list[list[float]], Tally]:
    """Return what the people of a wave report, and its tally."""
    rng = np.random.default_rng(wave.plan.wave)
    answers = 1.0 - (wave.plan.arms / 8 - 0.5) ** 2 + rng.normal(0.0, 0.3, (wave.plan.people, len(wave.plan.arms)))
    reports = wave.release.randomize(answers, Secure())
    return reports.tolist(), wave.release.tally(reports)


def play(study: DeviceStudy, waves: int) -> dict[int, list[list[float]]]:
    reports = {}
    for _ in range(waves):
        wave = study.open_wave()
        if wave is None:
            break
        number = wave.plan.wave
        reports[number], tally = answer(wave)
        study.close_wave(tally, tuple(f"{number}-{person}" for person in range(tally.count)))
    return reports


@pytest.mark.parametrize("model", MODELS)
def test_it_is_the_simulator_s_and_goes_on_from_its_file(tmp_path: Path, model: str) -> None:
    path = tmp_path / "study.json"
    reports = play(opened(model, path), 1)
    asked = opened(model, path).open_wave()
    again = opened(model, path).open_wave()
    assert asked is not None
    assert again is not None
    assert (asked.plan.arms.tolist(), asked.plan.people) == (again.plan.arms.tolist(), again.plan.people)
    reports |= play(opened(model, path), 100)
    done = opened(model, path)
    assert done.ended
    assert done.open_wave() is None
    assert len(done.closed) == len(reports) > 1
    assert disagreements(done.course, reports, own_noise=True) == []
    if model != "central":  # where the agent draws no noise of its own
        assert disagreements(done.course, reports) == []
        others = {number: [rows[0], *rows[:-1]] for number, rows in reports.items()}
        assert disagreements(done.course, others) != []


def test_nobody_takes_part_twice(tmp_path: Path) -> None:
    study = opened("local", tmp_path / "study.json")
    wave = study.open_wave()
    assert wave is not None
    _, tally = answer(wave)
    names = tuple(map(str, range(tally.count)))
    study.close_wave(tally, names)
    wave = study.open_wave()
    assert wave is not None
    _, tally = answer(wave)
    others = tuple(f"new-{person}" for person in range(tally.count - 1))
    with pytest.raises(InputError, match="'0' has taken part 1 times, of 1; ask someone else"):
        study.close_wave(tally, ("0", *others))
    assert len(opened("local", tmp_path / "study.json").closed) == 1


def test_a_batch_that_is_not_whole_is_not_released() -> None:
    study = opened("aggregate")
    wave = study.open_wave()
    assert wave is not None
    reports, _ = answer(wave)
    with pytest.raises(InputError):
        study.close_wave(wave.release.tally(np.array(reports[:-1])))
    assert study.closed == ()


def test_what_a_study_reads_where_the_server_sees_answers(tmp_path: Path) -> None:
    study = opened("central", tmp_path / "study.json")
    play(study, 100)
    assert Study.load(tmp_path / "study.json").best == study.best


def test_a_tally_needs_an_open_wave() -> None:
    study = opened("none")
    with pytest.raises(InputError, match="no wave is open that a tally could close") as refused:
        study.close_wave(Tally(1, (1,), 1.0))
    assert "\n" not in str(refused.value)


def test_another_problem_policy_or_promise_is_another_study(tmp_path: Path) -> None:
    opened("none", tmp_path / "study.json")
    with pytest.raises(InputError, match="was begun with another problem; undo the change"):
        opened("none", tmp_path / "study.json", noise_std=0.3)
    with pytest.raises(InputError, match="was begun with another privacy"):
        opened("local", tmp_path / "study.json")
    with pytest.raises(InputError, match="policy 'gp-ucb' asks one person per round"):
        DeviceStudy.open(problem(), make_policy("gp-ucb"))


FILE = """\
name = "tea"
horizon = 500
direction = "minimize"
parameters.price = {type = "float", low = 1.0, high = 3.0, points = 5}
kernel = {type = "squared-exponential", length_scale = 0.3}
model = {noise_std = 0.01, bias_std = 0.1, norm_bound = 1.0}
privacy = {model = "local", epsilon = 5.0}
"""


def test_a_study_file_is_read_and_its_study_saved_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "tea.toml"
    file.write_text(FILE, encoding="utf-8")
    study = DeviceStudy.from_file(file)
    assert (study.name, study.privacy.model, str(study.direction)) == ("tea", "local", "minimize")
    play(study, 1)
    assert len(DeviceStudy.from_file(file).closed) == 1
    assert json.loads((tmp_path / "tea.json").read_text(encoding="utf-8").splitlines()[0])["format"] == "voxpop study"
    file.write_text(FILE + "strata = {young = 0.5, old = 0.5}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"has strata, and devices that randomise cannot be weighed") as refused:
        DeviceStudy.from_file(file)
    assert "\n" not in str(refused.value)

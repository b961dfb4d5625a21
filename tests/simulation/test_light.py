"""The light-sensor study, from the shipped figures and from a folder of readings, with the same results."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.light_figures import derive
from benchmarks.light_figures import main as write
from benchmarks.real_people import write_table
from tests.helpers import gram
from tests.helpers_cli import ENVIRONMENT, ROOT, light_readings, main_of, refusal
from voxpop.errors import Array, InputError
from voxpop.model.problem import Problem
from voxpop.simulation import paper as light
from voxpop.simulation.paper import load_light
from voxpop.simulation.scenarios import Options, make_scenario

TRAIN, COORDINATES = "light_train_601x41.csv", "light_coords_41x2.csv"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of readings, made up."""
    return light_readings(tmp_path / "readings")


def shipped() -> Array:
    """Return the figures: position, mean reading and correlations of each sensor."""
    return np.loadtxt(light.SHIPPED, delimiter=",")


# The shipped figures


def test_the_shipped_figures_are_those_of_41_sensors() -> None:
    assert shipped().shape == (41, 44)
    assert len(np.unique(shipped()[:, :2], axis=0)) == 41


def test_the_shipped_means_are_those_of_601_whole_readings() -> None:
    """Sensors count in whole numbers, so a mean of 601 readings is a whole number of 601sts."""
    sums = shipped()[:, 2] * 601
    np.testing.assert_allclose(sums, np.rint(sums), atol=1e-8)
    assert (sums > 0).all()


def test_the_shipped_correlations_are_correlations() -> None:
    matrix = shipped()[:, 3:]
    np.testing.assert_allclose(matrix.diagonal(), 1.0, rtol=1e-14)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-14)
    values = np.linalg.eigvalsh(matrix)
    assert 0 < values[0] < values[-1] < 41
    assert 0.1 < np.abs(matrix[np.triu_indices(41, 1)]).mean() < 1


def test_the_study_is_that_of_the_shipped_figures() -> None:
    found = shipped()
    scenario = make_scenario("light", Options())
    np.testing.assert_array_equal(scenario.f, found[:, 2] / found[:, 2].max())
    expected = Problem.of_matrix(found[:, 3:], 0.01, 0.1, norm_bound=1.0, horizon=40_000)
    np.testing.assert_array_equal(gram(scenario.problem), gram(expected))
    assert scenario.f.max() == 1.0


def test_the_sensors_norm_is_that_of_the_documents() -> None:
    assert "(9.4)" in (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    norm = make_scenario("light", Options(true_norm=True)).problem.norm_bound
    assert f"{norm:.1f}" == "9.4"


def test_the_shipped_figures_name_their_source() -> None:
    text = light.SHIPPED.read_text(encoding="utf-8")
    for words in ("CMU Intelligent Workplace", "Andreas Krause", "commit 30196d5c", "No licence", "light_figures"):
        assert words in text


# From a folder


def test_readings_give_rewards_and_a_correlation_matrix(folder: Path) -> None:
    f, matrix = load_light(folder)
    assert f.shape == (41,)
    assert f.max() == 1.0
    assert (f > 0).all()
    np.testing.assert_allclose(matrix.diagonal(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12)
    train = np.loadtxt(folder / TRAIN, delimiter=",")
    scores = (train - train.mean(axis=0)) / train.std(axis=0)
    np.testing.assert_allclose(matrix, scores.T @ scores / 601, atol=1e-10)
    np.testing.assert_allclose(f, train.mean(axis=0) / train.mean(axis=0).max(), rtol=1e-12)


def test_the_study_needs_the_samples_only(folder: Path) -> None:
    expected = load_light(folder)
    (folder / COORDINATES).unlink()
    for found, wanted in zip(load_light(folder), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(InputError, match=COORDINATES):
        derive(folder)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text.replace("\n", ",1\n", 1), "not a table of numbers"),
        (lambda text: "dark" + text, "not a table of numbers"),
        (lambda text: text.replace("\n", ",1\n"), "42 columns and the study has 41 sensors"),
        (lambda text: "nan" + text[text.index(",") :], "finite"),
        (lambda text: text[: text.index("\n")], "needs at least two"),
        (lambda text: "", "sample|empty|numbers"),
        (lambda text: "\n".join(",".join(["5", *line.split(",")[1:]]) for line in text.split()), "vary"),
    ],
)
def test_damaged_readings_are_refused(folder: Path, damage: object, said: str) -> None:
    assert callable(damage)
    path = folder / TRAIN
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError, match=said) as caught:
        load_light(folder)
    assert str(path) in refusal(caught)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[: text.rindex("\n", 0, -1)], "41 sensors"),
        (lambda text: "here" + text, "not a table of numbers"),
        (lambda text: text.replace(",", ",1,"), "two coordinates"),
    ],
)
def test_damaged_positions_are_refused(folder: Path, damage: object, said: str) -> None:
    assert callable(damage)
    path = folder / COORDINATES
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError, match=said) as caught:
        derive(folder)
    assert str(path) in refusal(caught)


def test_a_folder_without_readings_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"no light-sensor data .* light_train_601x41\.csv"):
            load_light(folder)


# Both are the same


def test_figures_are_the_same_to_the_last_bit_once_written_and_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, about = derive(folder), light.SHIPPED
    monkeypatch.setattr(light, "SHIPPED", tmp_path / "figures.csv")
    write(folder, light.SHIPPED)
    assert np.array_equal(shipped(), made)
    write_table(np.nextafter(made, 0), about, light.SHIPPED, "%s")  # guards the line above
    assert not np.array_equal(shipped(), made)


def test_the_shipped_file_is_written_as_it_is(tmp_path: Path) -> None:
    write_table(shipped(), light.SHIPPED, tmp_path / "figures.csv", "%s")
    assert (tmp_path / "figures.csv").read_bytes() == light.SHIPPED.read_bytes()


@pytest.mark.parametrize("more", [[], ["--policy", "dpbe-paper"], ["--true-norm"]], ids=str)
def test_simulations_from_figures_and_from_readings_are_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    main = main_of(monkeypatch)

    def runs(*arguments: object) -> list[dict[str, Any]]:
        done = main("simulate", "light", "--runs", 2, "--horizon", 2000, "--jobs", 1, "--json", *more, *arguments)
        assert (done.code, done.err) == (0, "")
        return [{**json.loads(line), "seconds": None} for line in done.out.splitlines()]

    readings, before = runs("--data", folder), runs()
    assert before != readings
    write(folder, tmp_path / "figures.csv")
    monkeypatch.setattr(light, "SHIPPED", tmp_path / "figures.csv")
    assert runs() == readings


def test_the_script_writes_the_figures(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = script(folder, tmp_path / "figures.csv")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    monkeypatch.setattr(light, "SHIPPED", tmp_path / "figures.csv")
    assert np.array_equal(shipped(), derive(folder))


def test_the_script_refuses_a_folder_without_readings(tmp_path: Path) -> None:
    done = script(tmp_path, tmp_path / "figures.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: no light-sensor data in")
    assert list(tmp_path.iterdir()) == []


def script(*arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.light_figures", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False)

"""Pilots, files and processes for the tests of the outer parts."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_waiting import HANGING
from voxpop.calibration.pilot import Pilot
from voxpop.cli import app, display, main
from voxpop.errors import Array, InputError
from voxpop.io.tables import read_pilot_table
from voxpop.model.decisions import Decisions, Space
from voxpop.model.kernels import Kernel, SquaredExponential

ROOT = Path(__file__).resolve().parent.parent
VOXPOP = Path(sys.executable).parent / "voxpop"
# Threads of small matrix products slow each other down on a shared machine; a fixed width keeps lines from wrapping.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"}
# The packages beside voxpop are not installed.
SISTERS = [str(ROOT), str(ROOT / "integrations/dask"), os.environ.get("PYTHONPATH", "")]
ENVIRONMENT["PYTHONPATH"] = os.pathsep.join(filter(None, SISTERS))


def draw(covariance: Array, rng: np.random.Generator, people: int | None = None) -> Array:
    """Draw Gaussian vectors with mean zero, by NumPy's own sampler."""
    return rng.multivariate_normal(np.zeros(len(covariance)), covariance, size=people, method="eigh")


def pilot_of_model(
    seed: int,
    points: Array,
    f: Array | None = None,
    people: int = 40,
    rounds: int = 10,
    kernel: Kernel | None = None,
    bias: float = 0.5,
    noise: float = 1.0,
    mean: float = 2.0,
) -> Pilot:
    """Draw a pilot of people who follow the model, around f or around a draw from GP(mean, k)."""
    rng = np.random.default_rng(seed)
    K = (kernel or SquaredExponential(0.3))(points, points)
    f = mean + draw(K, rng) if f is None else f
    own = bias * draw(K, rng, people)
    return Pilot.of_matrix(
        Decisions(points), f + own + noise / np.sqrt(rounds) * rng.standard_normal(own.shape), rounds
    )


def read_pilot(path: Path, **said: Any) -> tuple[Pilot, Space]:
    """Read a pilot, and the space of its parameters."""
    found = read_pilot_table(path, **said)
    return found.pilot, found.space


def pilot_csv(path: Path, people: int = 12, prices: int = 6, rounds: int = 10, seed: int = 0) -> Path:
    """Write a pilot in which the best price is in the middle of 1 to 3."""
    rng = np.random.default_rng(seed)
    lines = ["person,price,reward,rounds"]
    for person in range(people):
        taste = rng.normal(2.0, 0.3)
        for price in np.linspace(1, 3, prices):
            reward = 1 - (price - taste) ** 2 + 0.1 * rng.standard_normal()
            lines.append(f"u{person},{price:.2f},{reward:.5f},{rounds}")
    path.write_text("\n".join(lines) + "\n")
    return path


def light_readings(folder: Path, seed: int = 0) -> Path:
    """Write a folder of made-up readings in the form of the light-sensor data: 601 samples, positions of 41 sensors."""
    rng = np.random.default_rng(seed)
    weather = rng.normal(size=(601, 3)) @ rng.uniform(size=(3, 41))
    readings = rng.uniform(200, 400, size=41) + 40 * weather + 15 * rng.normal(size=(601, 41))
    folder.mkdir(exist_ok=True)
    np.savetxt(folder / "light_train_601x41.csv", np.rint(readings), fmt="%d", delimiter=",")
    np.savetxt(folder / "light_coords_41x2.csv", rng.uniform(0, 400, size=(41, 2)), fmt="%.6f", delimiter=",")
    return folder


STUDY = """\
name = "tea"
horizon = 500

[parameters.price]
type = "float"
low = 1.0
high = 3.0
points = 5

[kernel]
type = "squared-exponential"
length_scale = 0.3

[model]
noise_std = 0.1
bias_std = 0.2
norm_bound = 1.5
prior_mean = 0.5

[policy]
name = "dpbe"
alpha = 0.6

[rehearsal]
at = [{price = 1.0}, {price = 2.0}, {price = 3.0}]
rewards = [0.2, 1.1, 0.4]
"""


def study_file(path: Path, text: str = STUDY) -> Path:
    path.write_text(text)
    return path


def refusal(call: pytest.ExceptionInfo[InputError]) -> str:
    """Return the message of a refusal; it must be one sentence on one line."""
    message = str(call.value)
    assert "\n" not in message
    assert message
    return message


def voxpop(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a process of its own."""
    command = [str(VOXPOP), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, timeout=HANGING, check=False
    )


def python(code: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    command = [sys.executable, "-B", "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, timeout=HANGING, check=False
    )


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


def main_of(monkeypatch: pytest.MonkeyPatch, command: Callable[[], object] = app) -> Callable[..., Outcome]:
    """Return a function that runs a command in this process, which is quicker than a new one."""
    monkeypatch.setenv("COLUMNS", "200")
    for console in (display.console, display.errors):  # they may be older than this setting
        monkeypatch.setattr(console, "_width", 200)
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["voxpop", *map(str, arguments)])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main(command)
        return Outcome(int(ended.value.code or 0), out.getvalue(), err.getvalue())

    return call

"""The light-sensor study of the paper (sec:real_world_data): 41 sensors as actions, their readings as rewards.

The readings are not ours to redistribute, but what the study needs of them is shipped in light.csv: each sensor's
position, its mean reading and its correlation with every sensor. `python benchmarks/light_figures.py FOLDER` writes
that file from a folder of the readings.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voxpop.core.errors import Array, InputError
from voxpop.formats.files import read_text, write_atomically

SHIPPED = Path(__file__).with_name("light.csv")
SOURCE = """\
Light readings of 41 sensors in the CMU Intelligent Workplace, November 2005, collected by Andreas Krause and used by
Srinivas et al. 2010 and Chowdhury and Gopalan 2017; derived from the 601 training samples in the public repository
sayakrc/Bayesian-Optimization-under-Heavy-tailed-Payoffs, commit 30196d5c. No licence is stated there, so that the
readings themselves are not included. `voxpop.lab.populations.light.derive` computes these figures.
A line for each sensor: x, y, mean reading, correlation with sensors 1 to 41. Numbers are exact to the last bit."""


@dataclass(frozen=True, eq=False)
class Sensors:
    """What the study needs of the readings."""

    positions: Array  # (sensors, 2)
    means: Array
    correlation: Array  # (sensors, sensors)


def load_light(folder: Path | None = None) -> tuple[Array, Array]:
    """Load the reward of each sensor and the kernel matrix, from the shipped figures or from a folder of readings.

    The paper's "normalised" readings cannot be z-scores, whose mean is zero for every sensor: the reward is the
    sensor's mean reading divided by the largest mean. The kernel is the covariance of the z-scored samples.
    """
    if folder is None:
        sensors = shipped()
        means, correlation = sensors.means, sensors.correlation
    else:
        means, correlation = _moments(folder)
    return means / means.max(), correlation


def derive(folder: Path) -> Sensors:
    """Compute the figures from the training samples and the positions in a folder."""
    means, correlation = _moments(folder)
    path = _find(folder, "light_coords_41x2.csv")
    positions = _numbers(path)
    if positions.shape != (len(means), 2):
        raise InputError(f"{path} needs two coordinates for each of {len(means)} sensors; get a fresh copy of it")
    return Sensors(positions, means, correlation)


def shipped() -> Sensors:
    """Read the figures that come with voxpop."""
    table = np.loadtxt(SHIPPED, delimiter=",", encoding="utf-8")
    return Sensors(*map(np.ascontiguousarray, (table[:, :2], table[:, 2], table[:, 3:])))


def write(sensors: Sensors, path: Path) -> None:
    """Write the figures as a table that gives the same numbers when it is read."""
    text = io.StringIO()
    table = np.column_stack([sensors.positions, sensors.means, sensors.correlation])
    np.savetxt(text, table, fmt="%s", delimiter=",", header=SOURCE)  # %s: the shortest decimals that are exact
    write_atomically(path, text.getvalue())


def _moments(folder: Path) -> tuple[Array, Array]:
    """Compute the means and correlations of the training samples."""
    path = _find(folder, "light_train_601x41.csv")
    train = _numbers(path)
    if len(train) < 2:
        raise InputError(f"{path} has {len(train)} samples and needs at least two; get a fresh copy of it")
    if not np.isfinite(train).all() or not (train.std(axis=0) > 0).all():
        raise InputError(f"{path} needs finite samples that vary for every sensor; get a fresh copy of it")
    return train.mean(axis=0), np.asarray(np.corrcoef(train.T))


def _find(folder: Path, name: str) -> Path:
    """Find the file of that name, whatever the size of the table that ends it."""
    found = sorted(folder.glob(f"{name.rpartition('_')[0]}_*.csv"))
    if not found:
        raise InputError(f"no light-sensor data in {str(folder)!r}; give a folder that holds {name}")
    return found[0]


def _numbers(path: Path) -> Array:
    lines = [line.split(",") for line in read_text(path).splitlines() if line.strip()]
    try:
        return np.array(lines, dtype=float).reshape(len(lines), -1)
    except ValueError as error:
        raise InputError(f"{path} is not a table of numbers ({error}); get a fresh copy of it") from None

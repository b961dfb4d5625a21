"""The paper's reward functions (sec:synthetic_func, sec:benchmark_function), all to be maximised on the unit cube."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.io.files import read_text
from voxpop.model.kernels import Kernel


def random_rkhs_function(
    kernel: Kernel, dimension: int, rng: np.random.Generator
) -> tuple[Callable[[Array], Array], float]:
    """Draw a sum of m = 30 d kernels at uniform points, weights uniform in [-1, 1]; return it and its RKHS norm."""
    count = 30 * dimension
    centres = rng.uniform(size=(count, dimension))
    weights = rng.uniform(-1, 1, size=count)
    norm = float(np.sqrt(weights @ kernel(centres, centres) @ weights))
    return lambda x: kernel(x, centres) @ weights, norm


@dataclass(frozen=True)
class BenchmarkFunction:
    """A standard test function on a box, to be maximised."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    value: Callable[[Array], Array]  # of the columns: (d, n) -> (n,)

    def __call__(self, unit: Array) -> Array:
        """Compute the values at points of the unit cube, (n, d)."""
        low, high = np.array(self.low), np.array(self.high)
        return self.value((low + unit * (high - low)).T)


def sphere(x: Array) -> Array:
    """Compute sum x_i^2, which is highest in the corners."""
    return np.asarray(np.square(x).sum(axis=0))


def six_hump_camel(x: Array) -> Array:
    """Compute the six-hump camel function: lowest near (+-0.09, -+0.71), highest at two corners."""
    a, b = x
    return np.asarray((4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2)


def michalewicz(x: Array) -> Array:
    """Compute the negated function of steep valleys, m = 10; its highest point in two dimensions is at (2.20, 1.57).

    As it is usually written, a large part of the square ties at its maximum of 0.
    """
    rank = np.arange(1, len(x) + 1)[:, None]
    return np.asarray((np.sin(x) * np.sin(rank * x**2 / np.pi) ** 20).sum(axis=0))


SPHERE_BOX = (-5.12,) * 3, (5.12,) * 3
CAMEL_BOX = (-3.0, -2.0), (3.0, 2.0)
# The paper maximises these; minimising them is what they are usually for, and a study of its own.
FUNCTIONS = {
    "sphere": BenchmarkFunction(*SPHERE_BOX, sphere),
    "camel": BenchmarkFunction(*CAMEL_BOX, six_hump_camel),
    "michalewicz": BenchmarkFunction((0.0, 0.0), (np.pi, np.pi), michalewicz),
    "sphere-minimum": BenchmarkFunction(*SPHERE_BOX, lambda x: -sphere(x)),
    "camel-minimum": BenchmarkFunction(*CAMEL_BOX, lambda x: -six_hump_camel(x)),
}


def rescale(values: Array) -> Array:
    """Stretch the values to [-1, 1]."""
    low, high = float(values.min()), float(values.max())
    return 2 * (values - low) / (high - low) - 1 if high > low else np.zeros_like(values)


SENSORS = 41
SHIPPED = Path(__file__).with_name("data") / "light.csv"  # x, y, mean reading, correlations of every sensor


def load_light(folder: Path | None = None) -> tuple[Array, Array]:
    """Load the reward of each sensor and the kernel matrix, from the shipped figures or from a folder of readings.

    The paper's "normalised" readings cannot be z-scores, whose mean is zero for every sensor: the reward is the
    sensor's mean reading divided by the largest mean. The kernel is the covariance of the z-scored samples.
    """
    if folder is None:
        table = np.loadtxt(SHIPPED, delimiter=",", encoding="utf-8")
        means, correlation = map(np.ascontiguousarray, (table[:, 2], table[:, 3:]))
    else:
        means, correlation = moments(folder)
    return means / means.max(), correlation


def moments(folder: Path) -> tuple[Array, Array]:
    """Compute the means and correlations of the training samples."""
    path = find(folder, "light_train_601x41.csv")
    train = numbers_in(path)
    if train.size and train.shape[1] != SENSORS:
        raise InputError(
            f"{path} has {train.shape[1]} columns and the study has {SENSORS} sensors; get a fresh copy of it"
        )
    if len(train) < 2:
        raise InputError(f"{path} has {len(train)} samples and needs at least two; get a fresh copy of it")
    if not np.isfinite(train).all() or not (train.std(axis=0) > 0).all():
        raise InputError(f"{path} needs finite samples that vary for every sensor; get a fresh copy of it")
    return train.mean(axis=0), np.asarray(np.corrcoef(train.T))


def find(folder: Path, name: str) -> Path:
    """Find the file of that name, whatever the size of the table that ends it."""
    found = sorted(folder.glob(f"{name.rpartition('_')[0]}_*.csv"))
    if not found:
        raise InputError(f"no light-sensor data in {str(folder)!r}; give a folder that holds {name}")
    return found[0]


def numbers_in(path: Path) -> Array:
    """Read a table of numbers."""
    lines = [line.split(",") for line in read_text(path).splitlines() if line.strip()]
    try:
        return np.array(lines, dtype=float).reshape(len(lines), -1)
    except ValueError as error:
        raise InputError(f"{path} is not a table of numbers ({error}); get a fresh copy of it") from None

"""The paper's reward functions (sec:synthetic_func, sec:benchmark_function), all to be maximised on the unit cube."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from voxpop.core.errors import Array
from voxpop.core.kernels import Kernel


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
    """A standard test function on a box, turned upside down so that its best value is a maximum."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    value: Callable[[Array], Array]  # of the columns: (d, n) -> (n,)

    def __call__(self, unit: Array) -> Array:
        """Compute the values at points of the unit cube, (n, d)."""
        low, high = np.array(self.low), np.array(self.high)
        return self.value((low + unit * (high - low)).T)


def sphere(x: Array) -> Array:
    """Compute -sum x_i^2."""
    return np.asarray(-np.square(x).sum(axis=0))


def six_hump_camel(x: Array) -> Array:
    """Compute the six-hump camel function, which has two highest points, near (+-0.09, -+0.71)."""
    a, b = x
    return np.asarray(-((4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2))


def michalewicz(x: Array) -> Array:
    """Compute the function of steep ridges, m = 10; its highest point in two dimensions is at (2.20, 1.57)."""
    rank = np.arange(1, len(x) + 1)[:, None]
    return np.asarray((np.sin(x) * np.sin(rank * x**2 / np.pi) ** 20).sum(axis=0))


FUNCTIONS = {
    "sphere": BenchmarkFunction((-5.12,) * 3, (5.12,) * 3, sphere),
    "camel": BenchmarkFunction((-3.0, -2.0), (3.0, 2.0), six_hump_camel),
    "michalewicz": BenchmarkFunction((0.0, 0.0), (np.pi, np.pi), michalewicz),
}


def rescale(values: Array) -> Array:
    """Stretch the values to [-1, 1]."""
    low, high = float(values.min()), float(values.max())
    return 2 * (values - low) / (high - low) - 1 if high > low else np.zeros_like(values)

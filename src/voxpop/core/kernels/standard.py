"""The standard kernels: functions of the distance, linear functions, and a constant."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import lgamma
from typing import Any

import numpy as np
from scipy.special import kve

from voxpop.core.errors import Array, InputError, require_number
from voxpop.core.kernels.distances import Distances, plain_distances
from voxpop.core.kernels.kernel import Kernel

SHORTEST = 1e-150  # shorter length-scales count as this one: their inverse squares would overflow

LengthScale = float | tuple[float, ...]


@dataclass(frozen=True)
class LengthScaled(Kernel):
    """A kernel that first divides each dimension by its length-scale."""

    length_scale: LengthScale = 1.0

    def __post_init__(self) -> None:
        scale: Any = self.length_scale
        if isinstance(scale, tuple | list | np.ndarray):
            scale = tuple(require_number("length_scale", s, above=0) for s in scale)
        else:
            scale = require_number("length_scale", scale, above=0)
        object.__setattr__(self, "length_scale", scale)

    def check(self, points: Array) -> None:
        if isinstance(self.length_scale, tuple) and len(self.length_scale) != points.shape[1]:
            raise InputError(
                f"length_scale has {len(self.length_scale)} values for points of {points.shape[1]} dimensions; "
                "give one number, or one per dimension"
            )


class Stationary(LengthScaled):
    """A function of the scaled distance r = |(x - x') / length_scale|, with k(x, x) = 1.

    A new stationary kernel is a frozen dataclass with one method, `of_squared_distance`.
    """

    @abstractmethod
    def of_squared_distance(self, r2: Array) -> Array:
        """Compute k from r^2, whose memory may be overwritten."""

    def __call__(self, x: Array, y: Array) -> Array:
        return self._evaluate(np.empty((len(x), len(y))), x, y, plain_distances)

    def fill(self, out: Array, x: Array, y: Array, distances: Distances) -> None:
        found = self._evaluate(out, x, y, distances)
        if found is not out:
            out[:] = found

    def _evaluate(self, room: Array, x: Array, y: Array, distances: Distances) -> Array:
        """Compute the matrix; `room`, (m, n), may be used for it."""
        distances(x, y, np.full(x.shape[1], 1 / np.maximum(self.length_scale, SHORTEST)), room)
        return self.of_squared_distance(room)

    def diagonal(self, x: Array) -> Array:
        return np.ones(len(x))


@dataclass(frozen=True)
class SquaredExponential(Stationary):
    """exp(-r^2 / 2): very smooth functions.

    >>> SquaredExponential(0.5)(np.zeros((1, 1)), np.array([[0.0], [0.5]])).round(3)
    array([[1.   , 0.607]])
    """

    def of_squared_distance(self, r2: Array) -> Array:
        r2 *= -0.5
        return np.exp(r2, out=r2)


@dataclass(frozen=True)
class Matern(Stationary):
    """2^(1-nu)/Gamma(nu) (sqrt(2 nu) r)^nu K_nu(sqrt(2 nu) r): functions differentiable ceil(nu) - 1 times.

    >>> Matern(0.5, nu=0.5)(np.zeros((1, 1)), np.array([[0.5]])).round(3)
    array([[0.368]])
    """

    nu: float = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "nu", require_number("nu", self.nu, above=0, most=100))

    def of_squared_distance(self, r2: Array) -> Array:
        s = np.sqrt(2 * self.nu * r2)
        if self.nu == 0.5:
            return np.exp(-s)
        if self.nu == 1.5:
            return (1 + s) * np.exp(-s)
        if self.nu == 2.5:
            return (1 + s + s**2 / 3) * np.exp(-s)
        return self._by_bessel(s)

    def _by_bessel(self, s: Array) -> Array:
        nu = self.nu
        # kve is exp(s) K_nu(s): the exponential is applied in the logarithm, so large s gives 0 and not 0 * inf.
        inside = np.clip(s, 1e-10, 1e4)
        with np.errstate(over="ignore"):
            scaled = kve(nu, inside)
            log_k = nu * np.log(inside) + np.log(scaled) - inside + (1 - nu) * np.log(2.0)
        value = np.exp(np.minimum(log_k - lgamma(nu), 0.0))
        # Where K_nu overflows, s is so small that two terms of the series are exact.
        series = 1 - s**2 / (4 * (nu - 1)) + s**4 / (32 * (nu - 1) * (nu - 2)) if nu > 2 else np.ones_like(s)
        return np.where(s > 1e4, 0.0, np.where((s < 1e-10) | ~np.isfinite(scaled), series, value))


@dataclass(frozen=True)
class Linear(LengthScaled):
    """offset^2 + x'x' of the scaled points: linear functions.

    >>> Linear(offset=1.0)(np.array([[2.0]]), np.array([[3.0]]))
    array([[7.]])
    """

    offset: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "offset", require_number("offset", self.offset, least=0))

    def __call__(self, x: Array, y: Array) -> Array:
        squared = np.square(self.length_scale)
        return np.asarray((x / squared) @ y.T + self.offset**2)

    def diagonal(self, x: Array) -> Array:
        return np.asarray(np.square(x / np.asarray(self.length_scale)).sum(axis=1) + self.offset**2)


@dataclass(frozen=True)
class Constant(Kernel):
    """The same value everywhere: what all actions have in common, such as a person who likes everything.

    >>> Constant(0.5)(np.zeros((1, 2)), np.ones((2, 2)))
    array([[0.5, 0.5]])
    """

    value: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", require_number("value", self.value, above=0))

    def __call__(self, x: Array, y: Array) -> Array:
        return np.full((len(x), len(y)), self.value)

    def diagonal(self, x: Array) -> Array:
        return np.full(len(x), self.value)

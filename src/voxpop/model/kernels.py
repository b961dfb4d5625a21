"""The kernels by name, and what a kernel is.

The paper's printed squared exponential lacks the square and its Matérn the power nu; these are the standard forms
(Rasmussen and Williams 2006, section 4.2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import lgamma
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import kve

from voxpop.errors import Array, InputError, require_array, require_number
from voxpop.runtime.machine import numba_installed

WORTHWHILE = 4096  # entries of a matrix from which compiled code is faster


def plain_distances(x: Array, y: Array, rates: Array, out: Array) -> None:
    """Put the sums over the dimensions of ((x_i - y_j) rate)^2 into `out`, (m, n), for x, (m, d), and y, (n, d)."""
    # One dimension at a time: exact differences (no |x|^2 + |y|^2 - 2 x'y, which cancels) in (m, n) memory.
    dimensions = zip(x.T, y.T, rates, strict=True)
    _squared_steps(*next(dimensions), out)
    for left, right, rate in dimensions:
        out += _squared_steps(left, right, rate, np.empty_like(out))


def _squared_steps(left: Array, right: Array, rate: float, out: Array) -> Array:
    np.subtract.outer(left, np.ascontiguousarray(right), out=out)
    out *= rate
    out *= out
    return out


def fast_distances(x: Array, y: Array, rates: Array, out: Array) -> None:
    """Do the same, to the last bit, in machine code where that is faster; smaller matrices do not import numba."""
    if out.size < WORTHWHILE or not out.flags.c_contiguous or not numba_installed():
        plain_distances(x, y, rates, out)
        return
    from voxpop.runtime.compiled import squared_distances

    squared_distances(np.ascontiguousarray(x), np.asfortranarray(y), rates, out)


BLOCK = 64  # points per matrix when only the diagonal is needed


class Kernel(ABC):
    """A positive semi-definite function of two points.

    A new kernel is a frozen dataclass with one method, `__call__`; the others have defaults, which a kernel that knows
    a faster way may override. To save studies with it, add it to `voxpop.model.kernels.KERNELS`.

    >>> @dataclass(frozen=True)
    ... class Periodic(Kernel):
    ...     period: float = 1.0
    ...
    ...     def __call__(self, x, y):
    ...         return np.exp(-2 * np.sin(np.pi * (x[:, None, 0] - y[None, :, 0]) / self.period) ** 2)
    >>> points = np.array([[0.0], [0.5], [1.0]])
    >>> (2 * Periodic() + Periodic(0.5))(points, points).round(2)
    array([[3.  , 1.27, 3.  ],
           [1.27, 3.  , 1.27],
           [3.  , 1.27, 3.  ]])
    """

    @abstractmethod
    def __call__(self, x: Array, y: Array) -> Array:
        """Compute the matrix k(x_i, y_j), (m, n), of points x, (m, d), and y, (n, d)."""

    def diagonal(self, x: Array) -> Array:
        """Compute the values k(x_i, x_i), (m,)."""
        values = np.empty(len(x))
        for start in range(0, len(x), BLOCK):
            block = x[start : start + BLOCK]
            values[start : start + BLOCK] = self(block, block).diagonal()
        return values

    def fill(self, out: Array, x: Array, y: Array) -> None:
        """Put the matrix k(x_i, y_j) into `out`, (m, n); for large matrices this is quicker."""
        out[:] = self(x, y)

    def check(self, points: Array) -> None:  # noqa: B027  most kernels take any points
        """Refuse points for which this kernel is not defined."""

    def __add__(self, other: Kernel) -> Kernel:
        return Sum(self, other)

    def __mul__(self, other: Kernel | float) -> Kernel:
        return Product(self, other) if isinstance(other, Kernel) else Scaled(self, float(other))

    __rmul__ = __mul__


@dataclass(frozen=True)
class _Pair(Kernel):
    """Two kernels, combined entry by entry."""

    combine: ClassVar[np.ufunc]
    left: Kernel
    right: Kernel

    def __call__(self, x: Array, y: Array) -> Array:
        return np.asarray(self.combine(self.left(x, y), self.right(x, y)))

    def diagonal(self, x: Array) -> Array:
        return np.asarray(self.combine(self.left.diagonal(x), self.right.diagonal(x)))

    def fill(self, out: Array, x: Array, y: Array) -> None:
        other = np.empty_like(out)
        self.left.fill(out, x, y)
        self.right.fill(other, x, y)
        self.combine(out, other, out=out)

    def check(self, points: Array) -> None:
        self.left.check(points)
        self.right.check(points)


class Sum(_Pair):
    """k1 + k2."""

    combine = np.add


class Product(_Pair):
    """k1 * k2."""

    combine = np.multiply


@dataclass(frozen=True)
class Scaled(Kernel):
    """scale * k."""

    kernel: Kernel
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", require_number("the factor of a kernel", self.scale, above=0))

    def __call__(self, x: Array, y: Array) -> Array:
        return self.scale * self.kernel(x, y)

    def diagonal(self, x: Array) -> Array:
        return self.scale * self.kernel.diagonal(x)

    def fill(self, out: Array, x: Array, y: Array) -> None:
        self.kernel.fill(out, x, y)
        out *= self.scale

    def check(self, points: Array) -> None:
        self.kernel.check(points)


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
        r2 = np.empty((len(x), len(y)))
        plain_distances(x, y, self._rates(x), r2)
        return self.of_squared_distance(r2)

    def fill(self, out: Array, x: Array, y: Array) -> None:
        fast_distances(x, y, self._rates(x), out)
        found = self.of_squared_distance(out)
        if found is not out:
            out[:] = found

    def _rates(self, x: Array) -> Array:
        return np.full(x.shape[1], 1 / np.maximum(self.length_scale, SHORTEST))

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


@dataclass(frozen=True, eq=False)
class Precomputed(Kernel):
    """A given covariance matrix; the points are its row numbers.

    >>> Precomputed([[1.0, 0.5], [0.5, 2.0]]).diagonal(np.array([[0.0], [1.0]]))
    array([1., 2.])
    """

    matrix: Array

    def __post_init__(self) -> None:
        matrix = require_array("kernel matrix", self.matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
            raise InputError(f"a kernel matrix must be square and not empty, got shape {matrix.shape}")
        scale = float(np.abs(matrix).max())
        if scale == 0:
            raise InputError("the kernel matrix is all zero; it must give at least one action a positive variance")
        asymmetry = float(np.abs(matrix - matrix.T).max())
        if asymmetry > 1e-8 * scale:
            raise InputError(
                f"the kernel matrix is not symmetric (largest difference {asymmetry:.3g}); "
                "average it with its transpose"
            )
        matrix = (matrix + matrix.T) / 2
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        if smallest < -1e-8 * scale * len(matrix):
            raise InputError(
                f"the kernel matrix is not positive semi-definite (smallest eigenvalue {smallest:.3g}); "
                f"add at least {-smallest:.3g} to its diagonal"
            )
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    def __call__(self, x: Array, y: Array) -> Array:
        return np.asarray(self.matrix[np.ix_(self._rows(x), self._rows(y))])

    def diagonal(self, x: Array) -> Array:
        return np.asarray(np.maximum(self.matrix.diagonal()[self._rows(x)], 0.0))

    def check(self, points: Array) -> None:
        if points.shape[1] != 1 or not np.array_equal(np.sort(points[:, 0]), np.arange(len(self.matrix))):
            raise InputError(
                f"a precomputed kernel of {len(self.matrix)} rows takes the actions 0 to {len(self.matrix) - 1} "
                "as points; use Problem.of_matrix"
            )

    @staticmethod
    def _rows(x: Array) -> NDArray[np.intp]:
        return x[:, 0].astype(np.intp)


KERNELS: dict[str, type[Kernel]] = {
    "squared-exponential": SquaredExponential,
    "matern": Matern,
    "linear": Linear,
    "constant": Constant,
    "precomputed": Precomputed,
    "sum": Sum,
    "product": Product,
    "scaled": Scaled,
}

"""What a kernel is: a similarity of two actions, k(x, x'). Sums, products and multiples of kernels are kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voxpop.core.errors import Array, require_number
from voxpop.core.kernels.distances import Distances

BLOCK = 64  # points per matrix when only the diagonal is needed


class Kernel(ABC):
    """A positive semi-definite function of two points.

    A new kernel is a frozen dataclass with one method, `__call__`; the others have defaults, which a kernel that knows
    a faster way may override. To save studies with it, add it to `voxpop.core.kernels.KERNELS`.

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

    def fill(self, out: Array, x: Array, y: Array, distances: Distances) -> None:
        """Put the matrix k(x_i, y_j) into `out`, (m, n), and compute any distances with the given code."""
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

    def fill(self, out: Array, x: Array, y: Array, distances: Distances) -> None:
        other = np.empty_like(out)
        self.left.fill(out, x, y, distances)
        self.right.fill(other, x, y, distances)
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

    def fill(self, out: Array, x: Array, y: Array, distances: Distances) -> None:
        self.kernel.fill(out, x, y, distances)
        out *= self.scale

    def check(self, points: Array) -> None:
        self.kernel.check(points)

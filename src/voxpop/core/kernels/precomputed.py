"""A kernel that is given as a covariance matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxpop.core.errors import Array, InputError, require_array
from voxpop.core.kernels.kernel import Kernel


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

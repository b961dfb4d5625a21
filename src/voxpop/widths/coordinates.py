"""Coordinates in which the noise of some averages is white and their kernel matrix diagonal."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dtrtri

from voxpop.core.errors import Array
from voxpop.widths.search import EPS


def shared_coordinates(gram: Array, noise: Array) -> tuple[Array, Array]:
    """Return theta, rising, and a matrix Z with Z K Z' = diag theta and Z N Z' = I; K may be singular.

    >>> theta, basis = shared_coordinates(np.array([[4.0, 0.0], [0.0, 0.0]]), np.diag([2.0, 0.5]))
    >>> theta.round(6).tolist(), np.abs(basis).round(3).tolist()
    ([0.0, 2.0], [[0.0, 1.414], [0.707, 0.0]])
    """
    # A little more noise than there is makes the factorisation possible; the widths use the noise as it is.
    covariance = noise.copy()
    covariance.flat[:: len(noise) + 1] *= 1 + 4 * len(noise) * EPS
    scale = np.sqrt(covariance.diagonal())  # factorised as a correlation matrix: arms differ widely in noise
    root = np.linalg.cholesky(covariance / np.outer(scale, scale))
    whiten = dtrtri(root, lower=1)[0] / scale
    inner = whiten @ gram @ whiten.T
    theta, vectors = np.linalg.eigh((inner + inner.T) / 2)
    return np.maximum(theta, 0.0), np.asarray(vectors.T @ whiten)

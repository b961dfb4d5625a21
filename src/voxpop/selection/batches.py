"""The batches of a phase as they are played: the rounds of each action, and the information gained."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from voxpop.core.errors import Array
from voxpop.core.problem import Indices, Problem


class Batches:
    """The batches played so far, merged by action, and the information they gained."""

    def __init__(self, problem: Problem, candidates: Indices) -> None:
        self.problem, self.candidates = problem, candidates
        self.prior = problem.prior_variance[candidates]
        self.pulls: dict[int, int] = {}  # position among the candidates -> rounds, in order of first play
        self.batches = 0
        self.information_gain = 0.0  # 1/2 log det(I + W^1/2 K W^1/2 / lambda)

    def record(self, position: int, rounds: int, variance: float) -> None:
        """Count a batch of the action at this position; `variance` is its variance before the batch."""
        self.pulls[position] = self.pulls.get(position, 0) + rounds
        self.batches += 1
        self.information_gain += 0.5 * math.log1p(variance * rounds / self.problem.ridge)

    def merged(self, rows: int) -> tuple[Indices, Array] | None:
        """Return the distinct arms and the factor L of their pulls; None if L has more than half of `rows` rows."""
        if 2 * len(self.pulls) > rows:
            return None
        arms = self.candidates[np.fromiter(self.pulls, dtype=np.intp)]
        pulls = np.fromiter(self.pulls.values(), dtype=float)
        try:
            return arms, cholesky(self.problem.regularised(arms, pulls), lower=True)
        except LinAlgError:  # too close to singular for a factorisation from scratch: keep the sequential one
            return None

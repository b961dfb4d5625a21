"""Whether the answers of all waves fit the model, and how far the norm bound must be raised if they do not.

The bound is only raised to B 2^j. A statement that assumes |f| <= B 2^j is made at a share s_j of its level, and the
shares add up to one: whichever j the answers then choose, the probability that |f| <= B 2^j and some statement made
under it is false stays at most delta.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from voxpop.belief.check import misfit, smallest_norm
from voxpop.belief.rows import all_rows
from voxpop.core.phases import Answered
from voxpop.core.problem import Problem

FIRST_SHARE = 0.8  # of the level, for statements that assume the given norm bound
ALARM = 0.01  # the probability of a false alarm
MARGIN = 2.0  # the bound is raised beyond the least norm that fits
MOST_RAISES = 40


@dataclass(frozen=True)
class Fit:
    """How well the model fits."""

    norm_bound: float  # to assume from now on
    warning: str  # empty if nothing is wrong


def check(problem: Problem, history: Iterable[Answered], norm_bound: float) -> Fit:
    """Compare all averages with the model."""
    rows = all_rows(problem, history)
    gram, numbers = problem.kernel(rows.points, rows.points), len(rows)
    usual = numbers + 2 * math.sqrt(2 * numbers)
    if misfit(gram, rows.residual, rows.noise, norm_bound) <= usual:
        return Fit(norm_bound, "")
    least = smallest_norm(gram, rows.residual, rows.noise, usual)
    if not math.isfinite(least):
        return Fit(norm_bound, "noise")
    raised = norm_bound
    while raised < MARGIN * least:
        raised *= 2
    return Fit(raised, "")


def share_of_raise(given: float, assumed: float) -> float:
    """Return the share of a level for statements under a norm bound that was raised to 2^j times the given one."""
    raises = round(math.log2(assumed / given))
    return FIRST_SHARE if raises == 0 else (1 - FIRST_SHARE) * 2.0**-raises

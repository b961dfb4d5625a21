"""Whether the answers of all waves fit the model, and what is assumed from then on if they do not.

The norm bound is only raised to B 2^j. A statement that assumes |f| <= B 2^j is made at a share s_j of its level, and
the shares add up to one: whichever j the answers then choose, the probability that |f| <= B 2^j and some statement made
under it is false stays at most delta. The trigger is sensitive, because a bound that is raised for nothing only costs
precision; the warning is not, and false with probability ALARM at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from voxpop.belief.check import clipping_misfit, misfit, misfit_limit, smallest_norm
from voxpop.belief.rows import Rows, all_rows, excess_scatter, total_noise
from voxpop.core.problem import Problem
from voxpop.core.state import History

FIRST_SHARE = 0.8  # of the level, for statements that assume the given norm bound
ALARM = 0.01  # the probability of a false alarm
WORTH_SAYING = 2.0  # times the model's variance; people with heavy tails seem to differ a little more than they do
MARGIN = 2.0  # the bound is raised to this many times the least norm that fits


@dataclass(frozen=True)
class Fit:
    """How well the model fits."""

    norm_bound: float  # to assume from now on
    pilot: bool  # False if the pilot contradicts the waves
    consistent: bool  # False if no function at all fits the waves, so that nothing can be certified
    warning: str  # what was found and what to do; empty if nothing is wrong


def check(problem: Problem, without_pilot: Problem, history: History, norm_bound: float, pilot: bool) -> Fit:
    """Compare all averages with the model."""
    clipped = sum(
        clipping_misfit(total_noise(problem, plan, feedback), feedback.clipping)
        for plan, feedback in history
        if feedback.clipping is not None
    )
    waves = all_rows(without_pilot, history)
    limit = misfit_limit(len(waves), ALARM, clipping=clipped)
    alarm = _misfit(problem, waves, norm_bound) > limit
    raised, warnings = _raised(problem, waves, norm_bound, clipped), [_people(problem, history)]
    consistent = math.isfinite(raised)
    if not consistent:
        raised = norm_bound
        warnings.append(
            "the waves contradict each other by more than their noise: bias_std or noise_std is too small, or rewards "
            "changed between the waves; nothing is certified, and a new calibration with people of today is needed"
        )
    elif alarm:
        warnings.append(
            f"no function of norm {norm_bound:.3g} fits the answers: the norm bound was raised to {raised:.3g}; "
            "calibrate again, with a rougher kernel or a larger margin"
        )
    if pilot and problem.pilot:
        everything = all_rows(problem, history)
        pilot = _misfit(problem, everything, raised) <= misfit_limit(len(everything), ALARM, clipping=clipped)
    if problem.pilot and not pilot:
        warnings.append(
            "the pilot contradicts the waves, which count alone from now on; were its people drawn like these?"
        )
    return Fit(raised, pilot, consistent, "; ".join(filter(None, warnings)))


def share_of_raise(given: float, assumed: float) -> float:
    """Return the share of a level for statements under a norm bound that was raised to 2^j times the given one."""
    raises = round(math.log2(assumed / given))
    return FIRST_SHARE if raises == 0 else (1 - FIRST_SHARE) * 2.0**-raises


def _misfit(problem: Problem, rows: Rows, norm_bound: float) -> float:
    return misfit(problem.kernel(rows.points, rows.points), rows.residual, rows.noise, norm_bound)


def _raised(problem: Problem, rows: Rows, norm_bound: float, clipped: float) -> float:
    """Return the norm bound, doubled until it exceeds the least norm that fits by a margin; infinite if none fits."""
    usual = (math.sqrt(len(rows) + 2 * math.sqrt(2 * len(rows))) + math.sqrt(clipped)) ** 2
    if _misfit(problem, rows, norm_bound) <= usual:
        return norm_bound
    gram = problem.kernel(rows.points, rows.points)
    least = smallest_norm(gram, rows.residual, rows.noise, usual)
    if math.isinf(least):  # no function fits as well as usual; does any fit at all?
        least = smallest_norm(gram, rows.residual, rows.noise, misfit_limit(len(rows), ALARM, clipping=clipped))
    if math.isinf(least):
        return math.inf
    return norm_bound * 2.0 ** math.ceil(math.log2(max(1.0, MARGIN * least / norm_bound)))


def _people(problem: Problem, history: History) -> str:
    """Say that people differ more than the model says, if the last wave shows it."""
    plan, feedback = history[-1]
    excess = float(excess_scatter(problem, plan, feedback).max())
    if excess < WORTH_SAYING:
        return ""
    return (
        f"people differ {math.sqrt(excess):.2g} times as much as bias_std and noise_std say, and their noise counts as "
        "what was seen; calibrate again with more people"
    )

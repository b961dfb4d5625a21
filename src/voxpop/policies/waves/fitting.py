"""Whether the model still fits what was planned with, and what is assumed if it does not.

A norm bound that the answers refute is not raised alone: k (k / max k)^(q - 1) has shorter length-scales, and a rougher
function has a far smaller norm there. Of the models that fit, the one under which the answers prove most is assumed.
All of this is decided by plan parts, so that it costs the sealed statement nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from voxpop.gp.belief import POWERS, Rows, dimensions, missing_part, rows_of, total_noise, within
from voxpop.gp.check import clipping_misfit, misfit, misfit_limit, smallest_norm
from voxpop.model.problem import Problem
from voxpop.model.state import History
from voxpop.model.waves import Feedback, Plan
from voxpop.policies.waves.sealing import LEVELS, Model, faded, powered

ALARM = 0.01  # the probability of a false alarm
DOUBT = 1e-3  # the probability that Gaussian people who follow the model are found to differ too much
WORTH_SAYING = 2.0  # times the model's variance; people with heavy tails seem to differ a little more than they do
UNSEEN = (
    "rounds that move everybody's rewards would look the same, and nothing has measured them here: give a history of "
    "the reward to calibrate"
)
MARGIN = 1.5  # a bound is raised to this many times the least norm that fits


@dataclass(frozen=True)
class Fit:
    """How well the model fits."""

    model: Model  # to assume from now on
    pilot: bool  # False if the pilot contradicts the waves
    consistent: bool  # False if no function at all fits the waves, so that nothing can be certified
    warning: str  # what was found and what to do; empty if nothing is wrong


def model_check(
    problem: Problem,
    pilot: Rows | None,
    history: History,
    model: Model,
    judge: Callable[[Model], float],
    moved: Sequence[float] = (),
    drawn: float = 0.0,
) -> Fit:
    """Compare all averages with the model; `judge` says which certificate to expect under another one.

    By `moved` rewards may have changed at most since each wave, for the drift that is stated. If the same people answer
    in every wave, their mean differs from f by a norm of at most `drawn`.
    """
    clipped = sum(
        clipping_misfit(total_noise(problem, plan, feedback), feedback.clipping)
        for plan, feedback in history
        if feedback.clipping is not None
    )
    each = [rows_of(problem, *wave, own=True) for wave in history]
    if moved:
        each = [faded(problem, rows, much, 1.0) for rows, much in zip(each, moved, strict=True)]
    waves = Rows.joined(each, dimensions(problem))
    alarm = _misfit(problem, waves, model, drawn) > misfit_limit(len(waves), ALARM, clipping=clipped)
    found, warnings = _fitting(problem, waves, model, clipped, judge, drawn), []
    drifted = "" if found == model else drift_check(problem, history, each, model, drawn)
    if drifted:  # no norm bound explains what changed in time
        found = None
        warnings.append(drifted)
    elif found is None:
        warnings.append(
            "the waves contradict each other by more than their noise: bias_std or noise_std is too small, or rewards "
            "changed between the waves; nothing is certified, and a new calibration with people of today is needed"
        )
    elif alarm:
        shorter = f" and every similarity is taken to the power of {found.power}" if found.power > model.power else ""
        warnings.append(
            f"no function of norm {model.norm_bound:.3g} fits the answers: the norm bound was raised to "
            f"{found.norm_bound:.3g}{shorter}; calibrate again, with a rougher kernel or a larger margin"
        )
    if warnings and not problem.shocks.known:
        warnings.append(UNSEEN)
    assumed = found or model
    if pilot is not None and len(pilot):
        everything = Rows.joined([pilot, waves], dimensions(problem))
        limit = misfit_limit(len(everything), ALARM, clipping=clipped)
        if _misfit(problem, everything, assumed, drawn) > limit:
            pilot = None
    if problem.pilot and pilot is None:
        warnings.append(
            "the pilot contradicts the waves, which count alone from now on; were its people drawn like these?"
        )
    return Fit(assumed, pilot is not None, found is not None, "; ".join(warnings))


def _misfit(problem: Problem, rows: Rows, model: Model, drawn: float) -> float:
    kernel = powered(problem.kernel, problem.largest_variance, model.power)
    bound = model.norm_bound + model.rougher(dimensions(problem)) * drawn
    return misfit(kernel(rows.points, rows.points), rows.residual, rows.noise, bound)


def _fitting(
    problem: Problem, rows: Rows, model: Model, clipped: float, judge: Callable[[Model], float], drawn: float
) -> Model | None:
    """Return the model, or if it does not fit the best one that does; None if no function fits the answers."""
    usual = (math.sqrt(len(rows) + 2 * math.sqrt(2 * len(rows))) + math.sqrt(clipped)) ** 2
    if _misfit(problem, rows, model, drawn) <= usual:
        return model
    limit = misfit_limit(len(rows), ALARM, clipping=clipped)
    # Answers are clipped to what the kernel allows, so its powers are for answers that are not.
    powers, least_bound = (POWERS, problem.norm_bound) if clipped == 0 else ((model.power,), model.norm_bound)
    found = []
    for power in powers:
        gram = powered(problem.kernel, problem.largest_variance, power)(rows.points, rows.points)
        least = smallest_norm(gram, rows.residual, rows.noise, usual)
        if math.isinf(least):  # no function fits as well as usual; does any fit at all?
            least = smallest_norm(gram, rows.residual, rows.noise, limit)
        nested = least_bound * (power / powers[0]) ** (dimensions(problem) / 4)
        own = Model(nested, power).rougher(dimensions(problem)) * drawn
        found.append(Model(max(nested, MARGIN * least - own), power))
    found = [one for one in found if math.isfinite(one.norm_bound)]
    return min(found, key=judge, default=None)


def drift_check(problem: Problem, history: History, each: Sequence[Rows], model: Model, drawn: float) -> str:
    """Say that rewards changed between two waves, if they contradict each other at the same arms beyond doubt.

    What a whole wave has in common may be its rounds, and is left out. Each of the two must fit the model alone.
    """
    fits = [_misfit(problem, rows, model, drawn) <= misfit_limit(len(rows), ALARM) for rows in each]
    pairs = [(i, j) for j in range(len(each)) for i in range(j) if fits[i] and fits[j]]
    found = []
    for i, j in pairs:
        arms, one, other = np.intersect1d(history[i].plan.arms, history[j].plan.arms, return_indices=True)
        if len(arms) < 2:
            continue
        change = each[j].residual[other] - each[i].residual[one]
        noise = each[i].noise[np.ix_(one, one)] + each[j].noise[np.ix_(other, other)]
        square = float(change @ np.linalg.solve(noise + LEVELS * float(noise.diagonal().max()), change))
        size = math.sqrt(max(float(np.var(change, ddof=1)) - within(noise), 0.0))
        found.append((len(pairs) * float(chdtrc(len(arms) - 1, square)), size, i, j))
    chance, size, i, j = min(found, default=(1.0, 0.0, 0, 0))
    if chance > DOUBT or not size:
        return ""
    apart = sum(history[place].plan.length for place in range(i, j))
    return (
        f"the rewards of decisions seem to have changed against each other between wave {i + 1} and wave {j + 1}, by "
        f"about {size:.2g}; nothing is certified, so begin a new study with drift = {2 * size / apart:.1g} or more"
    )


def people_check(problem: Problem, plan: Plan, feedback: Feedback) -> str:
    """Say that people differ more than was expected, if a wave shows it beyond doubt."""
    if feedback.variances is None or feedback.freedom <= 0:
        return ""
    excess = float((feedback.variances / problem.answer_noise(plan.arms, plan.lived).diagonal()).max())
    chance = len(plan.arms) * float(chdtrc(feedback.freedom, feedback.freedom * excess))
    if excess < WORTH_SAYING or chance > DOUBT:
        return ""
    return (
        f"people differ {math.sqrt(excess):.2g} times as much as was expected, and count as they were seen; "
        "calibrate again with more people"
    )


def missing_check(problem: Problem, plan: Plan, feedback: Feedback) -> str:
    """Say that some of the people who answer in every wave did not, and how much that may matter."""
    if not (missing := missing_part(plan, feedback)):
        return ""
    apart = problem.most_differing * math.sqrt(missing * problem.largest_variance)
    return (
        f"{plan.same - feedback.count:,} of the {plan.same:,} people who answer in every wave did not answer in wave "
        f"{plan.wave}: the mean of all may be another by {apart:.2g} or so, which is "
        "added to what is certified, if they did not stay away because of what they would have said"
    )


def rounds_check(shown: Problem) -> str:
    """Say that rounds move everybody's rewards, if the residuals of arms and blocks show it beyond doubt."""
    shocks = shown.shocks
    if shocks.people <= 0 or shocks.variance <= shown.shock_std**2:
        return ""
    if chdtrc(shocks.freedom, shocks.freedom * (1 + shocks.variance / shocks.people)) > DOUBT:
        return ""
    return (
        f"what happens to everybody in a round moves rewards by {math.sqrt(shocks.variance):.2g}, more than was "
        "assumed: decisions are compared over more rounds; give a history of the reward to plan for it from the start"
    )

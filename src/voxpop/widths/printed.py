"""The paper's width: how far the posterior mean can be from the truth, and what privacy adds.

It holds with probability 1 - beta for each action and phase if f has norm at most B, because the arms and pulls of a
phase were chosen before its feedback.
"""

from __future__ import annotations

import math

import numpy as np

from voxpop.core.errors import Array
from voxpop.core.phases import Feedback
from voxpop.core.problem import Indices, Problem
from voxpop.selection.greedy import greedy_information_gain
from voxpop.widths.affine import root_form


def printed_width(problem: Problem, variance: Array, at: Indices, count: float, norm_bound: float) -> Array:
    """Compute eq:confidence_width, with the factor v on its first two terms for people f_u ~ GP(f, v^2 k)."""
    spread = problem.bias_std * math.sqrt(2 * math.log(1 / problem.beta) / count)
    deviation = np.sqrt(variance)
    return np.asarray(spread * np.sqrt(problem.prior_variance[at]) + spread * deviation + norm_bound * deviation)


def printed_privacy_width(problem: Problem, weights: Array, feedback: Feedback, ratio: float) -> Array | float:
    """Compute what privacy adds to the printed width: the last term of eq:confidence_width_dp.

    As printed, sigma_n^2 is the noise's variance times 2 C^2 gamma_T, with gamma_T as greedy selection finds it. Noise
    that was calibrated exactly is accounted for exactly: by a'(covariance) a of the estimate's own weights a.
    """
    if feedback.noise is None:
        return 0.0
    z = math.sqrt(2 * math.log(1 / problem.beta))
    if feedback.printed:
        variance = float(feedback.noise.diagonal().max())
        return z * math.sqrt(variance * 2 * ratio**2 * greedy_information_gain(problem))
    width = z * root_form(weights, feedback.noise)
    return width if feedback.clipping is None else width + root_form(weights, feedback.clipping)

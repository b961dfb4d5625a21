"""Single answers that are not Gaussian: how skewed they are, how many people that takes, and a mean that withstands it.

The average of U people is nearly Gaussian in the middle, but bounds are made of its tails. To first order in the
skewness g of single answers, the tail of a standardised average is Phi(-z) exp(z^3 g / (6 sqrt(U))): it is off by a
factor of two where the exponent is ln 2.
"""

from __future__ import annotations

import math

import numpy as np

from voxpop.calibration.pilot import Pilot
from voxpop.core.errors import Array, InputError, require_array, require_number

FEWEST = 8  # answers to an action below which its own skewness says nothing


def skewness(pilot: Pilot) -> float:
    """Estimate the largest absolute skewness of single answers over the pilot's actions, about each action's mean.

    A sample of n cannot show a skewness much above sqrt(n); the estimate is the one adjusted for that (Fisher and
    Pearson's). If every action has fewer than `FEWEST` answers, their standardised deviations are taken together.
    """
    standardised = [_standardised(pilot.averages[pilot.actions == action]) for action in np.unique(pilot.actions)]
    samples = [sample for sample in standardised if len(sample) >= FEWEST] or [np.concatenate(standardised)]
    adjusted = [
        float(np.mean(sample**3)) * math.sqrt(len(sample) * (len(sample) - 1)) / (len(sample) - 2)
        for sample in samples
        if len(sample) > 2
    ]
    return max(map(abs, adjusted), default=0.0)


def _standardised(answers: Array) -> Array:
    """Return the answers with mean 0 and variance 1; none if they are all equal."""
    spread = float(np.std(answers))
    return (answers - answers.mean()) / spread if spread > 1e-9 * float(np.abs(answers).max()) else np.empty(0)


def people_needed(z: float, skewness: float) -> int:
    """Return how many people it takes until a Gaussian tail at z is off by less than a factor of two.

    >>> people_needed(2.5, 2.7), people_needed(4.75, 2.7)
    (103, 4842)
    """
    z, skewness = require_number("z", z, above=0), require_number("skewness", skewness, least=0)
    return max(1, math.ceil((z**3 * skewness / (6 * math.log(2))) ** 2))


def catoni_mean(values: object, variance: float, level: float) -> tuple[float, float]:
    """Estimate a mean from single answers of at most this variance, whatever their tails; return it and its width.

    The mean is at most estimate + width with probability 1 - level, and at least estimate - width with probability
    1 - level (Catoni, 2012, one side at a time).

    >>> [round(number, 4) for number in catoni_mean([0.0, 1.0] * 50, 0.25, 0.01)]
    [0.5, 0.1593]
    """
    from scipy.optimize import brentq

    answers = require_array("values", values).ravel()
    variance, level = require_number("variance", variance, above=0), require_number("level", level, above=0, below=1)
    count, doubt = len(answers), 2 * math.log(1 / level)
    if count <= doubt:
        raise InputError(f"a level of {level:g} needs more than {doubt:.3g} answers, got {count}; ask more people")
    width = math.sqrt(variance * doubt / (count - doubt))
    scale = math.sqrt(doubt / (count * (variance + width**2)))

    def influence(mean: float) -> float:
        away = scale * (answers - mean)
        return float(np.sum(np.sign(away) * np.log1p(np.abs(away) + 0.5 * away**2)))

    low, high = float(answers.min()), float(answers.max())
    return float(brentq(influence, low, high)) if low < high else low, width

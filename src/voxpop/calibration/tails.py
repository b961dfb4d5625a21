"""Single answers that are not Gaussian: how skewed they are, how many people that takes, and a mean that withstands it.

Also the one answer, or the one person, that outweighs all others, which is often a typing error.

The average of U people is nearly Gaussian in the middle, but bounds are made of its tails. To first order in the
skewness g of single answers, the tail of a standardised average is Phi(-z) exp(z^3 g / (6 sqrt(U))): it is off by a
factor of two where the exponent is ln 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc

from voxpop.calibration.pilot import Pilot, cells_of
from voxpop.errors import Array, InputError, require_array, require_number
from voxpop.model.problem import Indices

FEWEST = 8  # answers to an action below which its own skewness says nothing
SHARED = 3  # answers to most actions; with fewer, neighbours are taken together
OUTWEIGHS = 0.4  # an outlier makes up at least this share of how much people differ
CHANCE = 0.001  # and Gaussian people would show one with at most this probability


def skewness(pilot: Pilot) -> float:
    """Estimate the largest absolute skewness of single answers over the pilot's actions, about each action's mean."""
    return abs(signed_skewness(pilot))


def signed_skewness(pilot: Pilot) -> float:
    """Estimate the skewness of the action whose answers are most skewed: positive if few answers are far above.

    A sample of n cannot show a skewness much above sqrt(n); the estimate is the one adjusted for that (Fisher and
    Pearson's). If every action has fewer than `FEWEST` answers, their standardised deviations are taken together.
    """
    standardised = [_standardised(pilot.averages[records]) for records in _comparable(pilot)]
    samples = [sample for sample in standardised if len(sample) >= FEWEST] or [np.concatenate(standardised)]
    adjusted = [
        float(np.mean(sample**3)) * math.sqrt(len(sample) * (len(sample) - 1)) / (len(sample) - 2)
        for sample in samples
        if len(sample) > 2
    ]
    return max(adjusted, key=abs, default=0.0)


def _comparable(pilot: Pilot) -> list[Indices]:
    """Return the records that are compared: those of an action, and of its neighbours if few people share one."""
    answers = np.bincount(pilot.actions, minlength=len(pilot.decisions)).astype(float)
    tried = np.flatnonzero(answers)
    least = 1 if np.median(answers[tried]) >= SHARED else FEWEST
    cells = cells_of(pilot.decisions.points[tried], answers[tried], least)
    return [np.flatnonzero(np.isin(pilot.actions, tried[cell])) for cell in cells]


def _standardised(answers: Array) -> Array:
    """Return the answers with mean 0 and variance 1; none if they are all equal."""
    spread = float(np.std(answers))
    return (answers - answers.mean()) / spread if spread > 1e-9 * float(np.abs(answers).max()) else np.empty(0)


@dataclass(frozen=True)
class Outlier:
    """An answer, or all answers of a person, and the share that it has in how much people differ."""

    person: int
    record: int | None  # None: no single answer, but the person as a whole
    share: float


def outlier(pilot: Pilot) -> Outlier | None:
    """Find the answer that outweighs all others, or the person whose answers do; None if nobody's do.

    One of n Gaussian people has the share (n - 1)/n b of the sum of squares about their mean, b ~ Beta(1/2, (n - 2)/2):
    this is Grubbs's test. People who differ in several directions have smaller shares, so fewer are suspected.
    """
    deviations = np.zeros(len(pilot.averages))
    for at in _comparable(pilot):
        deviations[at] = pilot.averages[at] - pilot.averages[at].mean()
    squares = deviations**2
    total, people = float(squares.sum()), pilot.person_count
    if people < 3 or not total > 0:
        return None
    own = np.bincount(pilot.people, weights=squares) / total
    person, record = int(own.argmax()), int(squares.argmax())

    def stands_out(share: float) -> bool:
        b = min(share * people / (people - 1), 1.0)
        return share >= OUTWEIGHS and people * (1 - float(betainc(0.5, (people - 2) / 2, b))) < CHANCE

    if stands_out(float(squares[record]) / total):
        return Outlier(int(pilot.people[record]), record, float(squares[record]) / total)
    return Outlier(person, None, float(own[person])) if stands_out(float(own[person])) else None


def people_needed(z: float, skewness: float) -> int:
    """Return how many people it takes until a Gaussian tail at z is off by less than a factor of two.

    >>> people_needed(2.5, 2.7), people_needed(4.75, 2.7)
    (103, 4842)
    """
    z, skewness = require_number("z", z, above=0), require_number("skewness", skewness, least=0)
    return max(1, math.ceil((z**3 * skewness / (6 * math.log(2))) ** 2))


def catoni_mean(values: object, variance: float, level: float) -> tuple[float, float]:
    """Estimate a mean from single answers of at most this variance, whatever their tails; return it and its width.

    The mean mu is at most estimate + width with probability 1 - level, and at least estimate - width with probability
    1 - level (Catoni, 2012, one side at a time). Let psi(x) = sign(x) log(1 + |x| + x^2 / 2), so that
    -log(1 - x + x^2 / 2) <= psi(x) <= log(1 + x + x^2 / 2), and let the estimate solve sum psi(a (y_i - t)) = 0. At
    t = mu - w, E exp(-sum psi(a (y_i - t))) <= (1 - a w + a^2 (s^2 + w^2) / 2)^n, so with probability 1 - level

        sum psi(a (y_i - t)) >= n (a w - a^2 (s^2 + w^2) / 2) - log(1 / level).

    The right side vanishes for w^2 = 2 s^2 log(1 / level) / (n - 2 log(1 / level)) and
    a^2 = 2 log(1 / level) / (n (s^2 + w^2)). Then the sum is not negative at mu - w, and as it falls in t, the estimate
    is at least mu - w. The other side is the same.

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

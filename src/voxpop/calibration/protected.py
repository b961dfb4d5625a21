"""A pilot whose people are promised privacy: what leaves their answers is a few sums with noise.

Every answer is clipped to a range that the operator knows beforehand, and scaled to t in [-1, 1]. About the people of a
group, who tried the same a actions equally often, three things are released together, once:

    sum of t (a numbers),    sum of |t|^2 / a,    sum of (mean of t)^2.

The last two say how much people differ, in all and in what they think of everything: the mean over the group and the
two variances tr S / a and 1'S1 / a^2 are what the constants are fitted to (`likelihood.py`). The weights make replacing
one person's answers move the whole vector by at most 1. Groups share no person, so each has the whole budget.

What is public is the design: which actions were tried, how often, and by how many people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from voxpop.calibration.pilot import Group, Moments, Pilot
from voxpop.errors import Array, InputError, require_number
from voxpop.model.problem import Indices
from voxpop.privacy.gaussian import noise_multiplier, require_delta, require_epsilon
from voxpop.privacy.sources import Integers, Source

STEP = 2.0**-30  # of the integer grid on which noise is added
WEIGHT = 0.5  # of each of the two squares; they lie in [0, 1], so replacing a person moves each by at most this
MEAN = 0.5 * math.sqrt(1 - 2 * WEIGHT**2)  # of t / sqrt(a), which lies in the unit ball and moves by at most 2
NARROWEST, WIDEST = 1e-60, 1e60  # half the width of a range: its fourth power, and the noise's, must be floats


@dataclass(frozen=True)
class Protection:
    """What a pilot's people are promised, and the range of rewards that is known without looking at their answers.

    >>> Protection(-2, 6, epsilon=5.0).middle
    2.0
    """

    low: float
    high: float
    epsilon: float
    delta: float = 1e-6

    def __post_init__(self) -> None:
        require_number("the lowest reward", self.low)
        require_number("the highest reward", self.high, above=self.low)
        if not NARROWEST <= self.half <= WIDEST:
            raise InputError(
                f"the range of rewards must be between {2 * NARROWEST:g} and {2 * WIDEST:g} wide, got {self.low:g} to "
                f"{self.high:g}; measure rewards in another unit"
            )
        require_epsilon(self.epsilon)
        require_delta(self.delta)

    @property
    def half(self) -> float:
        """Half the width of the range."""
        return (self.high - self.low) / 2

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return self.low + self.half

    def scale(self, rewards: Array) -> Array:
        """Scale rewards to [-1, 1], whatever they hold: NaN counts as the middle of the range.

        The second clipping is for a range that is narrow and far from 0, where the middle is rounded.
        """
        clipped = np.clip(np.where(np.isnan(rewards), self.middle, rewards), self.low, self.high)
        return np.clip((clipped - self.middle) / self.half, -1.0, 1.0)

    def grid(self, answers: Array) -> Integers:
        """Return what each person adds to the sums, in whole steps: (people, actions + 2)."""
        t = self.scale(answers)
        mean = MEAN / math.sqrt(t.shape[1]) * t
        squares = WEIGHT * np.square(t).mean(axis=1), WEIGHT * np.square(t.mean(axis=1))
        return np.rint(np.column_stack([mean, *squares]) / STEP).astype(np.int64)

    def release(self, pilot: Pilot, source: Source) -> list[Group]:
        """Release what is needed of each group of people; this draws noise, so call it once and keep the result."""
        return [self._group(*pattern, source) for pattern in pilot.patterns()]

    def _group(self, actions: Indices, counts: Array, answers: Array, source: Source) -> Group:
        """Release one group: answers of shape (people, actions)."""
        people, size = answers.shape
        std = noise_multiplier(self.epsilon, self.delta) * (1 / STEP + math.sqrt(size + 2))
        noise = source.gaussian(1, size + 2, std)[0].tolist()
        sums = self.grid(answers).sum(axis=0).tolist()
        total = [value + extra for value, extra in zip(sums, noise, strict=True)]
        released = np.array(total, dtype=float) * STEP / people
        # From here on, everything is computed from what was released.
        one = std * STEP / people  # the noise of a coordinate of weight 1
        mean, spread = released[:size] * math.sqrt(size) / MEAN, one * math.sqrt(size) / MEAN
        moments = _moments(mean, released[size:] / WEIGHT, spread, one / WEIGHT, people) if people > 1 else None
        if moments is not None:
            moments = Moments(moments.variances * self.half**2, moments.errors * self.half**4)
        return released_group(actions, counts, people, self.middle + self.half * mean, self.half * spread, moments)


def released_group(
    actions: Indices, counts: Array, people: int, mean: Array, noise_std: float, moments: Moments | None
) -> Group:
    """Make a group of what was released of it; the scatter follows from the moments."""
    own = 0.0 if moments is None else moments.upper
    return Group(actions, counts, people, mean, (people - 1) * own * np.eye(len(mean)), noise_std, moments)


def _moments(mean: Array, squares: Array, spread: float, error: float, people: int) -> Moments:
    """Estimate tr S / a and 1'S1 / a^2 from second moments and a mean that has noise of this spread itself."""
    size, middle = len(mean), float(mean.mean())
    level = np.array([float(np.square(mean).mean()), middle**2])
    share = np.array([1.0, 1 / size])  # of the noise's variance that is in each
    bessel = people / (people - 1)
    variances = bessel * (squares - level + share * spread**2)
    errors = error**2 + 4 * level * spread**2 / size + 2 * share**2 * spread**4 / np.array([size, 1])
    return Moments(variances, bessel**2 * errors)


def require_bounds(low: float | None, high: float | None) -> tuple[float, float]:
    """Return the public range of rewards, or refuse: taking it from the answers would reveal them."""
    if low is None or high is None:
        raise InputError(
            "a protected pilot needs the range of rewards that is known beforehand, because taking it from the answers "
            "would reveal them; add --low-reward and --high-reward"
        )
    return low, high

"""The sum of a crowd's answers, drawn at once: simulating a billion Gaussian people costs no more than one.

People's averages are y = m + R w with w standard Gaussian. If nothing is clipped, the sum of U people is Gaussian with
mean U m and root sqrt(U) R: one draw. With clipping, people are individuals, but nearly all of them are inside the
ball, and certainly those with |w| <= r0, where r0 = (radius - |whitened m|) / |whitened R|. So the crowd is split:

outside   K ~ Bin(U, P(chi > r0)) people are drawn one by one, given |w| > r0, and clipped individually;
inside    the others are not clipped. Their sum is that of truncated Gaussians: mean 0, variance s^2 per coordinate,
          s^2 = P(chi^2_{H+2} <= r0^2) / P(chi^2_H <= r0^2), odd cumulants 0. It is drawn as a Gaussian, which neglects
          the excess kurtosis of the sum; that is 1/U of a person's, so it would take about U^2 studies to notice.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import chdtrc, chdtri

from voxpop.errors import Array
from voxpop.model.waves import Tally
from voxpop.privacy.ball import Ball

CHUNK = 4_000_000  # answers drawn at a time, so that memory stays bounded


def chunks(people: int, arms: int) -> Iterator[int]:
    """Split people into chunks whose answers are drawn at a time; yield their sizes."""
    size = max(1, CHUNK // arms)
    for start in range(0, people, size):
        yield min(size, people - start)


def tally_of_sum(total: Array, people: int, step: float) -> Tally:
    """Return the tally of a sum, rounded to the grid."""
    return Tally(people, tuple(int(steps) for steps in np.rint(total / step).tolist()), step)


def unclipped(mean: Array, root: Array, people: int, step: float, rng: np.random.Generator) -> Tally:
    """Draw the tally of Gaussian people whose answers are added up as they are."""
    return tally_of_sum(people * mean + math.sqrt(people) * (root @ rng.standard_normal(len(mean))), people, step)


def clipped(
    mean: Array,
    root: Array,
    people: int,
    ball: Ball,
    step: float,
    tally: Callable[[Array], Tally],
    rng: np.random.Generator,
) -> Tally:
    """Draw the tally of Gaussian people whose answers are whitened and clipped to the ball."""
    arms = len(mean)
    centre, spread = ball.whiten(mean[None, :])[0], ball.whiten((ball.centre[:, None] + root).T).T
    reach = max(0.0, ball.radius - float(np.linalg.norm(centre))) / float(np.linalg.norm(spread, 2))
    chance = float(chdtrc(arms, reach**2)) if math.isfinite(reach) else 0.0
    outside = int(rng.binomial(people, chance))
    inside, shrunk = people - outside, _variance_inside(arms, reach)
    within = inside * centre + math.sqrt(inside * shrunk) * (spread @ rng.standard_normal(arms))
    parts = [tally_of_sum(within, inside, step)] if inside else []
    for people in chunks(outside, arms):
        directions = rng.standard_normal((people, arms))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        lengths = np.sqrt(chdtri(arms, chance * (1 - rng.random(people))))
        parts.append(tally(mean + (lengths[:, None] * directions) @ root.T))
    return sum(parts[1:], start=parts[0])


def _variance_inside(arms: int, reach: float) -> float:
    """Compute the variance of a coordinate of w, given |w| <= r0."""
    if math.isinf(reach):
        return 1.0
    within = 1 - float(chdtrc(arms, reach**2))
    return (1 - float(chdtrc(arms + 2, reach**2))) / within if within > 0 else 0.0

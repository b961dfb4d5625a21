"""What a study in waves can cost at most, and what any study must cost at least. Proofs: docs/mathematics.md.

The theorem is about idealised waves. Wave l compares every active action with a reference to within eps_l, and
eps_l = 2 eps_(l+1), down to the accuracy eps of the last. Greedy selection with the ridge s^2 = (eps_l / 4B)^2 plays
each arm for W = ceil(sigma^2 / (v kappa)^2) rounds, until every deviation is at most s; then

    U_l = ceil(16 z^2 (v^2 kappa^2 + sigma^2 / W) / eps_l^2)

people make every width at most eps_l. An action is dropped if its upper bound is below some lower bound. A wave makes n
one-sided statements, upper for the unknown optimum and lower for the others, each at level delta / (n L).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from reproduction.theory import information_gain_bound, largest_loss
from voxpop.errors import InputError, require_number
from voxpop.model.problem import Problem


@dataclass(frozen=True)
class WaveBound:
    """What one wave can cost at most."""

    accuracy: float  # eps_l, the largest width of a comparison with the reference
    deviation: float  # s_l, the largest posterior deviation that is left, and the root of the ridge
    arms: int
    people: int
    regret: float

    @property
    def numbers(self) -> int:
        """The numbers that are sent."""
        return self.people * self.arms


@dataclass(frozen=True)
class WavesBound:
    """What a study in idealised waves can cost at most, with probability 1 - delta."""

    waves: tuple[WaveBound, ...]
    rounds: int  # W, the same for every arm
    quantile: float  # z
    regret: float  # of the waves, and of the recommendation for the whole horizon

    @property
    def numbers(self) -> int:
        """The numbers that are sent in all waves."""
        return sum(wave.numbers for wave in self.waves)


def arms_of_wave(problem: Problem, deviation: float) -> int:
    """Bound the arms that greedy selection needs until no deviation is above s, with ridge s^2.

    Every arm has a variance above s^2 when it is chosen, so it gains more than ln(2) / 2, and a variance below s^2
    afterwards, so it is chosen once. Hence H < 2 gamma_H / ln 2: first with gamma_n, then with gamma of what follows.
    """
    most = problem.size
    while True:
        gain = information_gain_bound(problem, most, deviation**2)
        fewer = max(1, min(most, math.ceil(2 * gain / math.log(2)) - 1))
        if fewer == most:
            return most
        most = fewer


def wave_bounds(problem: Problem, accuracy: float, delta: float) -> WavesBound:
    """Bound regret and numbers of idealised waves that end with this accuracy, with probability 1 - delta.

    What survives a wave of widths eps is worse than the best by at most 4 eps, and the action of largest lead by at
    most 2 eps. The expected regret is at most delta times the horizon times the largest loss more.
    """
    worst = largest_loss(problem)
    accuracy = require_number("accuracy", accuracy, above=0, below=worst)
    delta = require_number("delta", delta, above=0, below=1)
    count = waves_to(worst, accuracy)
    z, deviation = quantile(problem, count, delta), problem.bias_std * math.sqrt(problem.largest_variance)
    rounds = math.ceil((problem.noise_std / deviation) ** 2)
    variance = deviation**2 + problem.noise_std**2 / rounds
    waves, gap = [], worst
    for left in reversed(range(count)):
        width = accuracy * 2**left
        s = width / (4 * problem.norm_bound)
        arms, people = arms_of_wave(problem, s), math.ceil(16 * variance * (z / width) ** 2)
        waves.append(WaveBound(width, s, arms, people, rounds * arms * gap))
        gap = min(worst, 4 * width)
    regret = sum(wave.regret for wave in waves) + min(gap, 2 * accuracy) * problem.horizon
    return WavesBound(tuple(waves), rounds, z, regret)


def least_regret(problem: Problem, people: float) -> float:
    """Bound from below the regret, on some f, of anyone who asks at most this number of people in expectation.

    It is T v |h| / (8 sqrt(people)), unless the norm bound allows no gap that large: h = k(x, .) - k(x', .) is the pair
    of actions farthest apart. What arms are played, for how many rounds, and how the people are chosen is all the same.
    """
    people = require_number("people", people, above=0)
    reach = reach_of(problem)
    gap = min(problem.bias_std * reach / (2 * math.sqrt(people)), problem.norm_bound * reach)
    return problem.horizon * gap / 2 * (1 - gap * math.sqrt(people) / (problem.bias_std * reach))


def waves_to(worst: float, accuracy: float) -> int:
    """Count the waves, each twice as accurate as the one before."""
    return max(1, math.ceil(math.log2(worst / accuracy) - 1e-9))


def quantile(problem: Problem, waves: int, delta: float) -> float:
    """Compute z, at the level of one statement."""
    return -float(ndtri(delta / (problem.size * waves)))


def reach_of(problem: Problem) -> float:
    """Compute the largest |h| of a pair of actions."""
    if float(np.ptp(problem.means)) > 0:
        raise InputError("the lower bounds are proved for one prior mean for all actions; leave prior_mean out")
    every = np.arange(problem.size)
    squares = problem.prior_variance[:, None] + problem.prior_variance - 2 * problem.covariance(every, every)
    return math.sqrt(max(0.0, float(squares.max())))

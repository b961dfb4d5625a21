"""The paper's theorems as functions, with their constants: what a run can cost at most.

The proofs are written for v = 1 and lambda = sigma^2, and use a variance ratio that lacks 1/lambda. Here v and lambda
stand where they belong. Two lemmas are given twice: as printed, and in a form that follows from the information gain
alone. A batch of T_h rounds of the action of largest variance Sigma^2 gains 1/2 ln(1 + T_h Sigma^2 / lambda). Its
length is T_h = max(1, floor(q / Sigma^2)), with q = C^2 - 1 as printed and lambda (C^2 - 1) corrected, so that
q / 2 <= T_h Sigma^2 <= max(q, Sigma^2) but for the last batch, which the phase's end may cut. All bounds below follow.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import solve_triangular

from voxpop.errors import InputError, require_number
from voxpop.gp.selection import BatchRule, batch_scale
from voxpop.model.problem import Problem
from voxpop.policies.dpbe import people_of_phase

CLOSE = 0.01  # relative precision of the maximum information gain
STEPS = 2000  # at most; each costs one factorisation of an n x n matrix


@lru_cache(maxsize=256)
def information_gain_bound(problem: Problem, rounds: int, ridge: float | None = None) -> float:
    """Bound gamma_T, the maximum information gain of T rounds, from above; closely if T is not small.

    The ridge is the problem's unless another is given.

    Shares w of the rounds instead of whole rounds make F(w) = 1/2 ln det(I + (T / lambda) W^1/2 K W^1/2) concave, with
    slopes (T / 2 lambda) Sigma^2(x). So for any w, gamma_T <= F(w) + (T / 2 lambda) (max Sigma^2 - sum w Sigma^2). The
    shares grow in proportion to the variance that is left (Titterington's algorithm), which never lowers F.

    >>> from voxpop.model.kernels import SquaredExponential
    >>> alone = Problem([0.5], SquaredExponential(0.2), 0.1, 0.1, norm_bound=1.0, horizon=100)
    >>> round(information_gain_bound(alone, 99), 6), round(math.log(100) / 2, 6)
    (2.302585, 2.302585)
    """
    ridge = problem.ridge if ridge is None else ridge
    noise, every = ridge / rounds, np.arange(problem.size)
    values, vectors = np.linalg.eigh(problem.covariance(every, every))
    features = vectors * np.sqrt(np.maximum(values, 0.0))  # K = features features', so that nothing cancels below
    first = 0.5 * math.log1p(problem.largest_variance / ridge)
    shares, least = np.full(problem.size, 1 / problem.size), rounds * first  # no round gains more than the first
    for _ in range(STEPS):
        matrix = features.T @ (shares[:, None] * features)
        matrix.flat[:: problem.size + 1] += noise
        root = np.linalg.cholesky(matrix)
        gain = float(np.log(root.diagonal()).sum()) - 0.5 * problem.size * math.log(noise)
        half = solve_triangular(root, features.T, lower=True)
        variance = noise * np.einsum("ij,ij->j", half, half)
        mean = float(shares @ variance)
        least = min(least, gain + (float(variance.max()) - mean) / (2 * noise))
        if least - gain <= CLOSE * gain:
            break
        shares = shares * variance / mean
    return least


def batches(problem: Problem, ratio: float, gain: float, rule: BatchRule = "corrected") -> float:
    """Bound the number of batches of a phase whose rounds can gain `gain` (lem:bound_h).

    Every batch but the last gains at least 1/2 ln(1 + q / (2 lambda)).
    """
    return math.inf if rule == "single" else 1 + 2 * gain / math.log1p(_product(problem, ratio, rule) / 2)


def printed_batches(problem: Problem, ratio: float, gain: float) -> float:
    """Compute lem:bound_h as printed, with lambda for sigma^2: false, because the variance ratio lacks 1/lambda."""
    return 4 * problem.ridge * ratio**2 / (ratio**2 - 1) * gain


def variance(problem: Problem, ratio: float, gain: float, rounds: int, rule: BatchRule = "corrected") -> float:
    """Bound the posterior variance of every active action after a phase of `rounds` (lem:max_variance).

    The variance S that is left is at most that of every action when it was played, and ln(1 + u) >= u ln(1 + q) / q
    for u = T_h Sigma^2 / lambda up to some q. So 2 gain >= (rounds S / lambda) ln(1 + q) / q. Single rounds of actions
    with Sigma^2 above the rule's product may be set apart: each gains more than 1/2 ln(1 + product).
    """
    top = float(problem.prior_variance.max())
    product = _product(problem, ratio, rule)
    largest = max(product, top / problem.ridge)
    found = min(top, 2 * problem.ridge * gain / rounds * largest / math.log1p(largest))
    if product > 0:
        rest = rounds - 2 * gain / math.log1p(product)
        if rest > 0:
            found = min(found, 2 * problem.ridge * gain / rest * product / math.log1p(product))
    return found


def printed_variance(problem: Problem, ratio: float, gain: float, rounds: int) -> float:
    """Compute lem:max_variance as printed: 2 lambda C^2 gamma / T_l."""
    return 2 * problem.ridge * ratio**2 * gain / rounds


@dataclass(frozen=True)
class PhaseBound:
    """What one phase can cost at most."""

    wave: int
    rounds: int
    people: int
    gain: float  # gamma of the phase's rounds
    batches: float
    width: float
    regret: float  # of this phase, if no bound failed before
    numbers: float


def phase_bounds(problem: Problem, alpha: float, ratio: float, rule: BatchRule = "corrected") -> list[PhaseBound]:
    """Follow the proof of thm:regret_upper_bound phase by phase, with none of its sums rounded up.

    An action that survives a phase is worse than the best by at most four times the phase's largest width, and never
    by more than 2 B kappa and what the prior means differ. The affine width is at most the printed one, so this holds
    for `dpbe` too.
    """
    if problem.ridge < (1 - 1e-9) * (problem.noise_std / problem.bias_std) ** 2:
        raise InputError(
            f"the theorems need a ridge of at least sigma^2 / v^2 = {(problem.noise_std / problem.bias_std) ** 2:.3g}, "
            f"got {problem.ridge:.3g}; leave it out"
        )
    kappa = math.sqrt(float(problem.prior_variance.max()))
    z = math.sqrt(2 * math.log(1 / problem.beta))
    gap = worst = largest_loss(problem)
    found, left, phase = [], problem.horizon, 1
    while left > 0:
        rounds, people = min(2 ** (phase - 1), left), people_of_phase(alpha, phase)
        gain = information_gain_bound(problem, rounds)
        deviation = math.sqrt(variance(problem, ratio, gain, rounds, rule))
        spread = problem.bias_std * z / math.sqrt(people)
        width = spread * kappa + deviation * (spread + problem.norm_bound)
        most = min(batches(problem, ratio, gain, rule), rounds)
        arms = rounds if rule == "single" else min(most, problem.size)
        found.append(PhaseBound(phase, rounds, people, gain, most, width, rounds * gap, people * arms))
        gap = min(worst, 4 * width)
        left -= rounds
        phase += 1
    return found


def regret(problem: Problem, alpha: float, ratio: float, rule: BatchRule = "corrected") -> float:
    """Bound the expected regret: the phases, and what is lost when a bound fails."""
    phases = phase_bounds(problem, alpha, ratio, rule)
    return sum(phase.regret for phase in phases) + _failure(problem, 4, len(phases))


def numbers_sent(problem: Problem, alpha: float, ratio: float, rule: BatchRule = "corrected") -> float:
    """Bound the numbers sent by merged batches, the sum of |U_l| min(H_l, n) (thm:communication)."""
    return sum(phase.numbers for phase in phase_bounds(problem, alpha, ratio, rule))


def printed_regret(problem: Problem, alpha: float, ratio: float) -> float:
    """Compute the last line of the proof of thm:regret_upper_bound, constants included; alpha below 1."""
    require_number("alpha in the printed theorem", alpha, above=0, below=1)
    gain, kappa, log, T = _constants(problem)
    root, C1 = math.sqrt(problem.ridge), _geometric(math.sqrt(2 ** (1 - alpha)))
    return (
        largest_loss(problem)
        + 16 * problem.bias_std * kappa * math.sqrt(2 * log) * math.pow(T, 1 - alpha / 2)
        + 8 * problem.bias_std * root * C1 * ratio * math.sqrt(2 * gain * log * math.pow(T, 1 - alpha))
        + 32 * root * problem.norm_bound * ratio * math.sqrt(gain * T)
        + _failure(problem, 4, math.log2(2 * T))
    )


def printed_private_regret(problem: Problem, alpha: float, ratio: float, epsilon: float, delta: float) -> float:
    """Compute the last line of the proof of thm:regret_cdp, constants included: the central model as printed."""
    public = printed_regret(problem, alpha, ratio)
    gain, kappa, log, T = _constants(problem)
    spread = math.sqrt(2 * (kappa**2 + problem.noise_std**2) * math.log(2 / delta) * math.log(2.5 / delta))
    G1 = 8 * ratio**2 * spread * math.sqrt(problem.ridge / (ratio**2 - 1)) / epsilon
    privacy = 4 * _geometric(2 ** (1 - alpha)) * G1 * gain * math.sqrt(2 * log) * math.pow(T, 1 - alpha)
    return public + privacy + _failure(problem, 2, math.log2(2 * T))


def _product(problem: Problem, ratio: float, rule: BatchRule) -> float:
    """Compute q / lambda: what T_h Sigma^2 / lambda is at most, unless the batch is a single round."""
    return batch_scale(problem, ratio, rule) / problem.ridge


def _failure(problem: Problem, events: int, phases: float) -> float:
    """Bound what is lost when bounds fail.

    Each of `events` bounds per action and phase fails with probability beta, and then every round may be lost.
    """
    return events * largest_loss(problem) * problem.size * problem.beta * phases * problem.horizon


def largest_loss(problem: Problem) -> float:
    """Bound what a round can lose: |f(x) - m(x)| <= B kappa for every action."""
    kappa = math.sqrt(float(problem.prior_variance.max()))
    return 2 * problem.norm_bound * kappa + float(np.ptp(problem.means))


def _constants(problem: Problem) -> tuple[float, float, float, float]:
    gain = information_gain_bound(problem, problem.horizon)
    return gain, math.sqrt(float(problem.prior_variance.max())), math.log(1 / problem.beta), float(problem.horizon)


def _geometric(q: float) -> float:
    """Compute q / (q - 1): the sum of q, q^2, ..., q^L is at most this times its last term."""
    return q / (q - 1)

"""The audit: attack the software's own releases and measure what an attacker learns.

Two groups of people differ in one person, whose answer is far outside the ball, at +10 R in one group and at -10 R in
the other, along the same direction u; everyone else answers the centre. The attacker sees a release, projects it on u
and guesses the group. With Gaussian noise that keeps (eps, delta), no attack can separate the groups better than two
unit Gaussians at a distance of mu = sensitivity / sigma; binomial noise of the same promise is close enough to Gaussian
for this. From the guesses, a Clopper-Pearson bound on both error rates gives a lower confidence bound on mu; a bound
above the mu of the promise is a violation.

Auditing mu can detect far more than auditing (eps, delta) directly, which could not measure more than eps = 9 from 10^5
samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from voxpop.core.errors import require_integer, require_number
from voxpop.core.kernels import SquaredExponential
from voxpop.core.phases import Plan
from voxpop.core.problem import Problem
from voxpop.core.state import State
from voxpop.privacy.ball import Ball
from voxpop.privacy.gaussian import epsilon_of
from voxpop.privacy.models import Private
from voxpop.privacy.release import PrivateRelease
from voxpop.privacy.sources import Source


@dataclass(frozen=True)
class AuditResult:
    """What a release claims and what the attack measured."""

    model: str
    claimed_mu: float
    measured_mu: float  # the attack's own estimate
    certain_mu: float  # the lower confidence bound
    claimed_epsilon: float
    certain_epsilon: float  # the eps of certain_mu at delta
    delta: float
    trials: int
    confidence: float

    @property
    def violated(self) -> bool:
        """True if the release protects less than it claims."""
        return self.certain_mu > self.claimed_mu


def audit(
    privacy: Private,
    source: Source,
    trials: int = 4000,
    people: int = 50,
    confidence: float = 0.9999,
    watch: Callable[[int], None] | None = None,
) -> AuditResult:
    """Attack the releases of a trust model on a small problem of its own."""
    problem, state, plan = specimen(people)
    return attack(privacy.calibrate(problem, state, plan), source, people, trials, confidence, watch)


def specimen(people: int) -> tuple[Problem, State, Plan]:
    """Make a small problem, its first state, and a phase of it."""
    points = np.linspace(0, 1, 6)
    problem = Problem(points, SquaredExponential(0.3), noise_std=0.1, bias_std=0.2, norm_bound=1.0, horizon=100)
    plan = Plan(3, np.array([0, 2, 3, 5]), np.array([1, 2, 1, 3]), people)
    return problem, State.prior(problem, problem.norm_bound), plan


def attack(
    release: PrivateRelease,
    source: Source,
    people: int,
    trials: int,
    confidence: float = 0.9999,
    watch: Callable[[int], None] | None = None,
) -> AuditResult:
    """Guess many times which of two neighbouring groups a release came from."""
    require_integer("trials", trials, least=100)
    require_number("confidence", confidence, above=0.5, below=1)
    ball = release.ball
    arms = len(ball.centre)
    # Use all coordinates: a bound on each of them must not hide that there is no ball.
    direction = np.full(arms, 1 / math.sqrt(arms))
    seen = []
    for sign in (1.0, -1.0):
        answers = np.tile(ball.centre, (people, 1))
        answers[0] = ball.centre + sign * _far(ball) * (ball.root @ direction)
        values = []
        for trial in range(trials):
            values.append(float(release.view(answers, source) @ direction))
            if watch is not None and trial % 100 == 99:
                watch(100)
        seen.append(np.array(values))
    # The threshold is learned from some of the releases; the groups of the others are guessed.
    learned = trials // 5
    line = (seen[0][:learned].mean() + seen[1][:learned].mean()) / 2
    wrong = [int(np.sum(seen[0][learned:] <= line)), int(np.sum(seen[1][learned:] >= line))]
    guessed = trials - learned
    upper = [clopper_pearson(misses, guessed, (1 - confidence) / 2) for misses in wrong]
    certain = max(0.0, -sum(float(ndtri(rate)) for rate in upper))
    measured = -sum(float(ndtri(np.clip(misses / guessed, 0.5 / guessed, 1 - 0.5 / guessed))) for misses in wrong)
    delta = release.cost.delta
    certain_epsilon = epsilon_of(1 / certain, delta) if certain > 0 else 0.0
    return AuditResult(
        release.cost.model,
        release.mu,
        measured,
        certain,
        release.cost.epsilon,
        certain_epsilon,
        delta,
        2 * trials,
        confidence,
    )


def clopper_pearson(misses: int, trials: int, alpha: float) -> float:
    """Compute an upper bound on a rate, which is too small with probability at most alpha."""
    return 1.0 if misses == trials else float(betaincinv(misses + 1, trials - misses, 1 - alpha))


def _far(ball: Ball) -> float:
    """Return a distance far outside the ball, or far from the model if nothing is clipped."""
    return 10 * ball.radius if math.isfinite(ball.radius) else 1e3

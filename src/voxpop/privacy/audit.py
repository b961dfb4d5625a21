"""The audit: attack the software's own releases and measure what an attacker learns.

Two groups of people differ in one person, whose answer is far outside the ball, at +10 R in one group and at -10 R in
the other, along the same direction u; everyone else answers the centre. The attacker sees a release, projects it on u
and guesses the group. With Gaussian noise that keeps (eps, delta), no attack can separate the groups better than two
unit Gaussians at a distance of mu = sensitivity / sigma; binomial noise of the same promise is close enough to Gaussian
for this. From the guesses, a Clopper-Pearson bound on both error rates gives a lower confidence bound on mu; a bound
above the mu of the promise is a violation.

A fault may show in some directions only: noise that all coordinates share cancels in the difference of two, and a cube
instead of a ball reaches farther along its diagonals. So a fifth of the releases is spent on choosing u. First the
person is placed along diagonals, single coordinates and differences of two; these releases also show the covariance of
the noise, whose smallest eigenvector is the direction in which it hides the least. That direction and the best of the
others are tried again, and the best of these is attacked. The guesses are about new releases, so choosing among many
directions costs no confidence.

Where no server may learn anything about a person from what it holds alone, that is attacked as well (`audit_shares`):
the attacker sees one person's share, and the promise is mu = 0.

Auditing mu can detect far more than auditing (eps, delta) directly, which could not measure more than eps = 9 from 10^5
samples.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaincinv, ndtri

from voxpop.errors import Array, require_integer, require_number
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan
from voxpop.privacy.clipped import Clipped
from voxpop.privacy.gaussian import epsilon_of
from voxpop.privacy.models import Private
from voxpop.privacy.release import View
from voxpop.privacy.sources import Source

LEAST_TRIALS = 100
Watch = Callable[[int], object]  # is told how many releases were just made
FINALISTS = 3  # the directions that are tried again, besides the one with the least noise


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
    direction: str  # in which the attack was made: the worst of those that were tried

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
    watch: Watch = lambda count: None,
) -> AuditResult:
    """Attack the releases of a trust model on a small problem of its own."""
    problem, state, plan = specimen(people)
    return attack(privacy.calibrate(problem, state, plan), source, people, trials, confidence, watch)


def audit_shares(
    privacy: Private, source: Source, trials: int = 4000, people: int = 50, watch: Watch = lambda count: None
) -> list[AuditResult]:
    """Attack what each server holds alone of a person; none if no model promises that this is nothing."""
    release = privacy.calibrate(*specimen(people))
    return [
        replace(
            attack(release, source, people, trials, watch=watch, view=glimpse),
            model=f"{privacy.model}, {holder}",
            claimed_mu=0.0,
            claimed_epsilon=0.0,
        )
        for holder, glimpse in release.glimpses.items()
    ]


def specimen(people: int) -> tuple[Problem, State, Plan]:
    """Make a small problem, its first state, and a wave of it."""
    points = np.linspace(0, 1, 6)
    problem = Problem(points, SquaredExponential(0.3), noise_std=0.1, bias_std=0.2, norm_bound=1.0, horizon=100)
    plan = Plan(3, np.array([0, 2, 3, 5]), np.array([1, 2, 1, 3]), people)
    return problem, State.prior(problem, problem.norm_bound), plan


def attack(
    release: Clipped,
    source: Source,
    people: int,
    trials: int,
    confidence: float = 0.9999,
    watch: Watch = lambda count: None,
    view: View | None = None,
) -> AuditResult:
    """Guess many times which of two neighbouring groups a release, or another view of their answers, came from."""
    require_integer("trials", trials, least=LEAST_TRIALS)
    require_number("confidence", confidence, above=0.5, below=1)
    neighbours = Neighbours(release, source, people, watch, view or release.view)
    worst = _worst(neighbours, trials // 5)
    line = sum(float(part.mean()) for part in worst.projected) / 2
    guessed = trials - neighbours.seen
    above, below = (part @ worst.unit for part in neighbours.releases(worst.unit, guessed))
    wrong = [int(np.sum(above <= line)), int(np.sum(below >= line))]
    upper = [clopper_pearson(misses, guessed, (1 - confidence) / 2) for misses in wrong]
    certain = max(0.0, -sum(float(ndtri(rate)) for rate in upper))
    measured = -sum(float(ndtri(np.clip(misses / guessed, 0.5 / guessed, 1 - 0.5 / guessed))) for misses in wrong)
    delta = release.cost.delta
    return AuditResult(
        release.cost.model,
        release.mu,
        measured,
        certain,
        release.cost.epsilon,
        epsilon_of(1 / certain, delta) if certain > 0 else 0.0,
        delta,
        2 * neighbours.seen,
        confidence,
        worst.name,
    )


@dataclass
class Neighbours:
    """Releases of two groups that differ in one person."""

    release: Clipped
    source: Source
    people: int
    watch: Watch
    view: View
    seen: int = 0  # releases of each group so far

    def releases(self, unit: Array, times: int) -> tuple[Array, Array]:
        """Make releases of both groups, with the person along `unit`; each result has the shape (times, arms)."""
        self.seen += times
        return self._of_group(unit, times), self._of_group(-unit, times)

    def _of_group(self, unit: Array, times: int) -> Array:
        ball = self.release.ball
        far = 10 * ball.radius if math.isfinite(ball.radius) else 1e3  # outside the ball, or far from the model
        answers = np.tile(ball.centre, (self.people, 1))
        answers[0] = ball.centre + far * (ball.root @ unit)
        found = np.empty((times, len(unit)))
        for row in found:
            row[:] = self.view(answers, self.source)
            self.watch(1)
        return found


@dataclass
class Direction:
    """A direction in which the person may be placed, and the releases of both groups that were seen in it."""

    name: str
    unit: Array  # (arms,)
    groups: tuple[Array, ...] = ()  # with the person on the positive side, and on the negative; (times, arms) each

    def look(self, neighbours: Neighbours, times: int) -> None:
        """See more releases of both groups."""
        new = neighbours.releases(self.unit, times)
        self.groups = tuple(map(np.vstack, zip(self.groups, new, strict=True))) if self.groups else new

    @property
    def projected(self) -> list[Array]:
        """The groups, projected on this direction."""
        return [group @ self.unit for group in self.groups]

    def strength(self, covariance: Array) -> float:
        """Estimate mu in this direction, given the noise's covariance."""
        above, below = self.projected
        variance = float(self.unit @ covariance @ self.unit)
        return float(above.mean() - below.mean()) / math.sqrt(variance) if variance > 0 else math.inf


def _worst(neighbours: Neighbours, times: int) -> Direction:
    """Find the direction in which the groups differ most, from about `times` releases of each group."""
    tried = directions(len(neighbours.release.ball.centre))[: times // 4]
    for direction in tried:
        direction.look(neighbours, max(2, times // (2 * len(tried))))
    covariance = _covariance(tried)
    tried.sort(key=lambda direction: -direction.strength(covariance))
    finalists = [*tried[:FINALISTS], Direction("least noise", np.linalg.eigh(covariance)[1][:, 0])]
    for direction in finalists:
        direction.look(neighbours, max(2, (times - neighbours.seen) // len(finalists)))
    covariance = _covariance([*tried, finalists[-1]])
    return max(finalists, key=lambda direction: direction.strength(covariance))


def directions(arms: int) -> list[Direction]:
    """Return the directions that are always tried: all coordinates, differences of two, and each alone.

    >>> [direction.name for direction in directions(3)]
    ['all', 'all, -+', '1 - 2', '2 - 3', '1', '2', '3']
    """
    axes = np.eye(arms)
    signs = np.where(np.arange(arms) % 2, -1.0, 1.0)
    found = [("all", np.ones(arms)), ("all, -+", signs)] if arms > 1 else []
    found += [(f"{arm + 1} - {arm + 2}", axes[arm] - axes[arm + 1]) for arm in range(arms - 1)]
    found += [(f"{arm + 1}", axes[arm]) for arm in range(arms)]
    return [Direction(name, vector / np.linalg.norm(vector)) for name, vector in found]


def _covariance(seen: list[Direction]) -> Array:
    """Estimate the covariance of the noise from releases around the means of their groups, (arms, arms)."""
    groups = [group for direction in seen for group in direction.groups]
    around = np.concatenate([group - group.mean(axis=0) for group in groups])
    return np.asarray(around.T @ around / (len(around) - len(groups)))


def clopper_pearson(misses: int, trials: int, alpha: float) -> float:
    """Compute an upper bound on a rate, which is too small with probability at most alpha."""
    return 1.0 if misses == trials else float(betaincinv(misses + 1, trials - misses, 1 - alpha))

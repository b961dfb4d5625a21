"""How often what `waves` certify is false: where it could be at any moment, and where its assumptions do not hold.

Programs that could refute the certificate: statements with nothing to spare, people of several kinds, wrong constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import cast
from unittest.mock import patch

import numpy as np
from scipy.stats import binomtest

from voxpop.calibration import Pilot, calibrate
from voxpop.errors import Array
from voxpop.gp.widths import Affine, AffineEstimator
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import Matern, SquaredExponential
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import OPEN as ALL
from voxpop.model.state import Channel, State
from voxpop.model.waves import End, Feedback, Info, Plan
from voxpop.policies import Policy
from voxpop.policies.waves import Waves
from voxpop.policies.waves.sealing import LEVELS, SEALED, Evidence, Statement, factor
from voxpop.policies.waves.state import LOOK
from voxpop.privacy import NoPrivacy, Privacy, Private
from voxpop.report.stakes import measure
from voxpop.simulation.people import DrawnPeople, GPPeople, TablePeople, square_root
from voxpop.simulation.runs import Scenario, simulate

Rows = Iterator[tuple[object, ...]]
Study = Callable[[int], Scenario]  # of a seed
HORIZON = 20_000
DELTA = 0.05
ASKED, ROUNDS = np.arange(2), np.ones(2, dtype=np.intp)  # of `Fixed` waves
CENTRAL = Private("central", 5.0)


# Problems and functions of norm B


def line() -> Problem:
    """Return a problem of actions on a line."""
    return Problem(np.linspace(0, 1, 41), SquaredExponential(0.15), 0.3, 0.3, 1.0, HORIZON)


def gram(problem: Problem) -> Array:
    every = np.arange(problem.size)
    return problem.covariance(every, every)


def of_norm(problem: Problem, weights: Array, norm: float) -> Array:
    """Return the function sum w_x k(x, .), scaled to a norm."""
    K = gram(problem)
    return np.asarray(norm * K @ weights / np.sqrt(weights @ K @ weights))


def random(problem: Problem, seed: int) -> Array:
    """Return a random function of norm B."""
    return of_norm(problem, np.random.default_rng([seed, 1]).standard_normal(problem.size), problem.norm_bound)


def underestimated(problem: Problem, arms: Indices, reference: int, weights: Array, x: int) -> Array:
    """Return the function of norm B whose gap f(x) - f(reference) the estimate a'y, of weights a, misses most."""
    residual = np.zeros(problem.size)
    residual[x] += 1.0
    residual[reference] -= 1.0
    np.subtract.at(residual, arms, weights)
    return of_norm(problem, residual, problem.norm_bound)


# People

Draw = Callable[[np.random.Generator, Array, Indices], Array]  # averages over rounds, from everyone's mean
ODD: dict[str, Draw] = {  # means have the shape (people, arms), what a person has of their own (people, 1)
    "yes or no": lambda rng, mean, rounds: rng.binomial(rounds, mean) / rounds,
    "rare and large": lambda rng, mean, rounds: (
        20.0 * rng.binomial(rounds, 0.05, mean.shape) / rounds * mean * rng.exponential(size=(len(mean), 1))
    ),
    "factors": lambda rng, mean, rounds: (
        mean * rng.exponential(size=(len(mean), 1)) + 0.3 * rng.standard_normal(mean.shape) / np.sqrt(rounds)
    ),
    "two clusters": lambda rng, mean, rounds: (
        mean * np.where(rng.random((len(mean), 1)) < 0.3, 2.4, 0.4)
        + 0.3 * rng.standard_normal(mean.shape) / np.sqrt(rounds)
    ),
    "Student's t, 3": lambda rng, mean, rounds: (
        mean
        + 0.2 * rng.standard_t(3, (len(mean), 1))
        + 0.3 * rng.standard_t(3, (int(rounds.max()), *mean.shape)).mean(axis=0)
    ),
    "spread grows": lambda rng, mean, rounds: (
        mean * (1 + rng.standard_normal((len(mean), 1)) + 0.5 * rng.standard_normal(mean.shape) / np.sqrt(rounds))
    ),
}


@lru_cache(maxsize=512)  # the same pilots serve studies with and without privacy
def odd(kind: str, seed: int) -> Scenario:
    """People who are not Gaussian, with every constant from a pilot of 60 who tried 10 actions, 5 rounds each."""
    given = line()
    f = random(given, seed)
    f = 0.05 + 0.9 * (f - f.min()) / np.ptp(f)

    def answer(people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
        return np.asarray(ODD[kind](rng, np.broadcast_to(f[arms], (people, len(arms))), rounds))

    arms = np.linspace(0, given.size - 1, 10).round().astype(np.intp)
    answers = answer(60, arms, np.full(10, 5), np.random.default_rng([seed, 2]))
    pilot = Pilot.of_matrix(Decisions(given.decisions.points[arms]), answers, 5)
    return Scenario(kind, calibrate(pilot).problem(given.decisions, HORIZON), DrawnPeople(answer), f)


@dataclass(eq=False)
class Unsteady:
    """Gaussian people, with a shock to every arm that all of them share in a wave, or f on a random walk."""

    people: GPPeople
    seed: int
    shock: float = 0.0  # in units of v / sqrt(U)
    drift: float = 0.0

    def __post_init__(self) -> None:
        self.now, self.wave = self.people.f.copy(), 0

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        shared = np.random.default_rng([self.seed, plan.wave])
        problem = self.people.problem
        unit = problem.bias_std / np.sqrt(plan.people)
        answers = self.people.observe(plan, people, rng) - self.people.f[plan.arms] + self.now[plan.arms]
        if self.wave < plan.wave:  # from now on; this wave's people answered before
            self.wave = plan.wave
            self.now = self.now + self.drift * unit * square_root(gram(problem)) @ shared.standard_normal(problem.size)
        return np.asarray(answers + self.shock * unit * shared.standard_normal(len(plan.arms)))

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        raise NotImplementedError  # they are asked in waves only


@dataclass(frozen=True)
class Totals(Waves):
    """Waves that are told averages alone, so that nobody's own answer shows how people differ."""

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        return super().advance(problem, state, plan, replace(feedback, scatter=None))


@dataclass(frozen=True)
class Fixed(Waves):
    """Waves of a design that is fixed in advance: the first two actions, one round each."""

    people: int = 100  # in each wave

    def plan(self, problem: Problem, state: State, channel: Channel = ALL) -> Plan | End:
        if state.wave == self.most_waves:
            return End("all waves of the design are over")
        return Plan(state.wave + 1, ASKED, ROUNDS, self.people, state.best, sealed=SEALED)


@dataclass(frozen=True)
class FixedTotals(Fixed, Totals):
    """Both."""


# Studies


def unrelated(*rewards: float) -> Scenario:
    """Actions that have nothing to do with each other, so that nothing but the noise term protects a statement."""
    problem, f = Problem.of_matrix(np.eye(len(rewards)), 0.3, 0.3, 2.0, HORIZON), np.array(rewards)
    return Scenario("unrelated", problem, GPPeople(problem, f), f)


def worst(waves: int, people: int) -> Scenario:
    """Three actions: one is chosen, one is clearly worse, and the third is best by a hair, which nobody is asked about.

    The prior mean is such that f has norm B and a statement about the first, after `Fixed` waves, underestimates the
    lead of the third by all that B allows.
    """
    correlation = np.sqrt(1 - 0.1**2)
    matrix = np.array([[1, 0, 0], [0, 1, correlation], [0, correlation, 1]])
    problem, f = Problem.of_matrix(matrix, 0.3, 0.3, 10.0, HORIZON), np.array([0.0, -0.5, 0.001])
    noise = problem.answer_noise(ASKED, ROUNDS, waves * people * SEALED)
    noise += LEVELS * noise.diagonal().max()
    level = (1 - LOOK) ** (waves + 1) * DELTA  # of the last statement
    found = AffineEstimator(problem, ASKED, noise, None, factor(level)).values_and_gaps(np.arange(3), 0, 10.0)[1]
    mean = f - underestimated(problem, ASKED, 0, found.weights[2], 2)
    problem = replace(problem, prior_mean=mean)
    return Scenario("worst", problem, GPPeople(problem, f), f)


def smooth(seed: int) -> Scenario:
    """Actions on a line, and a random function of norm B."""
    problem = line()
    f = random(problem, seed)
    return Scenario("smooth", problem, GPPeople(problem, f), f)


def misjudged(study: Study, constants: Sequence[str], times: float, seed: int) -> Scenario:
    """Return the same people, of whom some constants are assumed to be so many times what they are."""
    scenario = study(seed)
    wrong = {name: times * getattr(scenario.problem, name) for name in constants}
    return replace(scenario, problem=replace(scenario.problem, **wrong))


def unsteady(shock: float, drift: float, seed: int) -> Scenario:
    scenario = smooth(seed)
    people = cast(GPPeople, scenario.population)
    return replace(scenario, population=Unsteady(people, seed, shock, drift))


def calibrated_ties(f: Array, other: bool, seed: int) -> Scenario:
    """Few actions of which two are best, with every constant from a pilot of 30; or another pilot is learned from."""
    points = np.linspace(0, 1, len(f))
    truth = Problem(points, Matern(0.1, nu=0.5), 0.3, 0.3, norm_bound=2.0, horizon=5000)
    people, rng, arms = GPPeople(truth, f), np.random.default_rng([seed, 77]), np.arange(len(f))
    plan = Plan(0, arms, np.full(len(f), 5), 30)
    pilots = [Pilot.of_matrix(truth.decisions, people.observe(plan, 30, rng), 5) for _ in range(2)]
    first, second = (calibrate(pilot, kernel="matern-1/2") for pilot in pilots)
    problem = first.problem(truth.decisions, truth.horizon)
    return Scenario("calibrated ties", replace(problem, pilot=second.evidence) if other else problem, people, f)


def town(size: int, seed: int) -> Scenario:
    """All people that there are, whose own mean is meant; nobody is asked twice."""
    given, rng = line(), np.random.default_rng([seed, 2])
    own = given.bias_std * rng.standard_normal((size, given.size)) @ square_root(gram(given)).T
    people = TablePeople(random(given, seed) + own, given.noise_std)
    return Scenario("town", given, people, people.mean)


# Cases


def always(scenario: Scenario) -> Study:
    """Return the same study whatever the seed, which then draws its people alone."""
    return lambda seed: scenario


@dataclass(frozen=True)
class Case:
    """A kind of study, of which many are run."""

    name: str
    study: Study
    policy: Policy = field(default_factory=Waves)
    privacy: Privacy = field(default_factory=NoPrivacy)
    runs: int = 200


def cases() -> Iterator[Case]:
    """Yield the cases.

    Tight: the model holds, and nothing but its level protects a statement. People: they break assumptions, and a pilot
    calibrates. Misjudged: N is wrong. Other: what else is assumed is wrong, or the population is small.
    """
    two, three = unrelated(0.5, 0.5), unrelated(0.5, 0.5, 0.0)
    eight, cheap = unrelated(*[0.5] * 2, *[0.45] * 6), Waves(answer_cost=1e-4)
    yield Case("tight: two of 2 tie", always(two), runs=400)
    yield Case("tight: two of 2 tie, one wave", always(two), Waves(most_waves=1), runs=400)
    yield Case("tight: two of 3 tie", always(three), runs=400)
    yield Case("tight: two of 3 tie, totals", always(three), Totals(), runs=400)
    yield Case("tight: two of 3 tie, tolerance 10 %", always(three), Waves(tolerance=0.05), runs=400)
    yield Case("tight: two of 3 tie, central, eps 5", always(three), privacy=CENTRAL, runs=400)
    yield Case("tight: two of 8 tie, cheap answers", always(eight), cheap, runs=400)
    for waves, people in ((1, 100), (1, 20), (4, 100), (12, 100)):
        name, policy = f"tight: worst f, {waves} x {people}", Fixed(most_waves=waves, people=people)
        yield Case(name, always(worst(waves, people)), policy, runs=400)
    yield Case("tight: worst f, 1 x 100, totals", always(worst(1, 100)), FixedTotals(most_waves=1), runs=400)
    yield Case("tight: worst f, 4 x 100, totals", always(worst(4, 100)), FixedTotals(most_waves=4), runs=400)
    many = Fixed(most_waves=4, people=1000)
    yield Case("tight: worst f, 4 x 1000, central, eps 5", always(worst(4, 1000)), many, CENTRAL, 400)
    for other in (False, True):
        tie, name = np.array([0.5, 0.0, 0.0, 0.5]), f"calibrated: two of 4 tie{', another pilot' if other else ''}"
        yield Case(name, partial(calibrated_ties, tie, other), Waves(most_waves=1))
    for kind in ODD:
        yield Case(f"people: {kind}", partial(odd, kind))
        yield Case(f"people: {kind}, central, eps 5", partial(odd, kind), privacy=CENTRAL)
    for times in (0.5, 2.0):
        for told, seen in ((Waves(), "single answers"), (Totals(), "totals")):
            for study, where in ((always(three), "two of 3 tie"), (smooth, "line")):
                wrong = partial(misjudged, study, ("bias_std", "noise_std"), times)
                yield Case(f"misjudged: v and sigma x {times:g}, {where}, {seen}", wrong, told)
    yield Case("other: B x 1/3", partial(misjudged, smooth, ("norm_bound",), 1 / 3), runs=60)
    for scale in (1.0, 2.0):
        yield Case(f"other: shocks {scale:g}", partial(unsteady, scale, 0.0), runs=60)
        yield Case(f"other: drift {scale:g}", partial(unsteady, 0.0, scale), runs=60)
    yield Case("other: a town of 200", partial(town, 200), Waves(population=200), runs=60)


@contextmanager
def recorded() -> Iterator[list[tuple[int, Statement]]]:
    """Keep every statement that is made, with the action that it is about."""
    made, state = list[tuple[int, Statement]](), Evidence.state

    def record(evidence: Evidence, best: int, *given: float) -> Statement:
        said = state(evidence, best, *given)
        made.append((best, said))
        return said

    with patch.object(Evidence, "state", record):
        yield made


def outcome(case: Case, seed: int) -> tuple[float, ...]:
    """Run a study and judge it by the truth at its end, in the order of the table."""
    scenario = case.study(seed)
    with recorded() as made:
        run = simulate(scenario, case.policy, seed, case.privacy)
    people, state = scenario.population, run.state
    f = people.now if isinstance(people, Unsteady) else scenario.f
    best, slightly = np.flatnonzero(f == f.max()), 1e-12 * np.abs(f).max()
    others = best[best != run.best]
    metrics = measure(run.plans, run.best, scenario.problem.horizon, f)
    return (
        any((f.max() - f[b] > said.gaps[best] + slightly)[best != b].any() for b, said in made),
        not np.isin(others, state.active).all(),
        f.max() - f[run.best] > state.certificate + slightly,
        bool(np.any((f < state.lower - slightly) | (f > state.upper + slightly))),
        any(wave.info.warning for wave in run.closed),
        state.certificate / (float(np.ptp(f)) or scenario.problem.bias_std),
        metrics.regret,
        metrics.numbers,
        len(run.closed),
    )


def share(found: Array, digits: int = 1) -> str:
    interval = binomtest(int(found.sum()), len(found)).proportion_ci(method="wilson")
    return f"{found.mean():.{digits}%} ({interval.low:.{digits}%} to {interval.high:.{digits}%})"


def robustness(seeds: int | None = None, case: Sequence[str] = ("",)) -> Rows:
    """Run the cases whose name contains one of the texts, each with as many seeds as it needs unless that is given.

    Broken: a bound on f(x*) - f(b) in one of the statements, of a look or of the end, is too small. Lost: a best
    action, other than the chosen one, is not among those that can be best at the end. False: the decision loses more
    than was certified. Each may happen in 5 % of the runs; in brackets, Wilson's 95 % intervals. Bands: some f(x) is
    outside of its bounds. Warned: the model check warned. The certificate is the median, in units of the range of f
    (of v, if all are equal); regret, numbers and waves are means.
    """
    yield "case", "runs", "broken", "lost", "false", "bands", "warned", "certificate", "regret", "numbers", "waves"
    for one in cases():
        if any(text in one.name for text in case):
            runs = seeds or one.runs
            found = np.array([outcome(one, seed) for seed in range(runs)], dtype=float)
            broken, lost, false, bands, warned, certificate, regret, numbers, waves = found.T
            yield (
                one.name,
                runs,
                *map(share, (broken, lost, false)),
                f"{bands.mean():.1%}",
                f"{warned.mean():.1%}",
                f"{np.median(certificate):.3f}",
                f"{regret.mean():,.0f}",
                f"{numbers.mean():,.0f}",
                f"{waves.mean():.1f}",
            )


# Shocks that all people share

LEVEL, PEOPLE, PULLS, DRAWS = 0.00625, 400, 2, 100_000
SIZES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # sigma_c / sqrt(W), or tau, in units of v / sqrt(U)
ARMS, EVERY, REFERENCE = np.arange(2, 40, 5), np.arange(40), 17
# A width is two-sided at beta, so one-sided at half of it.
LINE = Problem(np.linspace(0, 1, 40), SquaredExponential(0.2), 0.1, 0.3, norm_bound=1.0, horizon=100, beta=2 * LEVEL)
NOISE = LINE.answer_noise(ARMS, np.full(len(ARMS), PULLS), PEOPLE)


def gaps(noise: Array) -> Affine:
    return AffineEstimator(LINE, ARMS, noise).values_and_gaps(EVERY, REFERENCE, LINE.norm_bound)[1]


def false_statements(found: Affine, errors: Array, drift: Array) -> float:
    """Return the share of false statements about the x, and for the f of norm B, for which it is largest."""
    shares = []
    for x in np.delete(EVERY, REFERENCE).tolist():
        f = underestimated(LINE, ARMS, REFERENCE, found.weights[x], x)
        now, bound = f + drift, (f[ARMS] + errors) @ found.weights[x] + found.width[x]
        shares.append(float(np.mean(now[..., x] - now[..., REFERENCE] > bound)))
    return max(shares)


def shocks() -> Rows:
    """Draw waves with shocks that are common to all people, sigma_c in every round, or a drift of f, GP(0, tau^2 k).

    A wave asks 400 people about 8 of 40 actions, two rounds each, and states f(x) - f(b) <= a'y + width at level
    0.00625.
    """
    rng, K = np.random.default_rng(0), gram(LINE)
    root = np.linalg.cholesky(K + 1e-10 * np.eye(len(K)))
    yield "size", "shocks", "shocks in N", "drift"
    for size in SIZES:
        unit = size * LINE.bias_std / np.sqrt(PEOPLE)
        quiet = rng.multivariate_normal(np.zeros(len(ARMS)), NOISE, size=DRAWS, method="cholesky")
        shocked = quiet + unit * rng.standard_normal(quiet.shape)
        drift = unit * rng.standard_normal((DRAWS, len(K))) @ root.T
        aware, still = gaps(NOISE + unit**2 * np.eye(len(ARMS))), np.zeros(len(K))
        kinds = ((gaps(NOISE), shocked, still), (aware, shocked, still), (gaps(NOISE), quiet, drift))
        yield f"{size:g}", *(f"{false_statements(*kind):.4f}" for kind in kinds)

"""How often `waves` keep the optimum and certify the truth: when the model holds, and when it does not.

Problems, functions that are hard to find the best action of, and people of several kinds, who make the cases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
from scipy.stats import binomtest

from voxpop.calibration import Pilot, calibrate
from voxpop.errors import Array
from voxpop.gp.widths import Affine, AffineEstimator
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import Matern, SquaredExponential
from voxpop.model.problem import Indices, Problem
from voxpop.model.waves import Plan
from voxpop.policies import Policy, make_policy
from voxpop.policies.waves import Waves
from voxpop.policies.waves.sealing import factor
from voxpop.report.stakes import measure
from voxpop.simulation.people import DrawnPeople, GPPeople, TablePeople, square_root
from voxpop.simulation.runs import Run, Scenario, simulate
from voxpop.simulation.scenarios import Options, least_norm, make_scenario

Rows = Iterator[tuple[object, ...]]
HORIZON = 20_000


# Problems and functions of norm B


def line(seed: int) -> Problem:
    """61 to 101 actions on a line."""
    rng = np.random.default_rng(seed)
    kernel = [SquaredExponential(0.15), Matern(0.2, nu=2.5)][seed % 2]
    return Problem(np.linspace(0, 1, int(rng.integers(61, 102))), kernel, 0.3, 0.3, 1.0, HORIZON)


def plane(seed: int) -> Problem:
    """80 random actions on a square."""
    points = np.random.default_rng(seed).uniform(size=(80, 2))
    return Problem(points, SquaredExponential(0.3), 0.3, 0.3, 1.0, HORIZON)


def gram(problem: Problem) -> Array:
    every = np.arange(problem.size)
    return problem.covariance(every, every)


def of_norm(problem: Problem, weights: Array, norm: float) -> Array:
    """Return the function sum w_x k(x, .), scaled to a norm."""
    K = gram(problem)
    return np.asarray(norm * K @ weights / np.sqrt(weights @ K @ weights))


def random(problem: Problem, rng: np.random.Generator) -> Array:
    return of_norm(problem, rng.standard_normal(problem.size), problem.norm_bound)


def first_wave(problem: Problem) -> Plan:
    """Return the first wave, which is known before anyone answers."""
    policy = Waves()
    return cast(Plan, policy.plan(problem, policy.init(problem)))


def unseen(problem: Problem, arms: Indices, x: int) -> Array:
    """Return weights of the function that vanishes on the arms and is largest at x for its norm."""
    K, weights = gram(problem), np.zeros(problem.size)
    weights[x] = 1.0
    weights[arms] -= np.linalg.lstsq(K[np.ix_(arms, arms)], K[arms, x], rcond=1e-10)[0]
    return weights


def farthest(problem: Problem, arms: Indices, rng: np.random.Generator) -> int:
    """Return one of the three actions about which the arms say the least."""
    K = gram(problem)
    left = K.diagonal() - np.sum(K[arms] * np.linalg.lstsq(K[np.ix_(arms, arms)], K[arms], rcond=1e-10)[0], axis=0)
    return int(rng.choice(np.argsort(left)[-3:]))


def hidden(problem: Problem, rng: np.random.Generator) -> Array:
    """Return a function that vanishes on all arms of the first wave."""
    arms = first_wave(problem).arms
    return of_norm(problem, unseen(problem, arms, farthest(problem, arms, rng)), problem.norm_bound)


def plateau(problem: Problem, rng: np.random.Generator) -> Array:
    """Return a plateau on half of the first wave's arms, with a peak that the first wave cannot see."""
    arms, K, B = first_wave(problem).arms, gram(problem), problem.norm_bound
    peak, flat = unseen(problem, arms, farthest(problem, arms, rng)), np.zeros(problem.size)
    height = np.where(problem.decisions.points[arms, 0] < 0.5, 1.0, 0.0)
    flat[arms] = np.linalg.lstsq(K[np.ix_(arms, arms)], height, rcond=1e-10)[0]
    return of_norm(problem, flat, 0.8 * B) + of_norm(problem, peak, 0.6 * B)  # orthogonal: the squares add up


def tight(problem: Problem, rng: np.random.Generator) -> Array:
    """Return the function whose lead at its maximum the first wave underestimates most: by all that B allows."""
    plan, every = first_wave(problem), np.arange(problem.size)
    noise = problem.answer_noise(plan.arms, plan.pulls, plan.people)
    estimator = AffineEstimator(problem, plan.arms, noise, None, factor(0.015))
    found = estimator.values_and_gaps(every, plan.reference, problem.norm_bound)[1]
    for x in np.argsort(-found.width).tolist():
        f = underestimated(problem, plan.arms, plan.reference, found, x)
        if f.argmax() == x:
            return f
    raise RuntimeError("no action is the maximum of the function that is worst for it")


def underestimated(problem: Problem, arms: Indices, reference: int, found: Affine, x: int) -> Array:
    """Return the function of norm B whose gap f(x) - f(reference) the estimates a'y miss most."""
    weights = np.zeros(problem.size)
    weights[x] += 1.0
    weights[reference] -= 1.0
    np.subtract.at(weights, arms, found.weights[x])
    return of_norm(problem, weights, problem.norm_bound)


def spiky(given: Problem, truth: Problem, rng: np.random.Generator) -> Array:
    """Return something smooth, with a spike that is the best of all and vanishes on the arms of the first wave.

    The spike is as narrow as the true kernel allows. The random arms of the first wave may still find it.
    """
    policy = Waves(checks=0)
    arms = cast(Plan, policy.plan(given, policy.init(given))).arms
    smooth = of_norm(replace(truth, kernel=SquaredExponential(0.3)), rng.standard_normal(truth.size), 1.0)
    smooth /= np.ptp(smooth)
    x = farthest(truth, arms, rng)
    spike = gram(truth) @ unseen(truth, arms, x)
    return np.asarray(smooth + (smooth.max() - smooth[x] + 0.15) * spike / spike[x])


# People


def buyers(prices: Array, chance: Array, root: Array) -> DrawnPeople:
    """Make people who buy or do not: at price p, a person with deviation g(p) buys with probability chance + g.

    The covariance of g has the given root.
    """

    def answer(people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
        own = rng.standard_normal((people, len(root))) @ root[arms].T
        return np.asarray(prices[arms] * rng.binomial(rounds, np.clip(chance[arms] + own, 0, 1)) / rounds)

    return DrawnPeople(answer)


def scaled(f: Array, noise_std: float, factor: Callable[[np.random.Generator, int], Array]) -> DrawnPeople:
    """Make people whose rewards are those of the population times a factor of their own, of mean one."""

    def answer(people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
        own = factor(rng, people)[:, None] * f[arms]
        return np.asarray(own + noise_std / np.sqrt(rounds) * rng.standard_normal(own.shape))

    return DrawnPeople(answer)


Draw = Callable[[np.random.Generator, Array], Array]  # one round's rewards from everyone's means, (people, arms)
ODD: dict[str, Draw] = {
    "yes or no": lambda rng, mean: np.where(rng.random(mean.shape) < mean, 1.0, 0.0),
    "rare and large": lambda rng, mean: (
        np.where(rng.random(mean.shape) < 0.05, 20.0, 0.0) * mean * rng.exponential(size=(len(mean), 1))
    ),
    "two clusters": lambda rng, mean: mean * np.where(rng.random((len(mean), 1)) < 0.3, 2.4, 0.4),
    "Student's t, 3": lambda rng, mean: (
        mean + 0.3 * rng.standard_t(3, mean.shape) + 0.2 * rng.standard_t(3, (len(mean), 1))
    ),
    "spread that grows with the mean": lambda rng, mean: (
        mean * (1 + rng.standard_normal((len(mean), 1))) + 0.5 * mean * rng.standard_normal(mean.shape)
    ),
}


def odd_people(kind: str, f: Array) -> tuple[DrawnPeople, Array]:
    """Make people who are not Gaussian, and return what they earn on average: f, scaled to 0.05 to 0.95."""
    f = 0.05 + 0.9 * (f - f.min()) / np.ptp(f)

    def answer(people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
        mean = np.broadcast_to(f[arms], (people, len(arms)))
        return np.asarray(np.mean([ODD[kind](rng, mean) for _ in range(int(rounds.max()))], axis=0), dtype=float)

    return DrawnPeople(answer), f


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


# Studies


def gaussian(
    problem: Callable[[int], Problem], function: Callable[[Problem, np.random.Generator], Array], seed: int
) -> Scenario:
    given = problem(seed)
    f = function(given, np.random.default_rng([seed, 1]))
    return Scenario("gaussian", given, GPPeople(given, f), f)


def buying(seed: int) -> Scenario:
    """Two-point answers, with the constants that describe their means and variances."""
    prices, rng = np.linspace(1, 1.5, 81), np.random.default_rng([seed, 1])
    x = np.linspace(0, 1, 81)[:, None]
    K = SquaredExponential(0.2)(x, x)
    weights = rng.standard_normal(81)
    chance = 0.5 + 0.25 * K @ weights / np.sqrt(weights @ K @ weights)
    sigma = float(np.sqrt(np.mean(prices**2 * chance * (1 - chance))))
    problem = Problem.of_matrix(
        np.outer(prices, prices) * K, sigma, 0.05, 0.25, HORIZON, prior_mean=0.5 * prices
    )  # g ~ GP(0, 0.05^2 k)
    return Scenario("buyers", problem, buyers(prices, chance, 0.05 * square_root(K)), prices * chance)


FACTORS: dict[str, tuple[float, Callable[[np.random.Generator, int], Array]]] = {
    "exponential": (1.0, lambda rng, people: rng.exponential(size=people)),
    "log-normal": (0.5, lambda rng, people: rng.lognormal(-np.log(1.25) / 2, np.sqrt(np.log(1.25)), people)),
}


def factors(kind: str, calibrated: bool, seed: int) -> Scenario:
    """People who differ by a factor; v^2 k is at least the covariance of their deviations, or a pilot of 40 finds v."""
    deviation, factor = FACTORS[kind]
    given = line(seed)
    f = 0.5 + random(given, np.random.default_rng([seed, 1]))
    people = scaled(f, given.noise_std, factor)
    if not calibrated:
        norm = least_norm(given, f)
        return Scenario(kind, replace(given, bias_std=deviation * norm, norm_bound=norm), people, f)
    arms = np.linspace(0, given.size - 1, 12).round().astype(np.intp)
    answers = people.observe(Plan(0, arms, np.full(12, 5), 40), 40, np.random.default_rng([seed, 2]))
    pilot = Pilot.of_matrix(Decisions(given.decisions.points[arms]), answers, 5)
    return Scenario(kind, calibrate(pilot).problem(given.decisions, HORIZON), people, f)


def wrong(what: str, seed: int) -> Scenario:
    """A hidden spike on something smooth, and people who follow the model, but constants that are wrong."""

    def given(truth: Problem) -> Problem:
        if what == "length-scale twice":
            return replace(truth, kernel=SquaredExponential(0.2))
        if what == "v half":
            return replace(truth, bias_std=truth.bias_std / 2, ridge=4 * truth.ridge)
        return replace(truth, norm_bound=truth.norm_bound / 3) if what == "B a third" else truth

    truth = Problem(np.linspace(0, 1, 81), SquaredExponential(0.1), 0.3, 0.3, 2.0, HORIZON)
    f = spiky(given(truth), truth, np.random.default_rng([seed, 1]))
    truth = replace(truth, norm_bound=least_norm(truth, f))
    return Scenario(what, given(truth), GPPeople(truth, f), f)


def unsteady(shock: float, drift: float, seed: int) -> Scenario:
    scenario = gaussian(line, random, seed)
    people = cast(GPPeople, scenario.population)
    return replace(scenario, population=Unsteady(people, seed, shock, drift))


def ties(size: int, seed: int) -> Scenario:
    """Actions that have nothing to do with each other: two are best, and nobody can tell them apart."""
    problem = Problem.of_matrix(np.eye(size), 0.3, 0.3, 2.0, HORIZON)
    f = np.where(np.arange(size) < 2, 0.5, 0.0)
    return Scenario("ties", problem, GPPeople(problem, f), f)


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


def odd(kind: str, seed: int) -> Scenario:
    """People who are not Gaussian, with every constant from a pilot of 60 who tried 10 actions, 5 rounds each."""
    given = line(seed)
    people, f = odd_people(kind, 0.5 + random(given, np.random.default_rng([seed, 1])))
    arms = np.linspace(0, given.size - 1, 10).round().astype(np.intp)
    answers = people.observe(Plan(0, arms, np.full(10, 5), 60), 60, np.random.default_rng([seed, 2]))
    pilot = Pilot.of_matrix(Decisions(given.decisions.points[arms]), answers, 5)
    return Scenario(kind, calibrate(pilot).problem(given.decisions, HORIZON), people, f)


def town(size: int, seed: int) -> Scenario:
    """All people that there are, whose own mean is meant; nobody is asked twice."""
    given, rng = line(seed), np.random.default_rng([seed, 1])
    own = given.bias_std * rng.standard_normal((size, given.size)) @ square_root(gram(given)).T
    people = TablePeople(random(given, rng) + own, given.noise_std)
    return Scenario("town", given, people, people.mean)


# Cases

Case = tuple[str, Callable[[int], Scenario], Callable[[Scenario, int], Policy]]  # its name, study and policy


def usual(scenario: Scenario, seed: int) -> Policy:
    return Waves()


def tolerant(scenario: Scenario, seed: int) -> Policy:
    return Waves(tolerance=0.05 * float(np.ptp(scenario.f)))


def cases() -> Iterator[Case]:
    for function in (random, hidden, plateau, tight):
        for problem in (line, plane):
            make = partial(gaussian, problem, function)
            name = f"valid: {function.__name__}, {problem.__name__}"
            yield name, make, usual
            if function in (random, hidden):
                yield f"{name}, tolerance 5 %", make, tolerant
            if function in (random, tight):
                yield f"{name}, three waves", make, lambda *_: Waves(most_waves=3)
    for size in (3, 8):
        yield f"sharp: two of {size} tie", partial(ties, size), usual
        yield f"sharp: two of {size} tie, three waves", partial(ties, size), lambda *_: Waves(most_waves=3)
    for other in (False, True):
        tie, name = np.array([0.5, 0.0, 0.0, 0.5]), f"calibrated: two of 4 tie{', another pilot' if other else ''}"
        yield name, partial(calibrated_ties, tie, other), lambda *_: Waves(most_waves=1)
    yield "valid: buy or not", buying, usual
    for kind in ODD:
        yield f"pilot: {kind}", partial(odd, kind), usual
    for kind in FACTORS:
        yield f"valid: {kind} factors", partial(factors, kind, False), usual
        yield f"pilot: {kind} factors", partial(factors, kind, True), usual
    yield "pilot: pricing", lambda seed: make_scenario("pricing", Options(seed=seed)), usual
    for what in ("right", "length-scale twice", "v half", "B a third"):
        yield f"wrong: {what}, dpbe", partial(wrong, what), lambda *_: make_policy("dpbe")
        for checks in (0, 1, 2):
            policy = partial(lambda checks, scenario, seed: Waves(checks=checks, seed=seed), checks)
            yield f"wrong: {what}, waves with {checks} checks", partial(wrong, what), policy
    for scale in (0.25, 0.5, 1.0, 2.0):
        yield f"unsteady: shocks {scale:g}", partial(unsteady, scale, 0.0), usual
        yield f"unsteady: drift {scale:g}", partial(unsteady, 0.0, scale), usual
    for people in (200, 1000):
        yield f"finite: {people}", partial(town, people), lambda scenario, seed: scenario.make_policy("waves")


def outcome(run: Run) -> tuple[float, ...]:
    """Judge a run by the truth at its end, in the order of the table."""
    people, state = run.scenario.population, run.state
    f = people.now if isinstance(people, Unsteady) else run.scenario.f
    metrics = measure(run.plans, run.best, run.scenario.problem.horizon, f)
    best = [x for x in np.flatnonzero(f == f.max()).tolist() if x != run.best] or [run.best]
    return (
        best[0] in state.active,
        float(f.max() - f[run.best]) <= state.certificate + 1e-12,
        bool(np.all((state.lower <= f + 1e-12) & (f <= state.upper + 1e-12))),
        any(wave.info.warning for wave in run.closed),
        state.norm_bound > run.scenario.problem.norm_bound,
        state.certificate / float(np.ptp(f)),
        metrics.regret,
        metrics.numbers,
    )


def share(found: Array) -> str:
    interval = binomtest(int(found.sum()), len(found)).proportion_ci(method="wilson")
    return f"{found.mean():.1%} ({interval.low:.0%} to {interval.high:.0%})"


def robustness(seeds: int = 200, case: tuple[str, ...] = ("",)) -> Rows:
    """Run the cases whose name contains one of the texts.

    Kept: the best action could still be best at the end; with ties, another one than was chosen, so that nothing but
    the statement's own level stands in the way. True: the final decision loses no more than was certified. Bands: every
    f(x) lies between its bounds. In brackets, Wilson's 95 % intervals. The certificate is the median, in units of the
    range of f; regret and numbers are means.
    """
    yield "case", "kept", "true", "bands", "warned", "B raised", "certificate", "regret", "numbers"
    for name, make, policy in cases():
        if not any(text in name for text in case):
            continue
        found = []
        for seed in range(seeds):
            scenario = make(seed)
            found.append(outcome(simulate(scenario, policy(scenario, seed), seed)))
            if not all(found[-1][:2]):
                print(f"{name}: seed {seed} is not kept, or not true", file=sys.stderr)
        *shares, certificate, regret, numbers = np.array(found, dtype=float).T
        means = f"{regret.mean():,.0f}", f"{numbers.mean():,.0f}"
        yield name, *map(share, shares), f"{np.median(certificate):.2f}", *means


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
        f = underestimated(LINE, ARMS, REFERENCE, found, x)
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

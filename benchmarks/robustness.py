"""Print how often `waves` keep the optimum and certify the truth: when the model holds, and when it does not.

python -m benchmarks.robustness [--runs 200] [--case TEXT ...]          # everything takes an hour on one core

A case is run if its name contains one of the texts. Kept: the best action could still be best at the end; with ties,
another one than was chosen, so that nothing but the statement's own level stands in the way. True: the final decision
loses no more than was certified. Bands: every f(x) lies between its bounds. In brackets, Wilson's 95 % intervals. The
certificate is the median, in units of the range of f; regret and numbers are means.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
from scipy.stats import binomtest

from benchmarks.robustness_worlds import (
    HORIZON,
    ODD,
    Town,
    Unsteady,
    buyers,
    gram,
    hidden,
    line,
    odd_people,
    plane,
    plateau,
    random,
    scaled,
    spiky,
    tight,
)
from voxpop.calibration import Pilot, calibrate
from voxpop.errors import Array
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.policies import Policy, make_policy
from voxpop.policies.waves import Waves
from voxpop.report.stakes import measure
from voxpop.simulation.people import GPPeople, square_root
from voxpop.simulation.runs import Run, Scenario, simulate
from voxpop.simulation.scenarios import Options, least_norm, make_scenario

Make = Callable[[int], Scenario]


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


def ties(size: int, seed: int) -> Scenario:
    """Actions that have nothing to do with each other: two are best, and nobody can tell them apart."""
    problem = Problem.of_matrix(np.eye(size), 0.3, 0.3, 2.0, HORIZON)
    f = np.where(np.arange(size) < 2, 0.5, 0.0)
    return Scenario("ties", problem, GPPeople(problem, f), f)


def odd(kind: str, seed: int) -> Scenario:
    """People who are not Gaussian, with every constant from a pilot of 60 who tried 10 actions, 5 rounds each."""
    given = line(seed)
    people, f = odd_people(kind, 0.5 + random(given, np.random.default_rng([seed, 1])))
    arms = np.linspace(0, given.size - 1, 10).round().astype(np.intp)
    answers = people.observe(Plan(0, arms, np.full(10, 5), 60), 60, np.random.default_rng([seed, 2]))
    pilot = Pilot.of_matrix(Decisions(given.decisions.points[arms]), answers, 5)
    return Scenario(kind, calibrate(pilot).problem(given.decisions, HORIZON), people, f)


def unsteady(shock: float, drift: float, seed: int) -> Scenario:
    scenario = gaussian(line, random, seed)
    people = cast(GPPeople, scenario.population)
    return replace(scenario, population=Unsteady(people, seed, shock, drift))


def town(size: int, seed: int) -> Scenario:
    given, rng = line(seed), np.random.default_rng([seed, 1])
    own = given.bias_std * rng.standard_normal((size, given.size)) @ square_root(gram(given)).T
    rewards = random(given, rng) + own
    return Scenario("town", given, Town(rewards, given.noise_std), rewards.mean(axis=0))


# Cases


@dataclass(frozen=True)
class Case:
    name: str
    make: Make
    policy: Callable[[Scenario, int], Policy] = lambda *_: Waves()  # of the study and the seed


def tolerant(scenario: Scenario, seed: int) -> Policy:
    return Waves(tolerance=0.05 * float(np.ptp(scenario.f)))


def cases() -> Iterator[Case]:
    for function in (random, hidden, plateau, tight):
        for problem in (line, plane):
            make = partial(gaussian, problem, function)
            name = f"valid: {function.__name__}, {problem.__name__}"
            yield Case(name, make)
            if function in (random, hidden):
                yield Case(f"{name}, tolerance 5 %", make, tolerant)
            if function in (random, tight):
                yield Case(f"{name}, three waves", make, lambda *_: Waves(most_waves=3))
    for size in (3, 8):
        yield Case(f"sharp: two of {size} tie", partial(ties, size))
        yield Case(f"sharp: two of {size} tie, three waves", partial(ties, size), lambda *_: Waves(most_waves=3))
    yield Case("valid: buy or not", buying)
    for kind in ODD:
        yield Case(f"pilot: {kind}", partial(odd, kind))
    for kind in FACTORS:
        yield Case(f"valid: {kind} factors", partial(factors, kind, False))
        yield Case(f"pilot: {kind} factors", partial(factors, kind, True))
    yield Case("pilot: pricing", lambda seed: make_scenario("pricing", Options(seed=seed)))
    for what in ("right", "length-scale twice", "v half", "B a third"):
        yield Case(f"wrong: {what}, dpbe", partial(wrong, what), lambda *_: make_policy("dpbe"))
        for checks in (0, 1, 2):
            name = f"wrong: {what}, waves with {checks} checks"
            yield Case(name, partial(wrong, what), partial(_with_checks, checks))
    for scale in (0.25, 0.5, 1.0, 2.0):
        yield Case(f"unsteady: shocks {scale:g}", partial(unsteady, scale, 0.0))
        yield Case(f"unsteady: drift {scale:g}", partial(unsteady, 0.0, scale))
    for people in (200, 1000):
        yield Case(f"finite: {people}", partial(town, people), partial(_of_population, people))


def _with_checks(checks: int, scenario: Scenario, seed: int) -> Policy:
    return Waves(checks=checks, seed=seed)


def _of_population(people: int, scenario: Scenario, seed: int) -> Policy:
    return Waves(population=people)


@dataclass(frozen=True)
class Outcome:
    kept: bool
    true: bool
    bands: bool
    warned: bool
    raised: bool
    certificate: float
    regret: float
    numbers: int


def outcome(run: Run) -> Outcome:
    """Judge a run by the truth at its end."""
    people, state = run.scenario.population, run.state
    f = people.now if isinstance(people, Unsteady) else run.scenario.f
    metrics = measure(run.plans, run.best, run.scenario.problem.horizon, f)
    best = [x for x in np.flatnonzero(f == f.max()).tolist() if x != run.best] or [run.best]
    return Outcome(
        kept=best[0] in state.active,
        true=float(f.max() - f[run.best]) <= state.certificate + 1e-12,
        bands=bool(np.all((state.lower <= f + 1e-12) & (f <= state.upper + 1e-12))),
        warned=any(wave.info.warning for wave in run.closed),
        raised=state.norm_bound > run.scenario.problem.norm_bound,
        certificate=state.certificate / float(np.ptp(f)),
        regret=metrics.regret,
        numbers=metrics.numbers,
    )


def share(found: Iterable[bool]) -> str:
    found = list(found)
    interval = binomtest(sum(found), len(found)).proportion_ci(method="wilson")
    return f"{np.mean(found):.1%} ({interval.low:.0%} to {interval.high:.0%})"


def row(case: Case, runs: int) -> str:
    outcomes = []
    for seed in range(runs):
        scenario = case.make(seed)
        outcomes.append(outcome(simulate(scenario, case.policy(scenario, seed), seed)))
        bad = [what for what in ("kept", "true") if not getattr(outcomes[-1], what)]
        print(f"\r{case.name}: {seed + 1} of {runs}" + (f"; not {bad}\n" if bad else ""), end="", file=sys.stderr)
    print(file=sys.stderr)
    shares = [share(getattr(o, what) for o in outcomes) for what in ("kept", "true", "bands", "warned", "raised")]
    means = [float(np.mean([getattr(o, what) for o in outcomes])) for what in ("regret", "numbers")]
    median = float(np.median([o.certificate for o in outcomes]))
    return f"| {case.name} | " + " | ".join([*shares, f"{median:.2f}", *(f"{mean:,.0f}" for mean in means)]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--case", nargs="*", default=[""], help="run the cases whose name contains one of these")
    chosen = parser.parse_args()
    print("| case | kept | true | bands | warned | B raised | certificate | regret | numbers |\n" + "|---" * 9 + "|")
    for case in cases():
        if any(text in case.name for text in chosen.case):
            print(row(case, chosen.runs), flush=True)


if __name__ == "__main__":
    main()

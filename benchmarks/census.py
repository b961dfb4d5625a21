"""People who answer in every wave: what a census of 60 stores loses and certifies, and how often statements are false.

*Stores*: 41 prices, 60 stores, 104 weeks, shocks of 10 % of the range in each week that all stores share; an answer
costs nothing, as sales are counted anyway. The first oracle knows how large shocks are, the second knows each of them
and subtracts it. *True*: no price is better for these stores, or for the population behind a panel, by more than was
certified. The certificate is the median, in units of the range.

*Statements*: ten equally good actions that say nothing of each other, and 50 people, who answer about all of them in
every wave: nothing but the statement keeps the best one. Of a census, that is the best for these very people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.robustness import Rows, share
from voxpop.gp.belief import total_noise
from voxpop.model.kernels import Matern
from voxpop.model.problem import Evidence, Problem
from voxpop.model.waves import Feedback, Plan
from voxpop.policies.waves.policy import Waves
from voxpop.policies.waves.sealing import SEALED, Model, Part, split_pilot, split_wave
from voxpop.policies.waves.sealing import Evidence as Sealed
from voxpop.runtime.random_streams import stream
from voxpop.simulation.people import GPPeople
from voxpop.simulation.runs import Scenario, simulate
from voxpop.simulation.scenarios import least_norm
from voxpop.simulation.weather import Weather

STORES, WEEKS, PRICES, SHOCKS = 60, 104, 41, 0.1
KNOWN = 1e6  # degrees of freedom: beyond doubt


def town(seed: int) -> Scenario:
    """Draw a chain of stores: the range of its rewards is 1, and each store deviates from it by 0.3."""
    points, kernel, rng = np.linspace(0, 1, PRICES)[:, None], Matern(nu=2.5, length_scale=0.2), stream(seed, "truth")
    f = kernel(points, rng.uniform(size=(20, 1))) @ rng.standard_normal(20)
    f = (f - f.min()) / np.ptp(f)
    problem = Problem(points, kernel, 0.2, 0.3, norm_bound=1.0, horizon=WEEKS, prior_mean=0.5)
    problem = replace(problem, norm_bound=1.2 * least_norm(problem, f))
    return Scenario("stores", problem, GPPeople(problem, f), f, weather=Weather(SHOCKS))


def _knows(scenario: Scenario, size: float) -> Scenario:
    return replace(scenario, problem=replace(scenario.problem, shock_std=size, shock_freedom=KNOWN))


CASES: dict[str, tuple[str, int, Callable[[Scenario], Scenario]]] = {
    "census": ("everybody", STORES, lambda scenario: scenario),
    "oracle that knows their size": ("everybody", STORES, lambda scenario: _knows(scenario, SHOCKS)),
    "oracle that knows them all": ("everybody", STORES, lambda scenario: _knows(replace(scenario, weather=None), 0.0)),
    "panel of 60": ("panel", STORES, lambda scenario: scenario),
    "fresh people, of 60,000": ("fresh", 1000 * STORES, lambda scenario: scenario),
}


def stores(seeds: int = 20) -> Rows:
    """One row for each way to ask, with means and their standard errors over seeds from 0 on."""
    yield "who answers", "regret", "true", "certificate", "rounds of waves", "B raised"
    for name, (who, people, known) in CASES.items():
        runs = []
        for seed in range(seeds):
            run = simulate(known(town(seed)), Waves(who=who, population=people, answer_cost=0.0), seed)
            size, raised = float(np.ptp(run.scenario.f)), run.state.norm_bound > run.scenario.problem.norm_bound
            lasted = sum(plan.length for plan in run.plans)
            runs.append((run.metrics.regret / size, run.certificate_true, run.state.certificate / size, lasted, raised))
        regret, true, certificate, rounds, raised = np.array(runs).T
        error = regret.std(ddof=1) / np.sqrt(seeds)
        yield (
            *(name, f"{regret.mean():.1f} ± {error:.1f}", f"{true.sum():.0f} of {seeds}"),
            *(f"{np.median(certificate):.2f}", f"{rounds.mean():.0f}", f"{raised.sum():.0f}"),
        )


PEOPLE, ACTIONS, NOISE, LEVEL = 50, 10, 0.5, 0.05
TIES = Problem.of_matrix(np.eye(ACTIONS), NOISE, 1.0, norm_bound=3.0, horizon=10**6, shock_std=0.0)


def stated(who: str, rng: np.random.Generator, waves: int, missing: int = 0, pilot: bool = False) -> tuple[bool, float]:
    """Conduct a study of people who stay, counted as `who` they are said to be, and state something at a level of 5 %.

    What looks best in the plan parts is chosen. Return whether the statement about the best one is false, and the
    certificate. Those who are `missing` do not answer from the second wave on.
    """
    same, problem = PEOPLE if who != "fresh" else 0, TIES
    if pilot:
        spread = np.sqrt((1 + NOISE**2) / 20)
        group = Evidence(TIES.decisions.points, np.ones(ACTIONS), 20, spread * rng.standard_normal(ACTIONS))
        problem = replace(TIES, pilot=(group,))
    people, parts, looks = rng.standard_normal((PEOPLE, ACTIONS)), list[Part](), np.zeros(ACTIONS)
    if pilot:
        planned, sealed = split_pilot(problem, 0)
        looks, parts = looks + planned.residual / planned.noise[0, 0], [sealed] if sealed else []
    for wave in range(1, waves + 1):
        asked = PEOPLE - (missing if wave > 1 else 0)
        plan = Plan(wave, np.arange(ACTIONS), np.full(ACTIONS, 4), asked, sealed=SEALED, same=same)
        mean = people[:asked].mean(axis=0) + NOISE / np.sqrt(4 * asked) * rng.standard_normal(ACTIONS)
        known = problem.about_people() if same else problem
        (_, told), part = split_wave(known, plan, Feedback(mean, asked), int(rng.integers(2**31)))
        looks += told.mean / total_noise(known, plan, told)[0, 0]
        parts += [part] if part else []
    best = int(looks.argmax())
    evidence = Sealed(problem, tuple(parts), Model(3.0), PEOPLE if same else None, who=who, differing=1.0)
    said = evidence.state(best, LEVEL)
    truth = people.mean(axis=0) if who == "everybody" else np.zeros(ACTIONS)
    better = int(truth.argmax())  # of ties the first, whatever was chosen
    return bool(truth[better] - truth[best] > said.gaps[better]) and better != best, said.certificate


def statements(runs: int = 2000) -> Rows:
    """One row for each number of waves and each trouble; 5 % may be false."""
    yield "waves", "missing", "pilot", "as if fresh", "panel", "everybody", "certificates", "", ""
    for case in ((1, 0, False), (2, 0, False), (4, 0, False), (4, 5, False), (4, 25, False), (4, 0, True)):
        found = []
        for number, who in enumerate(("fresh", "panel", "everybody")):
            rng = np.random.default_rng([number, *case])
            found.append(np.array([stated(who, rng, *case) for _ in range(runs)]).T)
        certificates = (f"{np.median(certificate):.2f} v" for _, certificate in found)
        waves, missing, pilot = case
        yield waves, missing, "of 20" if pilot else "", *(share(false) for false, _ in found), *certificates

"""What share of the people must agree on a lie to move a decision to where they like, in every trust model.

Liars say as much as they can for the worst decision and its neighbours, and as little for all others. Their devices are
honest and clip what they say, or are not and send the farthest report that the servers take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.robustness import Rows, line, random
from voxpop.errors import Array
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Privacy, Private, Simulated
from voxpop.privacy.clipped import Clipped
from voxpop.privacy.encoded import Encoded
from voxpop.privacy.local import Local
from voxpop.privacy.release import Release
from voxpop.simulation.people import GPPeople
from voxpop.simulation.runs import Scenario, simulate

NEAR = 0.15  # how far from the liars' decision is as good to them
FAR = 1e6  # what they say: beyond every range
SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
RARELY = 0.05  # of the runs: liars who get their way more often are too many
RANGE = "-3:3"  # of rewards, where one is given: those of honest people are within it
MODELS: dict[str, tuple[Privacy, int]] = {  # and how many people a wave asks
    "none": (NoPrivacy(), 1000),
    "none, range given": (NoPrivacy(), 1000),
    "central": (Private("central", 5.0), 1000),
    "shuffle": (Private("shuffle", 5.0), 1000),
    "aggregate": (Private("aggregate", 5.0), 1000),
    "local": (Private("local", 5.0), 20_000),
}


@dataclass(eq=False)
class Liars:
    """People of whom a share lies, all in the same way."""

    honest: GPPeople
    share: float
    target: int

    def lie(self, plan: Plan) -> Array:
        """Return what liars say of each arm."""
        points = self.honest.problem.decisions.points[:, 0]
        near = np.abs(points[plan.arms] - points[self.target]) <= NEAR
        low, high = np.clip(self.honest.problem.limits, -FAR, FAR)
        return np.asarray(np.where(near, high, low))

    def observe(self, plan: Plan, people: int, rng: np.random.Generator) -> Array:
        answers = self.honest.observe(plan, people, rng)
        answers[: round(self.share * people)] = self.lie(plan)
        return answers

    def observe_each(self, plan: Plan, rng: np.random.Generator) -> Array:
        raise NotImplementedError  # they are asked in waves only


def people_of(model: str, seed: int, share: float) -> tuple[Problem, Array, Liars]:
    """Return a problem, its truth, and people of whom some lie for the decision that is worst."""
    problem = replace(line(), reward_range=RANGE) if "range" in model else line()
    f = random(problem, seed)
    return problem, f, Liars(GPPeople(problem, f), share, int(f.argmin()))


def farthest(release: Release, lie: Array) -> Array | None:
    """Return the farthest report in the direction of a lie that the servers take; None if devices clip nothing."""
    if not isinstance(release, Clipped):
        return None
    up = release.ball.whiten(lie[None, :]) > 0
    if isinstance(release, Encoded):
        return np.where(up, float(release.encoding.bits), 0.0)
    if isinstance(release, Local):
        return np.where(up, 1.0, -1.0) * (release.ball.radius / release.step + 40 * release.std)
    return None


def moved(model: str, seed: int, share: float, devices: bool) -> bool:
    """Return whether liars, or their devices, get their way in one wave that asks about every fourth decision."""
    privacy, people = MODELS[model]
    problem, _, liars = people_of(model, seed, share)
    arms = np.arange(0, problem.size, 4)
    plan = Plan(1, arms, np.ones(len(arms), dtype=np.intp), people)
    release = privacy.calibrate(problem, make_policy("dpbe").init(problem), plan)
    rng = np.random.default_rng([seed, 3])
    source = Simulated(rng)
    reports = release.randomize(liars.observe(plan, people, rng), source)
    extreme = farthest(release, liars.lie(plan)) if devices else None
    if extreme is not None:
        reports[: round(share * people)] = extreme
    mean = release.analyze(release.tally(reports), source).mean
    points = problem.decisions.points[:, 0]
    return bool(abs(points[arms[mean.argmax()]] - points[liars.target]) <= NEAR)


def withstood(model: str, devices: bool, seeds: int) -> str:
    """Return the largest share of liars that a wave withstands, of those that are tried."""
    least = 0.0
    for share in SHARES:
        if sum(moved(model, seed, share, devices) for seed in range(seeds)) > RARELY * seeds:
            return f"{least:.1%}" if least else f"below {share:.1%}"
        least = share
    return f"{least:.0%} and more"


def one_wave(seeds: int = 40) -> Rows:
    """Measure what one wave withstands."""
    yield "trust model", "people", "by what they say", "by what their devices send"
    for model, (privacy, people) in MODELS.items():
        alike = privacy.model in ("none", "central")  # the coordinator clips
        said = withstood(model, False, seeds)
        yield model, f"{people:,}", said, said if alike else withstood(model, True, seeds)


def studies(seeds: int = 20) -> Iterator[tuple[object, ...]]:
    """Measure what a whole study without privacy withstands, and how often its model check warns."""
    yield "range", "liars", "they got their way", "the study was warned"
    for model in ("none", "none, range given"):
        for share in (0.0, *SHARES):
            ways, warned = 0, 0
            for seed in range(seeds):
                problem, f, liars = people_of(model, seed, share)
                run = simulate(Scenario("liars", problem, liars, f), make_policy("waves", most_people=2000), seed)
                points = problem.decisions.points[:, 0]
                ways += bool(abs(points[run.course.answer.index] - points[liars.target]) <= NEAR)
                warned += bool(run.course.warning)
            yield RANGE if "range" in model else "-", f"{share:.1%}", f"{ways / seeds:.0%}", f"{warned / seeds:.0%}"

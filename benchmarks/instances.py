"""Policies on studies that are drawn by seed, and a table of where `waves` loses: python -m benchmarks.instances.

Each study has its own number of decisions, people, noise, horizon and cost of an answer, and is calibrated from a pilot
of its own, as a user would do. The total cost of a run is its regret and the cost of all numbers that were sent; tables
have it in percent of what choosing the worst decision in every round would lose. Policies that have a budget of their
own were tuned on the studies 100 to 139, the tables are about 0 to 99. They take a few minutes on one core.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np

from benchmarks.tables import show
from voxpop.errors import Array
from voxpop.model.decisions import Float, Space
from voxpop.model.kernels import Constant, Kernel, Matern, SquaredExponential
from voxpop.model.problem import Indices
from voxpop.policies.botorch import installed
from voxpop.runtime.random_streams import stream
from voxpop.simulation.people import DrawnPeople, square_root
from voxpop.simulation.runs import Run, Scenario, simulate
from voxpop.simulation.scenarios import piloted

Rows = Iterator[tuple[object, ...]]
OURS = "waves"
POLICIES = (OURS, "thompson", "halving", "equal-split", "pilot-only", "dbcare", "rho", "botorch")
KERNELS: dict[str, Callable[[float], Kernel]] = {
    "Matern 3/2": partial(Matern, nu=1.5),
    "Matern 5/2": partial(Matern, nu=2.5),
    "smooth": SquaredExponential,
}
LEAST = 0.01  # percent: what is below counts as this, where one is divided by another


@dataclass(frozen=True)
class Features:
    """What a study is like; f has a range of 1."""

    dimensions: int
    decisions: int
    kernel: str
    length_scale: float
    level: float  # the share of people's variance that is the same for all decisions
    people: float  # v, their standard deviation
    skew: float  # of their deviations
    noise: float  # sigma, that of a round, in units of v
    horizon: int
    answer_cost: float  # in units of v

    @classmethod
    def of(cls, seed: int) -> Features:
        """Draw a study."""
        rng = stream(seed, "layout")
        dimensions = int(rng.integers(1, 3))
        return cls(
            dimensions=dimensions,
            decisions=round(np.exp(rng.uniform(np.log(15), np.log(200)))),
            kernel=str(rng.choice(list(KERNELS))),
            length_scale=float(rng.uniform(0.1, 0.5) * dimensions**0.5),
            level=float(rng.uniform(0.0, 0.6)),
            people=float(10 ** rng.uniform(-1.0, 0.3)),
            skew=float(rng.uniform(0.0, 2.0)),
            noise=float(10 ** rng.uniform(-1.0, 0.5)),
            horizon=round(10 ** rng.uniform(3.0, 5.0)),
            answer_cost=float(10 ** rng.uniform(-3.0, -1.0)),
        )


def study(seed: int) -> Scenario:
    """Make the study of a seed: its truth, its people, and a pilot."""
    like = Features.of(seed)
    space = Space({name: Float(0, 1) for name in ("x", "y")[: like.dimensions]})
    decisions = space.grid(like.decisions) if like.dimensions == 1 else space.sobol(like.decisions, seed)
    shape = KERNELS[like.kernel](like.length_scale)
    f = square_root(shape(decisions.points, decisions.points)) @ stream(seed, "truth").standard_normal(len(decisions))
    f = (f - f.min()) / np.ptp(f)
    kernel = (1 - like.level) * shape + Constant(like.level) if like.level else shape
    values, vectors = np.linalg.eigh(kernel(decisions.points, decisions.points))
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # few weights carry most of it, and their skew remains

    def answer(people: int, arms: Indices, rounds: Indices, rng: np.random.Generator) -> Array:
        own = skewed(like.skew, (people, len(f)), rng) @ root[arms].T
        noise = like.noise / np.sqrt(rounds) * rng.standard_normal(own.shape)
        return np.asarray(f[arms] + like.people * (own + noise))

    price = like.answer_cost * like.people
    people = DrawnPeople(answer)
    return piloted(f"study {seed}", space, decisions, people, f, like.horizon, seed, settings={"answer_cost": price})


def skewed(skew: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draw numbers with mean 0, variance 1 and this skewness, from a gamma distribution."""
    if skew == 0:
        return rng.standard_normal(shape)
    form = 4 / skew**2
    return np.asarray((rng.standard_gamma(form, shape) - form) / np.sqrt(form))


@dataclass(frozen=True)
class Outcome:
    """What a run lost and cost, in percent of what the worst decision would lose, and what it asked for."""

    regret: float
    cost: float
    numbers: int

    @classmethod
    def of(cls, run: Run) -> Outcome:
        """Measure a run."""
        unit, metrics = 100 / run.scenario.problem.horizon, run.metrics
        price = run.scenario.settings["answer_cost"]
        return cls(unit * metrics.regret, unit * (metrics.regret + price * metrics.numbers), metrics.numbers)


Found = Mapping[int, Mapping[str, Outcome]]  # by seed and policy


def run_all(seeds: Iterable[int], policies: Sequence[str]) -> Found:
    """Run every policy on every study."""
    found = {}
    for seed in seeds:
        scenario = study(seed)
        found[seed] = {name: Outcome.of(simulate(scenario, name, seed)) for name in policies}
    return found


def times(value: float, other: float) -> float:
    """Return how many times another cost a cost is."""
    return max(value, LEAST) / max(other, LEAST)


def column(found: Found, policy: str, name: str) -> Array:
    """Return one number of a policy in every study."""
    return np.array([getattr(each[policy], name) for each in found.values()], dtype=float)


def summary(found: Found) -> Rows:
    """Regret, how many times the least regret of all that is, numbers and cost: means, and medians beside them."""
    yield "policy", "regret", "median", "times the least", "median", "numbers", "cost", "median", "cheapest in"
    policies = names(found)
    least = np.min([column(found, policy, "regret") for policy in policies], axis=0)
    wins = Counter(winner(each) for each in found.values())
    for policy in policies:
        regret, cost = column(found, policy, "regret"), column(found, policy, "cost")
        ratio = np.array([times(a, b) for a, b in zip(regret, least, strict=True)])
        numbers = f"{np.mean(column(found, policy, 'numbers')):,.0f}"
        lost, more, paid = ([f"{of(values):.3g}" for of in (np.mean, np.median)] for values in (regret, ratio, cost))
        yield f"`{policy}`", *lost, *more, numbers, *paid, f"{wins[policy]} of {len(found)}"


def names(found: Found) -> list[str]:
    """Return the policies that were run."""
    return list(next(iter(found.values())))


def winner(outcomes: Mapping[str, Outcome]) -> str:
    """Return the policy of least cost."""
    return min(outcomes, key=lambda policy: outcomes[policy].cost)


def duels(found: Found) -> Rows:
    """`waves` against each peer: how often the peer costs less, and how many times as much the loser pays."""
    yield "peer", "costs less in", "`waves` then pays, median", "at most", "else the peer pays, median"
    for peer in [policy for policy in names(found) if policy != OURS]:
        ratios = np.array([times(each[OURS].cost, each[peer].cost) for each in found.values()])
        lost, won = ratios[ratios > 1], 1 / ratios[ratios <= 1]
        often = f"{len(lost)} of {len(ratios)}"
        yield f"`{peer}`", often, multiple(lost), multiple(lost, np.max), multiple(won)


def multiple(ratios: Array, of: Callable[[Array], object] = np.median) -> str:
    """Write a multiple that stands for several."""
    return f"{of(ratios):.2f} x" if len(ratios) else "-"


def losses(found: Found) -> Rows:
    """Where `waves` loses: mean costs by feature, how often a peer costs less, which, and how much `waves` pays."""
    yield "studies with", "", "`waves`", "cheapest peer", "`waves` is cheapest in", "else mostly", "and pays, median"
    for name, seeds in groups(list(found)):
        some = {seed: found[seed] for seed in seeds}
        means = {policy: float(column(some, policy, "cost").mean()) for policy in names(found)}
        peer = min((policy for policy in means if policy != OURS), key=lambda policy: means[policy])
        won = {seed: winner(each) for seed, each in some.items()}
        lost = np.array([times(found[s][OURS].cost, found[s][won[s]].cost) for s in seeds if won[s] != OURS])
        rivals = Counter(policy for policy in won.values() if policy != OURS).most_common(2)
        mostly = ", ".join(f"`{policy}` {count}" for policy, count in rivals)
        best = f"{len(seeds) - len(lost)} of {len(seeds)}"
        yield *name, f"{means[OURS]:.3g}", f"`{peer}` {means[peer]:.3g}", best, mostly, multiple(lost)


def groups(seeds: Sequence[int]) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """Split studies by each feature: at the median of a number, or by kind."""
    drawn = {seed: Features.of(seed) for seed in seeds}
    for each in fields(Features):
        values = {seed: getattr(like, each.name) for seed, like in drawn.items()}
        kinds = sorted(set(values.values()))
        if len(kinds) <= len(KERNELS):
            parts = {f"{kind}": [seed for seed in seeds if values[seed] == kind] for kind in kinds}
        else:
            middle = float(np.median(list(values.values())))
            low = [seed for seed in seeds if values[seed] <= middle]
            parts = {f"up to {middle:.3g}": low, "more": [seed for seed in seeds if seed not in low]}
        for said, some in parts.items():
            yield (each.name.replace("_", " "), said), some


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="how many studies")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first")
    parser.add_argument("--policies", default=",".join(POLICIES), help="with commas; botorch only if it is installed")
    chosen = parser.parse_args(arguments)
    policies = [name for name in chosen.policies.split(",") if name != "botorch" or installed()]
    found = run_all(range(chosen.first, chosen.first + chosen.count), policies)
    for table in (summary, duels, losses):
        print(f"{table.__doc__}\n")
        show(partial(table, found))


if __name__ == "__main__":
    main()

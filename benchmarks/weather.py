"""How often a statement about two arms of a wave in blocks is false, whatever rounds do to everybody alike.

Tables of several kinds of shocks, of people's noise beside them, of shocks that multiply, and of certificates in a
world that moves.
All arms are equally good. A wave plays every arm w times in each of R blocks, in random orders, and the residuals of
arms and blocks measure the shocks. *Fixed*: it is stated that one of two given arms is better than the other by at most
z times the deviation that was measured. *Chosen*: the reference is the arm that looks best in the plan part, and the
sealed part states by how much a given arm is better. Width: the median, in units of an oracle's that knows S.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.signal import lfilter

from benchmarks.robustness import Rows, share
from voxpop.errors import Array
from voxpop.policies.protocol import Watching
from voxpop.policies.waves.sealing import SEALED, factor, inflation
from voxpop.simulation.runs import simulate
from voxpop.simulation.trials import Trial
from voxpop.simulation.weather import WEEK

RUNS = 20_000
LEVELS = (0.05, 0.0135)
PROMOTION, LASTS = 5.0, 3  # standard deviations, rounds
Draw = Callable[[np.random.Generator, int, int], Array]  # shocks of unit scale, (runs, rounds)


def _persistent(correlation: float) -> Draw:
    def draw(rng: np.random.Generator, runs: int, rounds: int) -> Array:
        innovations = rng.standard_normal((runs, rounds))
        innovations[:, 1:] *= np.sqrt(1 - correlation**2)
        return np.asarray(lfilter([1.0], [1.0, -correlation], innovations, axis=1))

    return draw


def _promotion(rng: np.random.Generator, runs: int, rounds: int) -> Array:
    since = np.arange(rounds) - rng.integers(rounds, size=(runs, 1))
    return np.asarray(rng.standard_normal((runs, rounds)) + PROMOTION * ((since >= 0) & (since < LASTS)))


def _weekly(rng: np.random.Generator, runs: int, rounds: int) -> Array:
    return np.take_along_axis(
        rng.standard_normal((runs, WEEK)), (rng.integers(WEEK, size=(runs, 1)) + np.arange(rounds)) % WEEK, axis=1
    )


KINDS: dict[str, Draw] = {
    "white": _persistent(0.0),
    "AR 0.5": _persistent(0.5),
    "AR 0.8": _persistent(0.8),
    "trend": lambda _, runs, rounds: np.tile(np.arange(float(rounds)), (runs, 1)),
    "weekly": _weekly,
    "Student's t, 3": lambda rng, runs, rounds: rng.standard_t(3, (runs, rounds)),
    "promotion": _promotion,
}


@dataclass(frozen=True)
class Design:
    """Waves of R blocks of H arms, all pooled."""

    blocks: int
    arms: int
    waves: int = 1
    each: int = 1  # w, rounds of an arm in a block

    @property
    def rounds(self) -> int:
        """The rounds of an arm in all waves."""
        return self.waves * self.blocks * self.each

    @property
    def freedom(self) -> int:
        """The degrees of freedom of the residuals of all waves."""
        return self.waves * (self.blocks - 1) * (self.arms - 1)


@dataclass(frozen=True, eq=False)
class Measured:
    """What happened in many runs, in units of a round."""

    errors: Array  # (runs, arms) of the averages over all waves and blocks
    square: Array  # (runs,) the residuals' mean square
    within: Array  # (runs,) S


def played(shocks: Array, design: Design, rng: np.random.Generator, noise: Array | None = None) -> Measured:
    """Play waves in random orders, with shocks (runs, rounds) and people's noise (runs, waves, blocks, arms)."""
    cells = shocks.reshape(len(shocks), design.waves, design.blocks, design.each, design.arms)
    within = cells.var(axis=4, ddof=1).mean(axis=(1, 2, 3))
    cells = rng.permuted(cells, axis=4).mean(axis=3)
    cells = cells if noise is None else cells + noise
    rest = cells - cells.mean(axis=2, keepdims=True)
    rest -= rest.mean(axis=3, keepdims=True)
    square = design.each * np.square(rest).sum(axis=(1, 2, 3)) / design.freedom
    return Measured(cells.mean(axis=(1, 2)), square, within)


def counted(square: Array, people: float, freedom: float, level: float) -> Array:
    """Return the variance of shocks to count with, in units of a round (`Shocks.at_most`)."""
    return np.asarray(inflation(level, freedom) * np.maximum(square, people) - people)


def false(found: Measured, design: Design, level: float, people: float = 0.0, here: float | None = None) -> Array:
    """Return where the statement about two given arms, to which people may add less than on average, is false."""
    variance = (people if here is None else here) + counted(found.square, people, design.freedom, level)
    width = factor(level) * np.sqrt(2 * variance / design.rounds)
    return np.asarray(found.errors[:, 0] - found.errors[:, 1] > width)


def false_of_chosen(found: Measured, design: Design, level: float, rng: np.random.Generator) -> Array:
    """Return where the sealed statement about the first arm and a reference that the plan part chose is false."""
    runs = np.arange(len(found.errors))
    w = np.sqrt(found.square / design.rounds)[:, None] * rng.standard_normal(found.errors.shape)
    odds = SEALED / (1 - SEALED)
    best = np.argmax(found.errors + np.sqrt(odds) * w, axis=1)
    sealed = found.errors - w / np.sqrt(odds)
    variance = counted(found.square, 0.0, design.freedom, level) / SEALED
    width = factor(level) * np.sqrt(2 * variance / design.rounds)
    return np.asarray((best > 0) & (-(sealed[:, 0] - sealed[runs, best]) > width))


def kinds(runs: int = RUNS, seed: int = 0) -> Rows:
    """One row for each kind of shocks and design, with no noise of people."""
    yield "shocks", "R", "H", "waves", "w", *(f"fixed, {level:.2%}" for level in LEVELS), "chosen, 5 %", "width, 5 %"
    designs = [Design(*each) for each in product((2, 4, 8), (2, 4, 9), (1, 3))] + [
        Design(2, 2, each=8),
        Design(4, 2, each=4),
    ]
    for number, (name, design) in enumerate(product(KINDS, designs)):
        rng = np.random.default_rng([seed, number])
        found = played(KINDS[name](rng, runs, design.rounds * design.arms), design, rng)
        widths = np.sqrt(counted(found.square, 0.0, design.freedom, LEVELS[0]) / found.within)
        yield (
            *(name, design.blocks, design.arms, design.waves, design.each),
            *(share(false(found, design, level), 2) for level in LEVELS),
            share(false_of_chosen(found, design, LEVELS[0], rng), 2),
            f"{np.median(widths):.2f}",
        )


def people(runs: int = RUNS, seed: int = 1) -> Rows:
    """One row for each size of people's noise, in units of white shocks, and design.

    Alike: at all arms alike. Elsewhere: as much on average, but all of it in a difference of two other arms.
    """
    yield "people", "R", "H", *(f"{name}, {level:.2%}" for name in ("alike", "elsewhere") for level in LEVELS)
    for number, (size, blocks, arms) in enumerate(product((0.0, 1.0, 3.0, 10.0), (2, 4, 8), (2, 4, 9))):
        rng, design = np.random.default_rng([seed, number]), Design(blocks, arms)
        shocks, cells = rng.standard_normal((runs, blocks * arms)), (runs, 1, blocks, arms)
        alike = played(shocks, design, rng, np.sqrt(size) * rng.standard_normal(cells))
        cell = [share(false(alike, design, level, size), 2) for level in LEVELS]
        if arms > 2:
            noise = np.zeros(cells)
            noise[..., 2] = np.sqrt(size * (arms - 1) / 2) * rng.standard_normal(cells[:-1])
            noise[..., 3] = -noise[..., 2]
            elsewhere = played(shocks, design, rng, noise)
            cell += [share(false(elsewhere, design, level, size, here=0.0), 2) for level in LEVELS]
        else:
            cell += ["", ""]
        yield f"{size:g}", blocks, arms, *cell


SPREADS = ((2.0, 2.0, 2.0, 2.0), (2.0, 2.0, 0.5, 0.5), (0.5, 0.5, 2.0, 2.0), (2.0, 1.5, 1.2, 1.0))


def multiplied(runs: int = RUNS, seed: int = 2, crowd: int = 20) -> Rows:
    """One row for each list of expected rewards that white shocks of 20 % multiply, and for each kind of people.

    Stated, at 5 %, is by how much the first decision is better than the second: the difference, counted as if shocks
    were added, or the ratio, from the logarithms of averages by block and arm. Answers of one person are gamma with
    this standard deviation, in units of their mean. Seasons: one more factor for the whole wave, of 30 %.
    """
    yield "rewards", "people", "seasons", "false: added", "false: logarithms", "width of a ratio: added", "logarithms"
    design = Design(4, 4, each=2)
    for number, (rewards, vary, seasons) in enumerate(product(SPREADS, (0.01, 1.0), (0.0, 0.3))):
        rng, f = np.random.default_rng([seed, number]), np.array(rewards)
        shocks = np.exp(0.2 * rng.standard_normal((runs, design.blocks, design.each, design.arms)) - 0.02).mean(axis=2)
        whole = np.exp(seasons * rng.standard_normal((runs, 1, 1)) - seasons**2 / 2)
        shape = crowd / vary**2
        averages = f * shocks * whole * rng.gamma(shape, 1 / shape, shocks.shape)
        relative = np.full(design.arms, vary**2 / crowd)
        added = _ahead(averages, design, f**2 * relative, f[0] - f[1])
        logs = _ahead(np.log(averages), design, relative, float(np.log(f[0] / f[1])))
        yield (
            *(" ".join(f"{reward:g}" for reward in rewards), f"{vary:g}", f"{seasons:g}"),
            *(share(false, 2) for false, _ in (added, logs)),
            *(f"{np.median(width):.2f}" for width in (added[1] / f[1], logs[1])),
        )


def _ahead(cells: Array, design: Design, people: Array, truth: float) -> tuple[Array, Array]:
    """Return where it is false that the first arm is ahead of the second by at most so much, and the widths.

    People add the variances `people` to the averages by block and arm, (runs, blocks, arms).
    """
    rest = cells - cells.mean(axis=1, keepdims=True)
    rest -= rest.mean(axis=2, keepdims=True)
    square, whole = np.square(rest).sum(axis=(1, 2)) / design.freedom, float(people.mean())
    variance = people[:2].sum() + 2 * counted(square, whole, design.freedom, LEVELS[0])
    width = factor(LEVELS[0]) * np.sqrt(variance / design.blocks)
    return cells[:, :, 0].mean(axis=1) - cells[:, :, 1].mean(axis=1) + width < truth, width


AGES = (0, 500, 2_000, 8_000)


def aged(runs: int = 40, seed: int = 0) -> Rows:
    """One row for each rate of change, in units of the range of rewards, and age of a certificate, in rounds.

    The pricing study ends, and its decision stays in force. In the simulated world two prices part as fast as the rate
    allows. Unstated: the policy is told of no drift.
    """
    yield "rate", "age", "true", "median, range", "says nothing", "true, unstated", "decision loses, range"
    for rate in (0.0, 1e-5, 1e-4):
        trials = [Trial("pricing", seed=seed + number, size=51, drift_rate=rate) for number in range(runs)]
        found = [[_ageing(trial, drift) for trial in trials] for drift in (rate, 0.0)]
        for place, age in enumerate(AGES):
            stated, unstated = (np.array([ages[place] for ages in each]) for each in found)  # (runs, 2)
            known = np.isfinite(stated[:, 0])
            yield (
                *(f"{rate:g}", age, f"{np.mean(stated[:, 1] <= stated[:, 0]):.0%}", f"{np.median(stated[:, 0]):.2f}"),
                *(f"{1 - known.mean():.0%}", f"{np.mean(unstated[:, 1] <= unstated[:, 0]):.0%}"),
                f"{stated[:, 1].mean():.3f}",
            )


def _ageing(trial: Trial, drift: float) -> list[tuple[float, float]]:
    """Return what is certified at each age, and what the decision loses then, in units of the range of rewards."""
    scenario = trial.scenario()
    size = float(np.ptp(scenario.f))
    run = simulate(scenario, scenario.make_policy("waves", drift=drift * size or None), trial.seed)
    assert isinstance(run.policy, Watching)
    found = []
    for age in AGES:
        state = run.policy.passed(scenario.problem, run.state, age) if age else run.state
        now = run.now if run.moves is None else run.now + age * run.moves
        found.append((state.certificate / size, float(now.max() - now[run.best]) / size))
    return found

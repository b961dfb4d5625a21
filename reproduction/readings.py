"""What the paper leaves open: the readings of its text, run beside its tables of numbers sent.

tab:runtime, tab:communication_time_baseline and the costs of fig:tradeoff. A run here is alg:DPBE with the choices of a
reading; without any it is `dpbe-paper`, as a test shows. Which reading the authors used is not known: those that bring
their numbers out were found by trying, after the numbers were seen.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.random import Generator

from reproduction.exhibits import STUDIES, Exhibit, Finding, Scale, Sheet, Shown, ranged
from reproduction.paper import COST, COST_AT_LARGEST_ALPHA, TRADEOFF_ALPHAS
from voxpop.errors import Array
from voxpop.gp.posterior import regress
from voxpop.gp.selection import BatchRule, select
from voxpop.model.problem import Indices, Problem
from voxpop.policies.dpbe import people_of_phase, printed_width
from voxpop.report.drawing import BLUE, INK, MUTED, ORANGE, Axes
from voxpop.simulation.comparison import Cells, quantity
from voxpop.simulation.paper import SHIPPED
from voxpop.simulation.pictures import PURPLE, logarithmic, panels
from voxpop.simulation.scenarios import Options, make_scenario

RANGES = Path(__file__).with_name("light_ranges.csv")  # least and largest reading of every sensor, and their deviation
MOST_ROUNDS = 1023  # of DPBE-NoBatching, whose cost is then at least three times any the paper prints
SLACK = 1.1  # the paper's numbers are means, which may lie a little outside of what single runs send
NEAREST = 12  # functions that are run again with other people


@dataclass(frozen=True)
class Reading:
    """One way to read the paper; the defaults are its captions and algorithm, and None is the study's own."""

    alpha: float | None = None
    noise_std: float | None = None
    norm_bound: float | None = None
    ridge: float | None = None  # lambda; sigma^2 / v^2 unless given
    batches: BatchRule = "printed"
    merged: bool = True  # rk:shrink: a number for each action of a phase; or one for each batch
    rounds_up: bool = True  # |U_l| is rounded up, or down
    first: int = 1  # T_1
    stops: bool = True  # when one action is left; or at T
    rewards: Literal["largest", "spread", "range"] = "largest"  # of the sensors, see `light`
    upside_down: bool = False


Sent = tuple[int, int]
AS_CAPTIONED = "as captioned"
COMMON = {
    "batches not merged": Reading(merged=False),
    "batch length with lambda": Reading(batches="corrected"),
    "lambda = sigma^2": Reading(ridge=1e-4),
    "|U_l| rounded down": Reading(rounds_up=False),
    "T_1 = 2": Reading(first=2),
    "no stop at one action": Reading(stops=False),
}
UNMERGED = Reading(merged=False, batches="corrected")
OWN: dict[str, dict[str, Reading]] = {
    "synthetic": {
        "B = 1": Reading(norm_bound=1.0),
        "not merged, length with lambda": UNMERGED,
        "not merged, length with lambda, B = 2": replace(UNMERGED, norm_bound=2.0),
        "not merged, length with lambda, B = 1": replace(UNMERGED, norm_bound=1.0),
    },
    "sphere": {"minimised": Reading(upside_down=True)},
    "camel": {"minimised": Reading(upside_down=True)},
    "michalewicz": {
        "sigma = 0.01 (appendix)": Reading(noise_std=0.01),
        "sigma = 0.01, alpha = 0.7": Reading(noise_std=0.01, alpha=0.7),
        "sigma = 0.01, length with lambda": Reading(noise_std=0.01, batches="corrected"),
        "as written, maximised": Reading(upside_down=True),
    },
    "light": {
        "alpha = 0.7 (text)": Reading(alpha=0.7),
        "means scaled to [0, 1], alpha = 0.7": Reading(alpha=0.7, rewards="spread"),
        "each sensor's range, alpha = 0.8": Reading(rewards="range"),
        "each sensor's range, alpha = 0.7": Reading(alpha=0.7, rewards="range"),
    },
}
READINGS = {study: {AS_CAPTIONED: Reading(), **own, **COMMON} for study, own in OWN.items()}
COLUMNS = {"DPBE": Reading(), "DPBE-NoBatching": Reading(batches="single")}
LABELS = dict.fromkeys(STUDIES, ("tab:communication_time_baseline",)) | {"synthetic": ("tab:runtime", "fig:tradeoff")}


def light(rewards: str) -> tuple[Array, Array]:
    """Compute rewards and kernel of the sensors by other meanings of "normalised" than `load_light` has.

    "spread": the means, scaled to [0, 1]. "range": every sensor's readings scaled to [0, 1] by its own least and
    largest, and then averaged; the kernel is the covariance of the readings in units of their overall variance.
    """
    table = np.loadtxt(SHIPPED, delimiter=",", encoding="utf-8")
    mean, correlation = table[:, 2], np.ascontiguousarray(table[:, 3:])
    low, high, std = np.loadtxt(RANGES, delimiter=",", encoding="utf-8").T
    if rewards == "spread":
        return (mean - mean.min()) / np.ptp(mean), correlation
    overall = float(np.mean(std**2 + (mean - mean.mean()) ** 2))
    return (mean - low) / (high - low), correlation * np.outer(std, std) / overall


def make(study: str, reading: Reading, function: int) -> tuple[Problem, Array, float, float]:
    """Make a problem with its truth, alpha and C: the study's, with what the reading chooses."""
    scenario = make_scenario(study, Options(seed=function, noise_std=reading.noise_std))
    problem, f = scenario.problem, scenario.f
    if study == "light" and reading.rewards != "largest":
        f, matrix = light(reading.rewards)
        chosen = problem.noise_std, problem.bias_std, float(f.max()), problem.horizon
        problem = Problem.of_matrix(matrix, *chosen)
    problem = replace(
        problem, norm_bound=reading.norm_bound or problem.norm_bound, ridge=reading.ridge or problem.ridge
    )
    alpha = scenario.settings["alpha"] if reading.alpha is None else reading.alpha
    return problem, -f if reading.upside_down else f, alpha, scenario.settings["ratio"]


def play(
    problem: Problem, f: Array, read: Reading, alpha: float, ratio: float, rng: Generator, people: int = 0
) -> Sent:
    """Run alg:DPBE by a reading; with `people`, DPBE-Fixed. Return the numbers sent, and one person's share."""
    single = read.batches == "single"
    active, phase, played = np.arange(problem.size), 0, 0
    most = min(problem.horizon, MOST_ROUNDS) if single else problem.horizon
    numbers = of_one = 0
    while played < most and (len(active) > 1 or not read.stops):
        phase += 1
        rounds = min(read.first * 2 ** (phase - 1), most - played)
        chosen = select(problem, active, rounds, ratio, read.batches)
        scheduled = people_of_phase(alpha, phase) if read.rounds_up else max(1, math.floor(2 ** (alpha * phase)))
        count = people or scheduled
        sent = rounds if single else len(chosen.arms) if read.merged else chosen.batches
        numbers, of_one, played = numbers + count * sent, of_one + sent, played + rounds
        noise = problem.answer_noise(chosen.arms, chosen.pulls, count)
        weights, variance = regress(problem, chosen.arms, chosen.pulls, active)
        centre = weights @ rng.multivariate_normal(f[chosen.arms], noise, method="eigh")
        width = printed_width(problem, variance, active, count, problem.norm_bound)
        active = active[centre + width >= (centre - width).max()]
    return numbers, of_one


@dataclass(frozen=True)
class Spread:
    """The numbers that a reading sends, by column: one run for each function."""

    numbers: Mapping[str, Array]
    printed: Mapping[str, float]

    def holds(self, column: str) -> bool:
        """Return whether the printed number lies among these, or within a tenth of them."""
        numbers, value = self.numbers[column], self.printed[column]
        return bool(numbers.min() / SLACK <= value <= numbers.max() * SLACK)

    @property
    def logs(self) -> Array:  # (columns, functions)
        """The distance from the printed numbers, as logarithms of factors."""
        return np.array([np.abs(np.log(self.numbers[column] / value)) for column, value in self.printed.items()])

    @property
    def factors(self) -> Array:  # (functions,)
        """By how much each function differs from the printed numbers, in the column where it does most."""
        return np.asarray(np.exp(self.logs.max(axis=0)))

    @property
    def curves(self) -> Array:  # (alphas, functions)
        """The cost at every alpha of fig:tradeoff."""
        return np.array([self.numbers[_alpha(alpha)] for alpha in TRADEOFF_ALPHAS])

    @property
    def dips(self) -> Indices:
        """The functions on which alpha = 0.4, 0.5 and 0.6 cost more than 0.7, the nearest to the paper first."""
        found = np.flatnonzero((self.curves[1:4] > self.curves[4]).all(axis=0))
        return found[np.argsort(self.logs.sum(axis=0)[found])]


def spread(study: str, reading: Reading, functions: int) -> Spread:
    """Run a reading on many functions, or on the sensors as often."""
    columns = dict(COLUMNS)
    printed = {name: COST[study][name][0] for name in columns}
    if study == "synthetic":
        columns |= {_alpha(alpha): Reading(alpha=alpha) for alpha in TRADEOFF_ALPHAS}
        printed[_alpha(0.9)] = COST_AT_LARGEST_ALPHA
    numbers: dict[str, list[int]] = {name: [] for name in columns}
    for seed in range(functions):
        problem, f, alpha, ratio = make(study, reading, seed)
        for name, column in columns.items():
            read = replace(reading, batches="single") if column.batches == "single" else reading
            rng = np.random.default_rng(seed)
            numbers[name].append(play(problem, f, read, column.alpha or alpha, ratio, rng)[0])
    return Spread({name: np.array(found, dtype=float) for name, found in numbers.items()}, printed)


def one_function(study: str, reading: Reading, function: int, runs: int) -> dict[str, Array]:
    """Run the three policies of the paper's tables on one function, with other people in every run."""
    problem, f, alpha, ratio = make(study, reading, function)
    found: dict[str, list[int]] = {name: [] for name in COST[study]}
    for seed in range(1000, 1000 + runs):
        first = play(problem, f, reading, alpha, ratio, np.random.default_rng(seed))
        people = max(1, first[0] // first[1])
        fixed = play(problem, f, reading, alpha, ratio, np.random.default_rng(seed), people)
        single = play(problem, f, replace(reading, batches="single"), alpha, ratio, np.random.default_rng(seed))
        for name, played in zip(found, (first, fixed, single), strict=True):
            found[name].append(played[0])
    return {name: np.array(values, dtype=float) for name, values in found.items()}


def exhibits(scale: Scale) -> Iterator[Exhibit]:
    """Make one exhibit for each study; its runs are short, and made when it is shown."""
    for study in STUDIES:
        yield Exhibit(
            name=f"readings/{study}",
            title=f"Numbers sent by every reading of the paper: {study}",
            labels=LABELS[study],
            series={},
            present=partial(present, study, scale),
            text="Every dot is a function with one run, or a run on the sensors; the bar is the median, the line the "
            "paper's number. DPBE-NoBatching is cut after 1,023 rounds. The function that is run 20 times is the one "
            "that comes closest to the paper's numbers: like the reading, it was chosen after they were seen.",
        )


def present(study: str, scale: Scale, cells: Cells) -> Shown:
    """Run the readings, draw them, and judge every printed cell."""
    found = {name: spread(study, reading, scale.functions) for name, reading in READINGS[study].items()}
    width, height = 6.2, 1.6 + 0.26 * len(found)
    with panels(2 + (study == "synthetic"), width, height) as (figure, axes):
        for ax, column in zip(axes, COLUMNS, strict=False):
            _draw(ax, column, found)
        axes[1].set_yticklabels([])
        if study == "synthetic":
            _draw_curves(axes[2], found)
    best = next((name for name, one in found.items() if all(map(one.holds, one.printed))), None)
    return Shown(figure, [_cells(study, found, best, scale.seeds), _readings(found)], _findings(study, found, best))


def _draw(ax: Axes, column: str, found: Mapping[str, Spread]) -> None:
    """Draw a row of dots for each reading."""
    for place, one in enumerate(found.values()):
        values = one.numbers[column]
        colour = BLUE if one.holds(column) else MUTED
        ax.plot(values, np.full(len(values), place), ".", color=colour, alpha=0.35, markersize=5)
        ax.plot([np.median(values)], [place], "|", color=INK, markersize=12, markeredgewidth=2)
    ax.axvline(one.printed[column], color=ORANGE, linewidth=1.5)
    logarithmic(ax, "x")
    ax.set_yticks(range(len(found)), list(found), fontsize=8)
    ax.invert_yaxis()
    ax.set(title=column, xlabel="numbers sent (line: the paper)")


def _draw_curves(ax: Axes, found: Mapping[str, Spread]) -> None:
    """Draw the cost against alpha: the medians as captioned, and the function with a dip nearest to the paper."""
    ax.plot(
        TRADEOFF_ALPHAS, np.median(found[AS_CAPTIONED].curves, axis=1), "o-", color=BLUE, label="median, as captioned"
    )
    name = max(found, key=lambda name: len(found[name].dips))
    if len(dips := found[name].dips):
        label = f"function {dips[0]}: {name}"
        ax.plot(TRADEOFF_ALPHAS, found[name].curves[:, dips[0]], "o-", color=PURPLE, label=label)
    printed = found[AS_CAPTIONED].printed
    ax.plot([0.7, 0.9], [printed["DPBE"], printed[_alpha(0.9)]], "x", color=ORANGE, markersize=9, label="paper")
    logarithmic(ax, "y")
    ax.set(title="DPBE: numbers sent by alpha", xlabel="alpha")
    ax.legend(fontsize=8)


def _cells(study: str, found: Mapping[str, Spread], best: str | None, runs: int) -> Sheet:
    """Judge every cell: agrees, agrees under a reading, or does not."""
    usual = found[AS_CAPTIONED]
    named = AS_CAPTIONED if best is None else best
    near = np.argsort(found[named].logs.sum(axis=0), kind="stable")[: 1 if study == "light" else NEAREST]
    tried = {int(function): one_function(study, READINGS[study][named], int(function), runs) for function in near}
    function, alone = min(tried.items(), key=lambda pair: _distance(study, pair[1]))
    verdict = "does not" if best is None else "agrees" if best == AS_CAPTIONED else f"agrees: {best}"
    rows: list[Sequence[str]] = []
    for policy, (value, _) in COST[study].items():
        column = "DPBE" if policy == "DPBE-Fixed" else policy  # which costs what DPBE costs
        mean = f"mean {quantity(float(alone[policy].mean()))}, {ranged(alone[policy])}"
        rows.append((policy, quantity(value), ranged(usual.numbers[column]), mean, verdict))
    others = [column for column in usual.printed if column not in COST[study]]
    rows += [(one, quantity(usual.printed[one]), ranged(usual.numbers[one]), "", verdict) for one in others]
    again = f"{runs} runs" if study == "light" else f"function {function}, {runs} runs"
    headings = ("numbers sent", "paper", "functions, as captioned", again, "verdict")
    return Sheet(f"Numbers sent, cell by cell: {study}; medians (least to largest)", LABELS[study][0], headings, rows)


def _readings(found: Mapping[str, Spread]) -> Sheet:
    """List what every reading sends."""
    columns = list(found[AS_CAPTIONED].printed)
    rows = {
        name: {
            **{column: ranged(one.numbers[column]) for column in columns},
            "all columns within a factor of 2": f"{int((one.factors <= 2).sum())} of {len(one.factors)}",
            "nearest, factor": f"{one.factors.min():.2f}",
        }
        for name, one in found.items()
    }
    return Sheet.of("What every reading sends; medians (least to largest)", "", "reading", rows)


def _findings(study: str, found: Mapping[str, Spread], best: str | None) -> list[Finding]:
    usual = found[AS_CAPTIONED]
    claim = f"{study}: the numbers sent by DPBE, DPBE-Fixed and DPBE-NoBatching are those of the paper"
    evidence = "by no reading" if best is None else f"all within the range of our runs: {best}"
    made = [Finding(claim, "not reproduced" if best is None else "reproduced", evidence)]
    if study == "synthetic":
        dips = [f"{len(one.dips)} with {name}" for name, one in found.items() if len(one.dips)]
        evidence = f"of {len(usual.factors)} functions {len(usual.dips)} as captioned; {'; '.join(dips) or 'none else'}"
        claim = "DPBE costs more at alpha = 0.4, 0.5 and 0.6 than at 0.7"
        made.append(Finding(claim, "reproduced" if dips else "not reproduced", evidence))
    return made


def _distance(study: str, alone: Mapping[str, Array]) -> float:
    """Compute how far the means of one function's runs are from the paper's numbers."""
    return sum(abs(math.log(values.mean() / COST[study][policy][0])) for policy, values in alone.items())


def _alpha(alpha: float) -> str:
    return f"DPBE, alpha = {alpha}"

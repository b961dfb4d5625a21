"""What the default policy certifies and costs in named studies: in the open, with privacy, and in bad weather."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from voxpop.errors import Array
from voxpop.simulation.runs import Run
from voxpop.simulation.trials import Trial

KINDS: dict[str, dict[str, float | bool]] = {
    "white": {},
    "AR 0.8": {"shocks_persist": 0.8},
    "weekly, AR 0.5": {"shocks_persist": 0.5, "weekly": True},
}
STUDIES = ("pricing", "train", "voters", "camel-minimum", "light", "synthetic", "sphere-minimum", "michalewicz")


def certificates(
    seeds: int = 20,
    first: int = 0,
    study: Sequence[str] = STUDIES,
    privacy: str = "central",
    epsilon: Sequence[float] = (5.0, 1.0),
    tolerance: float | None = None,
) -> Iterator[tuple[object, ...]]:
    """Run studies without settings, or with a tolerance, in the open and with every epsilon.

    The certificate is the median, in units of the range of f, and as a multiple of the open one; the tolerance is a
    share of the same range. Nothing: no bound was certified. False: the decision loses more than was certified.
    """
    yield "study", "epsilon", "certificate", "of the open", "nothing", "false", "regret", "median", "numbers"
    for name in study:
        unit: float | None = None
        for promise in (None, *epsilon):
            runs = (_run(name, first + seed, privacy, promise, tolerance) for seed in range(seeds))
            certificate, nothing, false, regret, numbers = np.array([_outcome(run) for run in runs]).T
            middle = float(np.median(certificate))
            unit = middle if unit is None else unit
            yield (
                name,
                "open" if promise is None else f"{promise:g}",
                f"{middle:.3f}",
                f"{middle / unit:.2f}" if unit else "",
                f"{nothing.mean():.0%}",
                f"{false.mean():.0%}",
                f"{regret.mean():,.0f} ± {regret.std(ddof=1) / np.sqrt(seeds):,.0f}",
                f"{np.median(regret):,.0f}",
                f"{numbers.mean():,.0f}",
            )


def weather(
    seeds: int = 20,
    first: int = 0,
    study: Sequence[str] = ("pricing", "synthetic", "train", "voters", "tariff"),
    shocks: Sequence[float] = (0.05, 0.1, 0.2),
    tolerance: float | None = None,
    freedom: float | None = None,
) -> Iterator[tuple[object, ...]]:
    """Run studies without settings, calm and with shocks of several sizes and kinds in pilot and waves alike.

    Kept: the best decision can still be best at the end. True: the decision loses no more than was certified. Rounds:
    those that were asked about. With `freedom` the true size of shocks is known with so many degrees of freedom, as
    from a history.
    """
    yield (
        "study",
        "shocks",
        "regret",
        "median",
        "certificate",
        "of the calm",
        "kept",
        "true",
        "B raised",
        "numbers",
        "rounds",
    )
    for name in study:
        unit: float | None = None
        for size, kind in [(0.0, "calm"), *product(shocks, KINDS)]:
            trial = Trial(name, shocks=size, **KINDS.get(kind, {}))  # type: ignore[arg-type]
            runs = (_shocked(replace(trial, seed=first + seed), tolerance, freedom) for seed in range(seeds))
            regret, certificate, kept, true, raised, numbers, rounds = np.array(list(runs)).T
            middle = float(np.median(certificate))
            unit = middle if unit is None else unit
            yield (
                *(name, f"{size:.0%} {kind}" if size else kind),
                f"{regret.mean():,.0f} ± {regret.std(ddof=1) / np.sqrt(seeds):,.0f}",
                *(f"{np.median(regret):,.0f}", f"{middle:.3f}", f"{middle / unit:.2f}"),
                *(f"{kept.sum():.0f}", f"{true.sum():.0f}", f"{raised.sum():.0f}"),
                *(f"{numbers.mean():,.0f}", f"{rounds.mean():,.0f}"),
            )


def _shocked(trial: Trial, tolerance: float | None, freedom: float | None) -> tuple[float, ...]:
    scenario = trial.scenario()
    size = float(np.ptp(scenario.f))
    if freedom is not None:
        known = replace(scenario.problem, shock_std=trial.shocks * size, shock_freedom=freedom)
        scenario = replace(scenario, problem=known)
    if tolerance is not None:
        trial = replace(trial, settings={"tolerance": tolerance * size})
    run = trial.run(scenario=scenario)
    return (
        run.metrics.regret,
        run.state.certificate / size,
        bool(np.isin(np.flatnonzero(scenario.f == scenario.f.max()), run.state.active).any()),
        run.certificate_true,
        run.state.norm_bound > scenario.problem.norm_bound,
        run.metrics.numbers,
        sum(plan.asked for plan in run.plans),
    )


def _run(study: str, seed: int, privacy: str, epsilon: float | None, tolerance: float | None) -> Run:
    """Run one study; no epsilon means no privacy."""
    trial = Trial(study, seed=seed, privacy="none" if epsilon is None else privacy, epsilon=epsilon)
    scenario = trial.scenario()
    if tolerance is not None:
        trial = replace(trial, settings={"tolerance": tolerance * float(np.ptp(scenario.f))})
    return trial.run(scenario=scenario)


def _outcome(run: Run) -> Array:
    """Judge a run by the truth: certificate of the range, whether there is none, whether it is false, what it cost."""
    certified = run.state.certificate / float(np.ptp(run.scenario.f))
    return np.array([certified, np.isinf(certified), not run.certificate_true, run.metrics.regret, run.metrics.numbers])

"""What the default policy certifies and costs in named studies: in the open, with privacy, and in bad weather."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

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
            trial = Trial(name, privacy="none" if promise is None else privacy, epsilon=promise)
            runs = [_judged(replace(trial, seed=first + seed), tolerance) for seed in range(seeds)]
            regret, certificate, _, true, _, numbers, _ = np.array(runs).T
            middle = float(np.median(certificate))
            unit = middle if unit is None else unit
            yield (
                *(name, "open" if promise is None else f"{promise:g}", f"{middle:.3f}"),
                *(f"{middle / unit:.2f}" if unit else "", f"{np.isinf(certificate).mean():.0%}"),
                f"{1 - true.mean():.0%}",
                f"{regret.mean():,.0f} ± {regret.std(ddof=1) / np.sqrt(seeds):,.0f}",
                *(f"{np.median(regret):,.0f}", f"{numbers.mean():,.0f}"),
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
    judged = "kept", "true", "B raised", "numbers", "rounds"
    yield "study", "shocks", "regret", "median", "certificate", "of the calm", *judged
    for name in study:
        unit: float | None = None
        for size, kind in [(0.0, "calm"), *product(shocks, KINDS)]:
            trial = Trial(name, shocks=size, **KINDS.get(kind, {}))  # type: ignore[arg-type]
            runs = [_judged(replace(trial, seed=first + seed), tolerance, freedom) for seed in range(seeds)]
            regret, certificate, kept, true, raised, numbers, rounds = np.array(runs).T
            middle = float(np.median(certificate))
            unit = middle if unit is None else unit
            yield (
                *(name, f"{size:.0%} {kind}" if size else kind),
                f"{regret.mean():,.0f} ± {regret.std(ddof=1) / np.sqrt(seeds):,.0f}",
                *(f"{np.median(regret):,.0f}", f"{middle:.3f}", f"{middle / unit:.2f}"),
                *(f"{kept.sum():.0f}", f"{true.sum():.0f}", f"{raised.sum():.0f}"),
                *(f"{numbers.mean():,.0f}", f"{rounds.mean():,.0f}"),
            )


def _judged(trial: Trial, tolerance: float | None, freedom: float | None = None) -> tuple[float, ...]:
    """Run a study and judge it by its truth; tolerance and certificate are shares of the range of f."""
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

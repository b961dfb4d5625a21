"""What the default policy certifies and costs in named studies, in the open and with privacy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from voxpop.errors import Array
from voxpop.simulation.runs import Run
from voxpop.simulation.trials import Trial

STUDIES = ("pricing", "train", "voters", "camel-minimum", "light", "synthetic", "sphere-minimum", "michalewicz")


def certificates(
    seeds: int = 20,
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
            runs = (_run(name, seed, privacy, promise, tolerance) for seed in range(seeds))
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

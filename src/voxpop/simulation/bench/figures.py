"""The figures: what is timed against what, and what must be reached."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from voxpop.simulation.bench.large import growth, large_set, plain_loop, widths
from voxpop.simulation.bench.peers import other_policies, round_by_round
from voxpop.simulation.bench.results import Results
from voxpop.simulation.bench.studies import crowds, every_round, small_studies
from voxpop.simulation.bench.waves import planning


def pieces(quick: bool) -> dict[str, Callable[[], Results]]:
    """Return the measurements by name."""
    sizes, arms, horizons = [10_000, 30_000, 100_000], [50, 100, 200], [300, 1000, 3000]
    if not quick:
        sizes, arms, horizons = [*sizes, 300_000], [*arms, 400], [*horizons, 10_000]
    return {
        "the plain program": partial(small_studies, 1 if quick else 5),
        "the plain loop": partial(plain_loop, 10_000, 200),
        "a large decision set": partial(large_set, 100_000 if quick else 1_000_000, 300),
        "affine widths": partial(widths, 100_000, 200),
        "growth with n and H": partial(growth, sizes, arms),
        "GP-UCB": partial(round_by_round, horizons),
        "every round": partial(every_round, 10_000 if quick else 40_000),
        "the plan of a wave": partial(planning, [100, 10_000] if quick else [100, 10_000, 1_000_000]),
        "crowds": crowds,
        "other policies": partial(other_policies, 1000 if quick else 5000),
    }

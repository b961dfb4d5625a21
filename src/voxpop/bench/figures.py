"""The figures: what is timed against what, and what must be reached."""

from __future__ import annotations

from collections.abc import Callable

from voxpop.bench.large import growth, large_set, plain_loop, widths
from voxpop.bench.peers import other_policies, round_by_round
from voxpop.bench.results import Results
from voxpop.bench.studies import crowds, small_studies


def pieces(quick: bool) -> dict[str, Callable[[], Results]]:
    """Everything there is to measure, piece by piece, by what it is about."""
    if quick:
        return {
            "the plain program": lambda: small_studies(1),
            "the plain loop": lambda: plain_loop(10_000, 200),
            "a large decision set": lambda: large_set(100_000, 300),
            "affine widths": lambda: widths(100_000, 200),
            "growth with n and H": lambda: growth([10_000, 30_000, 100_000], [50, 100, 200]),
            "GP-UCB": lambda: round_by_round([300, 1000, 3000]),
            "crowds": crowds,
            "other policies": lambda: other_policies(1000),
        }
    return {
        "the plain program": lambda: small_studies(5),
        "the plain loop": lambda: plain_loop(10_000, 200),
        "a large decision set": lambda: large_set(1_000_000, 300),
        "affine widths": lambda: widths(100_000, 200),
        "growth with n and H": lambda: growth([10_000, 30_000, 100_000, 300_000], [50, 100, 200, 400]),
        "GP-UCB": lambda: round_by_round([300, 1000, 3000, 10_000]),
        "crowds": crowds,
        "other policies": lambda: other_policies(5000),
    }

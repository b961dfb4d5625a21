"""Large decision sets: selection and widths against plain loops, matrix products and each other."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import numpy as np

from benchmarks.measure import Absent, Curve, Figure, Found, seconds, together
from benchmarks.plain import plain_select
from voxpop.errors import Array
from voxpop.gp.factor import Factor
from voxpop.gp.large_widths import affine_values
from voxpop.gp.posterior import DensePosterior
from voxpop.gp.selection import Selection, select
from voxpop.gp.widths import AffineEstimator
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.runtime.machine import numba_installed

RATIO = 1.6


def problem_of(size: int) -> Problem:
    """Make a problem of uniform points in three dimensions, with the synthetic study's constants."""
    points = np.random.default_rng(0).uniform(size=(size, 3))
    return Problem(points, SquaredExponential(0.2), 0.01, 0.1, 2.0, 10**6)


def selection(problem: Problem, rounds: int) -> Selection:
    """Select the arms of a wave with every action active."""
    return select(problem, np.arange(problem.size), rounds, RATIO)


def plain_loop(size: int, rounds: int) -> Found:
    """Time selection against the plain loop of eq:decision and eq:sigma_update."""
    problem, plainly = problem_of(size), list[Selection]()
    chosen = selection(problem, rounds)
    ours = seconds(lambda: selection(problem, rounds))
    plain = seconds(lambda: plainly.append(plain_select(problem, np.arange(size), rounds, RATIO)), 1)
    same = np.array_equal(chosen.arms, plainly[0].arms) and np.array_equal(chosen.pulls, plainly[0].pulls)
    note = f"{len(chosen.arms)} arms; " + ("same arms" if same else "THE ARMS DIFFER")
    yield Figure(f"plain loop / selection, n = {size:,}", plain / ours if same else 0.0, 100.0, note=note)
    if not numba_installed():
        yield Absent("numba")


def large_set(size: int, rounds: int) -> Found:
    """Time selection against the matrix product with as many flops (n H^2) and as large a result (n x H).

    Its memory is measured too.
    """
    problem = problem_of(size)
    tracemalloc.start()
    with counted() as effort:
        arms = len(selection(problem, rounds).arms)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rng, flops = np.random.default_rng(0), float(size) * rounds**2
    left, right = rng.random((size, rounds // 2)), rng.random((rounds // 2, rounds))
    # The product twice in turn: the second time its memory is there already.
    turns = 2 if size > 100_000 else 5
    ours, *products = together([lambda: selection(problem, rounds), *2 * [lambda: left @ right]], turns)
    product = min(products)
    note = f"{arms} arms, {ours:.2g} s; {flops / ours / 1e9:.0f} against {flops / product / 1e9:.0f} gigaflops"
    values = f"and {sum(actions for actions, _ in effort) / (size * rounds):.2f} n H kernel values"
    counted_flops = sum(2.0 * actions * (before + 1) for actions, before in effort)
    yield Figure(f"selection / matrix product, n = {size:,}", ours / product, at_most=4.0, note=note)
    yield Figure("flops of selection / n H^2", counted_flops / flops, at_most=1.5, note=f"counted, {values}")
    yield Figure("memory / n x H factor", peak / (8 * size * rounds), at_most=1.3, note=f"{peak / 1e9:.2f} GB")


def widths(size: int, rounds: int) -> Found:
    """Time the affine widths of all actions against the selection of the arms."""
    problem = problem_of(size)
    chosen = selection(problem, rounds)
    noise = problem.answer_noise(chosen.arms, chosen.pulls, 200)

    def fit() -> None:
        affine_values(AffineEstimator(problem, chosen.arms, noise), np.arange(size), problem.norm_bound)

    fit()  # compile
    fitting, selecting = together([fit, lambda: selection(problem, rounds)], 8)
    name, note = f"affine widths / selection, n = {size:,}", f"{len(chosen.arms)} arms, {fitting:.2g} s"
    yield Figure(name, fitting / selecting, at_most=1.0, note=note)


def growth(sizes: list[int], arms: list[int]) -> Found:
    """Time selection against the number of actions and of arms."""
    problems, middle = [problem_of(size) for size in sizes], problem_of(30_000)
    by_size = together([partial(selection, problem, 100) for problem in problems])
    by_arms = together([partial(selection, middle, rounds) for rounds in arms])
    for curve in (Curve("actions n", sizes, by_size, 1.1), Curve("arms H", arms, by_arms, 2.2)):
        yield curve
        yield curve.figure


@contextmanager
def counted() -> Iterator[list[tuple[int, int]]]:
    """List the columns of the factor that lazy selection computes inside a context.

    A column is the number of actions that it has, and of columns before it: 2 * actions * (before + 1) flops.
    """
    found: list[tuple[int, int]] = []
    extend, observe = Factor.extend, DensePosterior.observe

    def extended(self: Factor, root: Array, arms: list[int]) -> None:
        found.extend((self.size, before) for before in range(self.columns, len(arms)))
        extend(self, root, arms)

    def observed(self: DensePosterior, position: int, rounds: int) -> None:
        found.append((len(self.candidates), len(self.factor)))
        observe(self, position, rounds)

    with patch.object(Factor, "extend", extended), patch.object(DensePosterior, "observe", observed):
        yield found

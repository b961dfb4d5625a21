"""The factor of many actions: exact in double precision, and within a proven slack in single precision."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import everything, random_problem, small_pieces
from voxpop.errors import Array, Numbers
from voxpop.gp import selection as lazy
from voxpop.gp.factor import FLUSH, PLAIN_CONDITIONING, Conditioning, Factor, Slack, norm_bound
from voxpop.gp.posterior import DensePosterior
from voxpop.gp.selection import Layer, LazyPosterior, Selection, fill
from voxpop.model.kernels import Kernel, Matern, SquaredExponential
from voxpop.model.problem import Problem

KERNELS: dict[str, Kernel] = {
    "smooth": SquaredExponential(0.3),
    "rough": Matern(0.3, nu=0.5),
    "independent": SquaredExponential(1e-6),
    "flat": SquaredExponential(30.0),
    "scaled": 50.0 * SquaredExponential(0.3),
}


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)


def played(problem: Problem, arms: int, seed: int) -> tuple[list[int], Array]:
    """Return some arms that were played, and L."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(problem.size, arms, replace=False)
    root = np.linalg.cholesky(problem.regularised(chosen, rng.integers(1, 20, size=arms)))
    return chosen.tolist(), np.asarray(root, dtype=float)


def variances(problem: Problem, arms: list[int], root: Array, narrow_at: int | None, step: int = 5) -> Factor:
    """Build the factor from a few batches at a time, in single precision from one of them on."""
    found = Factor(problem, everything(problem))
    for stop in [*range(step, len(arms), step), len(arms)]:
        if narrow_at is not None and stop > narrow_at:
            found.narrow()
        found.extend(root, arms[:stop])
    return found


def slack_of(problem: Problem, root: Array) -> float:
    return Slack(float(problem.prior_variance.max()), 8).of(root)


@pytest.mark.parametrize("kernel", KERNELS)
def test_double_precision_is_the_posterior(kernel: str) -> None:
    problem = random_problem(1, n=120, d=2, kernel=KERNELS[kernel], ridge=0.1)
    arms, root = played(problem, 30, 1)
    found = variances(problem, arms, root, None)
    cross = np.linalg.solve(root, problem.covariance(np.array(arms), everything(problem)))
    np.testing.assert_allclose(found.variance, problem.prior_variance - (cross**2).sum(axis=0), atol=1e-11)


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kernel=st.sampled_from(sorted(KERNELS)),
    ridge=st.floats(1e-3, 10.0),
    arms=st.integers(1, 40),
    narrow_at=st.integers(0, 40),
)
def test_single_precision_is_within_its_slack(seed: int, kernel: str, ridge: float, arms: int, narrow_at: int) -> None:
    problem = random_problem(seed, n=100, d=2, kernel=KERNELS[kernel], ridge=ridge)
    chosen, root = played(problem, arms, seed)
    exact, single = (variances(problem, chosen, root, at).variance for at in (None, narrow_at))
    slack = slack_of(problem, root)
    assert slack > Slack(float(problem.prior_variance.max()), 8).at_least(arms)
    assert np.abs(exact - single).max() <= slack


def test_the_slack_is_not_much_larger_than_the_error() -> None:
    """It is at most a few hundred times the actual rounding error, and much smaller than the variances."""
    problem = random_problem(2, n=200, d=2, kernel=SquaredExponential(0.2), ridge=0.1)
    arms, root = played(problem, 40, 2)
    exact, single = (variances(problem, arms, root, at).variance for at in (None, 0))
    error, slack = np.abs(exact - single).max(), slack_of(problem, root)
    assert 0 < error < slack < 500 * error
    assert slack < 1e-3 * exact.max()


@pytest.mark.parametrize("batches", [0, 5, 8, 20])
def test_a_factor_can_be_handed_over(batches: int) -> None:
    problem = random_problem(5, n=150, d=2, ridge=0.1)
    arms, root = played(problem, 30, 5)
    known = variances(problem, arms[:batches], root[:batches, :batches], None)
    some = np.arange(3, 140, 4)
    heir = Factor(problem, some)
    heir.adopt(known.of(some), known.variance[some])
    np.testing.assert_array_equal(heir.of(np.arange(len(some))), known.of(some))
    for each in (known, heir):
        each.extend(root, arms)
    np.testing.assert_allclose(heir.variance, known.variance[some], atol=1e-14)


def test_the_slack_of_a_growing_factor_is_that_of_the_whole() -> None:
    problem = random_problem(3, n=200, d=2, ridge=0.1)
    _, root = played(problem, 40, 3)
    growing = Slack(float(problem.prior_variance.max()), 8)
    for size in (3, 4, 20, 40):
        assert growing.of(root[:size, :size]) == pytest.approx(slack_of(problem, root[:size, :size]), rel=1e-9)


def test_narrowing_takes_little_room_beside_the_factor() -> None:
    problem = random_problem(2, n=3000, d=2, kernel=SquaredExponential(0.2), ridge=0.1)
    arms, root = played(problem, 96, 2)
    found = variances(problem, arms, root, None, step=96)
    tracemalloc.start()
    found.narrow()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.15 * found.bytes  # single-precision numbers that replace others twice as large, panel by panel


def test_narrowing_does_not_look_at_what_is_not_there_yet() -> None:
    """Memory that was never written may hold anything."""
    problem = random_problem(2, n=60, d=2)
    arms, root = played(problem, 11, 2)
    found = variances(problem, arms, root, None)
    found._panels[-1][:, 3:] = 1e300
    found._code = PLAIN_CONDITIONING
    found.narrow()


def test_single_precision_takes_half_the_memory() -> None:
    problem = random_problem(2, n=200, d=2)
    arms, root = played(problem, 32, 2)
    assert variances(problem, arms, root, 0).bytes * 2 == variances(problem, arms, root, None).bytes


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_kernels_of_extreme_scale_are_left_to_double_precision(scale: float) -> None:
    problem = random_problem(2, n=50, d=2, kernel=scale * SquaredExponential(0.2), ridge=0.1)
    _, root = played(problem, 10, 2)
    assert slack_of(problem, root) == np.inf


def test_nothing_denormal_is_kept() -> None:
    """Products of denormal numbers are a hundred times slower."""
    problem = random_problem(4, n=150, d=2, kernel=SquaredExponential(0.06), ridge=0.1)
    arms, root = played(problem, 30, 4)
    found = variances(problem, arms, root, 0)
    kept = np.concatenate([np.abs(panel[:, :6]).ravel() for panel in found._panels])  # the last panel is not full
    assert (kept == 0).any()
    assert kept[kept > 0].min() >= FLUSH


def selection(
    problem: Problem, kind: type[DensePosterior] | type[LazyPosterior], rounds: int, scale: float
) -> Selection:
    return fill(kind(problem, everything(problem)), everything(problem), rounds, scale)


@pytest.mark.parametrize("narrowing", ["whenever useful", "always", "at first"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_arms_do_not_depend_on_the_precision(monkeypatch: pytest.MonkeyPatch, kernel: str, narrowing: str) -> None:
    widened: list[int] = []
    narrowed: list[int] = []
    if narrowing != "whenever useful":
        monkeypatch.setattr(lazy, "WORTH_NARROWING", np.inf)
        monkeypatch.setattr(lazy, "WORTH_WIDENING", np.inf if narrowing == "always" else 0.0)
    monkeypatch.setattr(Layer, "_widen", counted(Layer._widen, widened))
    monkeypatch.setattr(Factor, "narrow", counted(Factor.narrow, narrowed))
    problem = random_problem(1, n=200, d=2, kernel=KERNELS[kernel], ridge=0.05)
    for rounds, scale in ((150, 0.0), (2000, 0.05)):
        one, other = selection(problem, LazyPosterior, rounds, scale), selection(problem, DensePosterior, rounds, scale)
        np.testing.assert_array_equal(one.arms, other.arms)
        np.testing.assert_array_equal(one.pulls, other.pulls)
    assert narrowed or narrowing == "whenever useful"
    assert widened or narrowing != "at first" or kernel == "flat"


def counted(method: Any, calls: list[int]) -> Any:
    def wrapped(self: Any) -> None:
        calls.append(1)
        method(self)

    return wrapped


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 12), columns=st.integers(1, 12))
def test_the_norm_is_bounded_closely(seed: int, rows: int, columns: int) -> None:
    matrix = np.random.default_rng(seed).random((rows, columns))
    true = float(np.linalg.norm(matrix, 2))
    assert true <= norm_bound(matrix) <= 1.01 * true
    assert np.linalg.norm(matrix @ matrix.T, 2) <= norm_bound(matrix, matrix.T) * (1 + 1e-12)


def test_the_norm_of_numbers_of_very_different_size() -> None:
    assert norm_bound(np.diag([1e9, 1e-8])) == pytest.approx(1e9)


def rounding(root: Numbers, solution: Array, flush: float) -> Array:
    """Bound the distance of two solutions of root V = columns, each within the rounding of its substitutions.

    Each solves (root + E) V = columns with |E| <= n u |root|, where u is half of eps (Higham, Theorem 8.5), and one
    rounding more for a reciprocal of the diagonal; what is smaller than flush may be zero in one and not in the other.
    """
    size, inverse = len(root), np.abs(np.linalg.inv(root.astype(np.float64)))
    return np.asarray(inverse @ ((size + 1) * np.finfo(root.dtype).eps * (np.abs(root) @ np.abs(solution)) + flush))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("batches", [1, 2, 30])
def test_compiled_code_does_what_the_plain_code_does(kind: type[np.floating[Any]], batches: int) -> None:
    compiled = pytest.importorskip("voxpop.gp.compiled")
    rng = np.random.default_rng(batches)
    root = (np.tril(0.1 * rng.standard_normal((batches, batches)), -1) + np.eye(batches)).astype(kind)
    columns, variance = rng.standard_normal((batches, 1100)), np.full(1100, 50.0)
    columns[rng.random(columns.shape) < 0.1] *= 1e-20
    results = []
    for code in (PLAIN_CONDITIONING, Conditioning(compiled.narrow, compiled.condition)):
        out, rest = np.empty(columns.shape, kind), variance.copy()
        code.narrow(columns, out, FLUSH)
        assert (out == 0).any()
        assert out.dtype == kind
        code.condition(root, out, rest, FLUSH)
        results.append((out.astype(np.float64), rest))
    (one, one_rest), (other, other_rest) = results
    apart = rounding(root, one, FLUSH)
    assert np.all(np.abs(one - other) <= apart)
    # The variance is 50 minus a sum of up to 50, so its rounding error is that of the whole sum.
    summed = (batches + 1) * np.finfo(np.float64).eps * (variance + (one**2).sum(axis=0))
    assert np.all(np.abs(one_rest - other_rest) <= summed + ((2 * np.abs(one) + apart) * apart).sum(axis=0))
    assert apart.max() < 1e3 * np.finfo(kind).eps  # which is next to nothing

"""Compiled distances are those of NumPy to the last bit, and numba is imported for large problems only."""

import subprocess
import sys
from unittest.mock import patch

import numpy as np
import pytest

from tests.helpers_cli import ENVIRONMENT
from voxpop.errors import Array
from voxpop.model import kernels as distances
from voxpop.model.kernels import (
    WORTHWHILE,
    Constant,
    Kernel,
    Linear,
    Matern,
    SquaredExponential,
    plain_distances,
)

RNG = np.random.default_rng(2)
X, Y = RNG.random((70, 2)), RNG.random((80, 2))

KERNELS: dict[str, Kernel] = {
    "smooth": SquaredExponential(0.3),
    "two scales": SquaredExponential((0.1, 3.0)),
    "rough": Matern(0.2, nu=1.5),
    "any smoothness": Matern(0.2, nu=1.7),
    "sum": SquaredExponential(0.3) + Linear(offset=0.5),
    "product": Matern(0.2) * (Constant(0.5) + Matern(0.3, nu=0.5)),
    "scaled": 1.7 * SquaredExponential(0.3),
}


def filled(kernel: Kernel) -> Array:
    out = np.full((len(X), len(Y)), np.nan)
    kernel.fill(out, X, Y)
    return out


@pytest.mark.parametrize("kernel", KERNELS)
def test_compiled_distances_are_the_same_to_the_bit(kernel: str) -> None:
    compiled = pytest.importorskip("voxpop.runtime.compiled")
    assert len(X) * len(Y) >= WORTHWHILE
    with patch.object(compiled, "squared_distances", wraps=compiled.squared_distances) as called:
        np.testing.assert_array_equal(filled(KERNELS[kernel]), KERNELS[kernel](X, Y))
    assert called.called


@pytest.mark.parametrize("kernel", KERNELS)
def test_fill_gives_the_same_values_without_numba(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "numba_installed", lambda: False)
    np.testing.assert_array_equal(filled(KERNELS[kernel]), KERNELS[kernel](X, Y))


def test_distances_are_exact_far_from_the_origin() -> None:
    out = np.empty((2, 1))
    plain_distances(np.array([[1e8, 0.0], [1e8, 3.0]]), np.array([[1e8 + 0.5, 0.0]]), np.array([1.0, 2.0]), out)
    np.testing.assert_array_equal(out, [[0.25], [36.25]])


def test_without_numba_distances_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "numba_installed", lambda: False)
    with patch.object(distances, "plain_distances", wraps=plain_distances) as called:
        found = filled(SquaredExponential(0.3))
    assert called.called
    np.testing.assert_array_equal(found, SquaredExponential(0.3)(X, Y))


@pytest.mark.parametrize(("size", "expected"), [(2000, False), (3000, True)])
def test_numba_is_imported_for_large_problems_only(size: int, expected: bool) -> None:
    """It takes longer to import than a small study takes to run."""
    pytest.importorskip("numba")
    code = (
        "import sys, numpy as np\n"
        "from voxpop import Problem, SquaredExponential, make_policy\n"
        f"problem = Problem(np.linspace(0, 1, {size}), SquaredExponential(0.2), 0.1, 0.1, 1.0, 50)\n"
        "policy = make_policy('dpbe')\n"
        "policy.plan(problem, policy.init(problem))\n"
        "sys.stdout.write(str('numba' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert done.stdout == str(expected)

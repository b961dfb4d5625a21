"""A kernel with one method of its own works wherever a kernel does."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import everything, random_problem, small_pieces
from voxpop import InputError, Problem, Study
from voxpop.errors import Array
from voxpop.gp.posterior import DensePosterior
from voxpop.gp.selection import LazyPosterior, fill
from voxpop.io.schema import decode_kernel, encode
from voxpop.model.kernels import KERNELS, Kernel, Linear, SquaredExponential, Stationary

POINTS = np.random.default_rng(0).random((200, 2))


@dataclass(frozen=True)
class RationalQuadratic(Kernel):
    """(1 + r^2 / 2)^-1, the plain way."""

    def __call__(self, x: Array, y: Array) -> Array:
        r2 = np.square(x[:, None] - y[None]).sum(axis=2)
        return np.asarray(1 / (1 + r2 / 2))


@dataclass(frozen=True)
class ScaledRationalQuadratic(Stationary):
    """The same of scaled distances."""

    def of_squared_distance(self, r2: Array) -> Array:
        return np.asarray(1 / (1 + r2 / 2))


@dataclass(frozen=True)
class Warped(Kernel):
    """Another kernel at the square roots of the points."""

    inner: Kernel

    def __call__(self, x: Array, y: Array) -> Array:
        return self.inner(np.sqrt(x), np.sqrt(y))


NEW: dict[str, Kernel] = {
    "of points": RationalQuadratic(),
    "of distances": ScaledRationalQuadratic(0.7),
    "of a kernel": Warped(Linear(offset=0.5) + SquaredExponential((0.2, 0.9))),
}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for made in (RationalQuadratic, ScaledRationalQuadratic, Warped):
        monkeypatch.setitem(KERNELS, made.__name__, made)


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("points", [0, 1, 63, 64, 65, 200])
def test_the_diagonal_comes_free(name: str, points: int) -> None:
    kernel, x = NEW[name], POINTS[:points]
    np.testing.assert_allclose(kernel.diagonal(x), kernel(x, x).diagonal(), rtol=1e-14)


@pytest.mark.parametrize("name", NEW)
def test_sums_products_and_multiples_come_free(name: str) -> None:
    kernel, other, matrix = NEW[name], SquaredExponential(0.3), NEW[name](POINTS, POINTS)
    combined = 3 * (kernel + other) * kernel
    expected = 3 * (matrix + other(POINTS, POINTS)) * matrix
    out = np.empty_like(matrix)
    combined.fill(out, POINTS, POINTS)
    np.testing.assert_allclose(combined(POINTS, POINTS), expected, rtol=1e-14)
    np.testing.assert_allclose(out, expected, rtol=1e-14)
    np.testing.assert_allclose(combined.diagonal(POINTS), expected.diagonal(), rtol=1e-14)


@pytest.mark.parametrize("name", NEW)
def test_large_problems_come_free(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    small_pieces(monkeypatch)
    problem = random_problem(1, n=200, d=2, kernel=NEW[name], ridge=0.05)
    every = everything(problem)
    lazy, dense = (fill(kind(problem, every), every, 60, 0.0) for kind in (LazyPosterior, DensePosterior))
    np.testing.assert_array_equal(lazy.arms, dense.arms)
    np.testing.assert_array_equal(lazy.pulls, dense.pulls)


@pytest.mark.parametrize("name", NEW)
def test_a_registered_kernel_is_saved_and_loaded(tmp_path: Path, name: str) -> None:
    kernel = 2 * NEW[name] + SquaredExponential(0.4)
    assert decode_kernel(encode(kernel)) == kernel
    path, problem = tmp_path / "study.json", Problem(POINTS[:20], kernel, 0.1, 0.2, 1.0, 60)
    study = Study(problem, path=path)
    question = study.ask()
    assert question is not None
    study.tell(question.wave, np.zeros((question.people, len(question.decisions))))
    again = Study.load(path)
    np.testing.assert_array_equal(again.state.upper, study.state.upper)
    assert again.problem.kernel == kernel


def test_a_kernel_that_is_not_registered_is_used_but_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(KERNELS, "Warped")
    with pytest.raises(InputError, match="Warped cannot be saved"):
        encode(NEW["of a kernel"])

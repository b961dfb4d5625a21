import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import kv
from sklearn.gaussian_process import kernels as sk

from voxpop.errors import Array, InputError
from voxpop.model.kernels import Kernel, Linear, Matern, Precomputed, SquaredExponential

X = np.random.default_rng(0).uniform(-1, 1, size=(7, 3))
Y = np.random.default_rng(1).uniform(-1, 1, size=(5, 3))
SCALES = (0.3, 1.0, 2.5)
EPS = float(np.finfo(float).eps)

KERNELS: dict[str, Kernel] = {
    "se": SquaredExponential(0.4),
    "se per dimension": SquaredExponential(SCALES),
    "matern 1/2": Matern(0.4, nu=0.5),
    "matern 3/2": Matern(SCALES, nu=1.5),
    "matern 5/2": Matern(0.4),
    "matern 1.1": Matern(0.4, nu=1.1),
    "linear": Linear(SCALES, offset=0.5),
    "sum": SquaredExponential(0.4) + Linear(),
    "product": Matern(0.4) * Linear(offset=1.0),
    "scaled": 2.5 * SquaredExponential(0.4),
}


def on_a_line(kernel: Kernel, distances: list[float]) -> Array:
    return kernel(np.zeros((1, 1)), np.array(distances)[:, None]).ravel()


@pytest.mark.parametrize("scale", [0.2, 1.7])
def test_squared_exponential_has_the_square_that_the_paper_omits(scale: float) -> None:
    for distance in (0.3, 2.0):
        exponent = (distance / scale) ** 2 / 2  # three roundings, by which exp multiplies; and those of exp itself
        found = on_a_line(SquaredExponential(scale), [distance])[0]
        assert found == pytest.approx(math.exp(-exponent), rel=4 * EPS * (1 + exponent), abs=0)


@pytest.mark.parametrize("scale", [0.7, SCALES])
def test_squared_exponential_is_scikit_learns_rbf(scale: float | tuple[float, ...]) -> None:
    np.testing.assert_allclose(SquaredExponential(scale)(X, Y), sk.RBF(scale)(X, Y), rtol=1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_closed_forms_of_matern_are_the_bessel_form(nu: float) -> None:
    r = np.array([0.01, 0.1, 0.5, 1.0, 3.0])
    s = math.sqrt(2 * nu) * r / 0.6
    bessel = 2 ** (1 - nu) / math.gamma(nu) * s**nu * kv(nu, s)
    np.testing.assert_allclose(on_a_line(Matern(0.6, nu=nu), r.tolist()), bessel, rtol=1e-12)


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.0, 1.5, 2.2, 2.5, 3.5, 12.0])
@pytest.mark.parametrize("scale", [0.7, SCALES])
def test_matern_of_any_smoothness_is_scikit_learns(nu: float, scale: float | tuple[float, ...]) -> None:
    np.testing.assert_allclose(Matern(scale, nu=nu)(X, Y), sk.Matern(scale, nu=nu)(X, Y), rtol=1e-9)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_does_not_jump_where_a_closed_form_takes_over(nu: float) -> None:
    np.testing.assert_allclose(Matern(0.5, nu=nu)(X, Y), Matern(0.5, nu=nu + 1e-9)(X, Y), rtol=1e-6)


def test_a_very_smooth_matern_is_nearly_the_squared_exponential() -> None:
    np.testing.assert_allclose(Matern(1.0, nu=100)(X, Y), SquaredExponential(1.0)(X, Y), atol=0.01)


@pytest.mark.parametrize("nu", [3.0, 20.0, 100.0])
@pytest.mark.parametrize("r", [1e-4, 3e-3, 1e-2])
def test_matern_falls_quadratically_from_one(nu: float, r: float) -> None:
    s = math.sqrt(2 * nu) * r
    drop = 1 - on_a_line(Matern(1.0, nu=nu), [r])[0]
    assert drop == pytest.approx(s**2 / (4 * (nu - 1)), rel=0.01, abs=1e-12)


def test_linear_is_scikit_learns_dot_product() -> None:
    np.testing.assert_allclose(Linear(offset=0.7)(X, Y), sk.DotProduct(sigma_0=0.7)(X, Y), rtol=1e-12, atol=1e-14)


def test_linear_divides_each_dimension_by_its_length_scale() -> None:
    np.testing.assert_allclose(Linear(SCALES)(X, Y), (X / SCALES) @ (Y / SCALES).T, rtol=1e-12, atol=1e-14)


def test_sum_product_and_scaling_work_entry_by_entry() -> None:
    left, right = SquaredExponential(0.5), Linear(offset=1.0)
    np.testing.assert_array_equal((left + right)(X, Y), left(X, Y) + right(X, Y))
    np.testing.assert_array_equal((left * right)(X, Y), left(X, Y) * right(X, Y))
    np.testing.assert_array_equal((3 * left)(X, Y), 3 * left(X, Y))
    np.testing.assert_array_equal((left * 3)(X, Y), 3 * left(X, Y))


@pytest.mark.parametrize("name", KERNELS)
def test_diagonal_is_the_diagonal_of_the_matrix(name: str) -> None:
    np.testing.assert_allclose(KERNELS[name].diagonal(X), KERNELS[name](X, X).diagonal(), rtol=1e-13)


@pytest.mark.parametrize("name", KERNELS)
def test_swapping_the_arguments_transposes_the_matrix(name: str) -> None:
    kernel = KERNELS[name]
    one, other = kernel(X, Y), kernel(Y, X).T
    terms = np.sqrt(np.outer(kernel.diagonal(X), kernel.diagonal(Y)))  # of a dot product, which may cancel
    assert np.all(np.abs(one - other) <= 8 * EPS * terms + 1e-13 * np.abs(other))


@pytest.mark.parametrize("name", KERNELS)
@given(data=st.data())
def test_matrices_are_positive_semi_definite(name: str, data: st.DataObject) -> None:
    coordinate = st.floats(-5, 5)
    rows = data.draw(st.lists(st.tuples(coordinate, coordinate, coordinate), min_size=1, max_size=8))
    points = np.array(rows)
    eigenvalues = np.linalg.eigvalsh(KERNELS[name](points, points))
    assert eigenvalues[0] >= -1e-12 * max(1.0, eigenvalues[-1])


STATIONARY: dict[str, Callable[[float], Kernel]] = {
    "se": SquaredExponential,
    "matern 1/2": lambda scale: Matern(scale, nu=0.5),
    "matern 5/2": lambda scale: Matern(scale, nu=2.5),
    "matern 1.7": lambda scale: Matern(scale, nu=1.7),
    "matern 30": lambda scale: Matern(scale, nu=30),
}


@pytest.mark.parametrize("name", STATIONARY)
@pytest.mark.parametrize("distance", [1e-3, 1.0, 1e4])
def test_a_tiny_length_scale_makes_different_points_independent(name: str, distance: float) -> None:
    np.testing.assert_array_equal(on_a_line(STATIONARY[name](1e-6), [0.0, distance]), [1.0, 0.0])


@pytest.mark.parametrize("name", STATIONARY)
def test_a_huge_length_scale_makes_all_points_equal(name: str) -> None:
    np.testing.assert_allclose(on_a_line(STATIONARY[name](1e6), [0.0, 1e-3, 1.0]), 1.0, atol=2e-6)


@pytest.mark.parametrize("name", STATIONARY)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_only_the_ratio_of_distance_to_length_scale_matters(name: str, scale: float) -> None:
    ratios = np.array([0.0, 0.1, 1.0, 4.0])
    stretched = on_a_line(STATIONARY[name](scale), (ratios * scale).tolist())
    np.testing.assert_allclose(stretched, on_a_line(STATIONARY[name](1.0), ratios.tolist()), rtol=1e-12)


def test_nearby_points_far_from_the_origin_keep_their_distance() -> None:
    x = np.array([[1e8], [1e8 + 0.5]])
    assert SquaredExponential(1.0)(x, x)[0, 1] == pytest.approx(math.exp(-0.125), rel=1e-14)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "long", True, (1.0, -2.0)])
def test_a_bad_length_scale_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="length_scale must be a number above 0"):
        SquaredExponential(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("nu", [0.0, -1.5, math.nan, 101.0])
def test_a_bad_smoothness_is_refused(nu: float) -> None:
    with pytest.raises(InputError, match=f"nu must be .* got {nu}"):
        Matern(nu=nu)


@pytest.mark.parametrize("factor", [0.0, -2.0, math.nan])
def test_a_factor_that_is_not_positive_is_refused(factor: float) -> None:
    with pytest.raises(InputError, match=f"got {factor}"):
        factor * SquaredExponential()


def test_length_scales_must_match_the_dimensions_of_the_points() -> None:
    kernel = Linear() + 2 * SquaredExponential((1.0, 2.0))
    kernel.check(np.zeros((4, 2)))
    with pytest.raises(InputError, match="2 values for points of 3 dimensions"):
        kernel.check(np.zeros((4, 3)))


def test_precomputed_looks_its_values_up() -> None:
    matrix = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 3.0]])
    kernel, rows = Precomputed(matrix), np.array([[2.0], [0.0]])
    np.testing.assert_array_equal(kernel(rows, np.array([[1.0]])), [[0.2], [0.5]])
    np.testing.assert_array_equal(kernel.diagonal(rows), [3.0, 2.0])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], r"square .* shape \(2, 3\)"),
        ([1.0, 2.0], r"square .* shape \(2,\)"),
        (np.empty((0, 0)), r"square and not empty"),
        ([[1.0, 0.5], [0.4, 1.0]], r"not symmetric \(largest difference 0.1\)"),
        ([[1.0, 2.0], [2.0, 1.0]], r"not positive semi-definite \(smallest eigenvalue -1\); add at least 1"),
        ([[1.0, math.nan], [math.nan, 1.0]], r"finite, got nan at position \[0, 1\]"),
        ([[0.0, 0.0], [0.0, 0.0]], "all zero"),
        ([[1.0, "a"], ["a", 1.0]], "array of numbers"),
    ],
)
def test_a_matrix_that_is_no_covariance_is_refused(matrix: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Precomputed(matrix)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_rounding_in_a_covariance_is_forgiven_at_any_scale(scale: float) -> None:
    factor = np.random.default_rng(0).standard_normal((30, 3))
    matrix = scale * factor @ factor.T
    matrix[0, 1] *= 1 + 1e-12
    matrix -= 1e-12 * scale * np.eye(30)
    assert np.linalg.eigvalsh(matrix)[0] < 0
    np.testing.assert_allclose(Precomputed(matrix).matrix, matrix, rtol=1e-11)


def test_the_given_matrix_can_change_later_without_harm() -> None:
    matrix = np.eye(2)
    kernel = Precomputed(matrix)
    matrix[0, 0] = 9.0
    assert kernel.diagonal(np.array([[0.0]]))[0] == 1.0


def test_precomputed_refuses_points_that_are_not_its_rows() -> None:
    with pytest.raises(InputError, match="the actions 0 to 1"):
        Precomputed(np.eye(2)).check(np.array([[0.0], [2.0]]))

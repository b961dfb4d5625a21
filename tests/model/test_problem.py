import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers import gram, random_problem
from voxpop.errors import InputError
from voxpop.model import problem as problem_module
from voxpop.model.decisions import Choice, Decisions, Float, Space
from voxpop.model.kernels import Linear, SquaredExponential
from voxpop.model.problem import Problem

GOOD: dict[str, Any] = {
    "decisions": [[0.0, 0.0], [0.5, 1.0], [1.0, 0.5]],
    "kernel": SquaredExponential(0.2),
    "noise_std": 0.01,
    "bias_std": 0.1,
    "norm_bound": 2.0,
    "horizon": 1000,
}


def test_beta_is_one_over_actions_times_horizon_unless_given() -> None:
    assert Problem(**GOOD).beta == pytest.approx(1 / 3000, rel=1e-15)
    assert Problem(**GOOD, beta=0.2).beta == 0.2


def test_ridge_is_the_ratio_of_noise_to_bias_variance_unless_given() -> None:
    assert Problem(**GOOD).ridge == pytest.approx(0.01, rel=1e-14)
    assert Problem(**GOOD, ridge=3.0).ridge == 3.0


def test_a_problem_of_one_action_and_one_round_still_has_a_usable_beta() -> None:
    tiny = Problem(**{**GOOD, "decisions": [[0.0, 0.0]], "horizon": 1})
    assert 0 < tiny.beta < 1


def test_whole_numbers_are_taken_as_numbers_and_whole_floats_as_horizon() -> None:
    problem = Problem(**{**GOOD, "norm_bound": 2, "horizon": 1e6})
    assert (problem.norm_bound, problem.horizon) == (2.0, 10**6)
    assert isinstance(problem.horizon, int)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        *[(name, value, str(value)) for name in ("noise_std", "bias_std", "norm_bound") for value in (0, -0.5)],
        *[(name, math.nan, "nan") for name in ("noise_std", "bias_std", "norm_bound", "beta", "ridge", "horizon")],
        *[(name, math.inf, "inf") for name in ("noise_std", "bias_std", "norm_bound", "beta", "ridge", "horizon")],
        *[(name, "many", "'many'") for name in ("noise_std", "bias_std", "norm_bound", "beta", "ridge", "horizon")],
        *[(name, True, "True") for name in ("noise_std", "norm_bound", "horizon")],
        ("noise_std", None, "None"),
        ("noise_std", 1 + 0j, r"\(1\+0j\)"),
        ("horizon", 0, "0"),
        ("horizon", -7, "-7"),
        ("horizon", 12.5, "12.5"),
        ("horizon", 10**16, "10000000000000000"),
        ("beta", 0, "0"),
        ("beta", 1, "1"),
        ("beta", -0.1, "-0.1"),
        ("ridge", 0.0, "0.0"),
        ("ridge", -1.0, "-1.0"),
        ("kernel", "rbf", "'rbf'"),
        ("prior_mean", math.nan, "nan"),
        ("prior_mean", [0.0, math.inf, 0.0], "inf at position"),
        ("prior_mean", [0.0, 1.0], r"shape \(2,\)"),
        ("prior_mean", [[0.0, 1.0, 2.0]], r"shape \(1, 3\)"),
        ("prior_mean", "high", "str"),
    ],
)
def test_a_bad_argument_is_refused_by_name_and_value(name: str, value: object, shown: str) -> None:
    with pytest.raises(InputError, match=rf"^{name} must be .*got {shown}"):
        Problem(**{**GOOD, name: value})


@pytest.mark.parametrize("decisions", [[], [[math.nan, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
def test_a_bad_decision_set_is_refused(decisions: object) -> None:
    with pytest.raises(InputError, match="action"):
        Problem(**{**GOOD, "decisions": decisions})


@pytest.mark.parametrize(("name", "value"), [("noise_std", 1e200), ("bias_std", 1e-200)])
def test_a_ridge_out_of_the_range_of_floats_is_an_input_error(name: str, value: float) -> None:
    with pytest.raises(InputError, match="ridge"):
        Problem(**{**GOOD, name: value})


def test_a_kernel_for_other_dimensions_is_refused() -> None:
    with pytest.raises(InputError, match="3 values for points of 2 dimensions"):
        Problem(**{**GOOD, "kernel": SquaredExponential((1.0, 2.0, 3.0))})


def test_a_kernel_that_is_zero_at_every_action_is_refused() -> None:
    with pytest.raises(InputError, match="variance of zero"):
        Problem(**{**GOOD, "decisions": [[0.0, 0.0]], "kernel": Linear()})


def test_a_prior_mean_is_one_number_or_one_for_each_action() -> None:
    np.testing.assert_array_equal(Problem(**GOOD, prior_mean=2).means, [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(Problem(**GOOD, prior_mean=(1, 2, 3)).means, [1.0, 2.0, 3.0])


def test_prior_variance_is_the_diagonal_of_the_kernel() -> None:
    problem = random_problem(0, kernel=Linear(offset=0.5))
    np.testing.assert_allclose(problem.prior_variance, gram(problem).diagonal(), rtol=1e-13)


def test_of_matrix_takes_its_covariance_from_the_matrix() -> None:
    matrix = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 3.0]])
    problem = Problem.of_matrix(matrix, 0.1, 0.2, norm_bound=1.0, horizon=10)
    assert problem.size == 3
    np.testing.assert_array_equal(problem.prior_variance, [2.0, 1.0, 3.0])
    np.testing.assert_array_equal(problem.covariance(np.array([2, 0]), np.array([1])), [[0.2], [0.5]])


def test_of_matrix_of_a_kernels_gram_is_the_same_problem() -> None:
    problem = random_problem(1)
    twin = Problem.of_matrix(gram(problem), 0.1, 0.3, norm_bound=1.0, horizon=100)
    rows, columns = np.array([3, 0, 3]), np.array([5, 1])
    np.testing.assert_allclose(twin.covariance(rows, columns), problem.covariance(rows, columns), rtol=1e-14)


@pytest.mark.parametrize("rows", [np.array([4, 0, 4, 11]), slice(None), slice(2, 5)])
def test_covariance_is_the_same_with_and_without_the_kept_matrix(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, columns = random_problem(2), np.array([7, 3])
    monkeypatch.setattr(problem_module, "GRAM_LIMIT", 4)
    fresh = replace(kept)
    assert kept.size > 4
    np.testing.assert_allclose(fresh.covariance(rows, columns), gram(kept)[rows][:, columns], rtol=1e-14)
    monkeypatch.undo()
    np.testing.assert_allclose(kept.covariance(rows, columns), gram(kept)[rows][:, columns], rtol=1e-14)


def test_a_changed_copy_keeps_the_derived_values_it_was_given() -> None:
    problem = Problem(**GOOD)
    assert replace(problem, norm_bound=5.0).norm_bound == 5.0
    assert replace(problem, norm_bound=5.0).beta == problem.beta


def test_named_decisions_stay_named() -> None:
    decisions = Space(price=Float(1, 2), colour=Choice(("red", "blue"))).grid(2)
    problem = Problem(**{**GOOD, "decisions": decisions})
    assert isinstance(problem.decisions, Decisions)
    assert problem.decisions[1] == {"price": 1.0, "colour": "blue"}

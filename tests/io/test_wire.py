"""JSON and back: what is written is what is read."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.helpers import evidence
from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.io import schema as wire
from voxpop.model.decisions import Choice, Float, Integer, Space
from voxpop.model.kernels import Kernel, Linear, Matern, Precomputed, Product, Scaled, SquaredExponential, Sum
from voxpop.model.problem import Problem
from voxpop.model.waves import Feedback, Forecast, Plan
from voxpop.policies import make_policy

positive = st.floats(1e-3, 1e3)
lengths = st.one_of(positive, st.lists(positive, min_size=2, max_size=2).map(tuple))
finite = st.floats(-1e6, 1e6)
simple: st.SearchStrategy[Kernel] = st.one_of(
    st.builds(SquaredExponential, lengths),
    st.builds(Matern, lengths, nu=st.sampled_from([0.5, 1.5, 2.5, 3.7])),
    st.builds(Linear, lengths, offset=st.floats(0, 10)),
)
kernels = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(Sum, inner, inner), st.builds(Product, inner, inner), st.builds(Scaled, inner, positive)
    ),
    max_leaves=6,
)
POINTS = np.random.default_rng(0).uniform(size=(5, 2))


def over_the_wire(data: Any) -> Any:
    return json.loads(json.dumps(data, allow_nan=False))


@given(kernels)
def test_kernels_come_back_equal(kernel: Kernel) -> None:
    back = wire.decode_kernel(over_the_wire(wire.encode(kernel)))
    assert back == kernel
    np.testing.assert_array_equal(back(POINTS, POINTS), kernel(POINTS, POINTS))


def test_a_kernel_matrix_comes_back_to_the_last_bit() -> None:
    root = np.random.default_rng(1).normal(size=(4, 4))
    kernel = Precomputed(root @ root.T)
    back = wire.decode_kernel(over_the_wire(wire.encode(kernel)))
    assert isinstance(back, Precomputed)
    np.testing.assert_array_equal(back.matrix, kernel.matrix)


def assert_equal_problems(a: Problem, b: Problem) -> None:
    np.testing.assert_array_equal(a.decisions.points, b.decisions.points)
    assert a.decisions.labels == b.decisions.labels
    np.testing.assert_array_equal(a.prior_mean, b.prior_mean)
    np.testing.assert_array_equal(a.prior_variance, b.prior_variance)
    for name in ("noise_std", "bias_std", "norm_bound", "horizon", "beta", "ridge"):
        assert getattr(a, name) == getattr(b, name)
    assert wire.encode(a.pilot) == wire.encode(b.pilot)


@given(
    points=arrays(float, (4, 2), elements=finite, unique=True),
    kernel=kernels,
    numbers=st.tuples(positive, positive, positive),
    horizon=st.integers(1, 10**15),
    mean=st.one_of(finite, arrays(float, 4, elements=finite)),
    beta=st.one_of(st.none(), st.floats(1e-12, 0.999)),
    ridge=st.one_of(st.none(), positive),
)
def test_problems_come_back_equal(
    points: Any, kernel: Kernel, numbers: tuple[float, float, float], horizon: int, mean: Any, beta: Any, ridge: Any
) -> None:
    problem = Problem(points, kernel, *numbers, horizon, prior_mean=mean, beta=beta, ridge=ridge)
    back = wire.decode(Problem, over_the_wire(wire.encode(problem)))
    assert_equal_problems(back, problem)
    assert back.kernel == kernel


def test_labels_come_back_with_their_types() -> None:
    space = Space(price=Float(1, 2), cups=Integer(1, 3), tea=Choice(("grün", "black")), hot=Choice((True, False)))
    problem = Problem(space.grid(3), SquaredExponential(), 0.1, 0.1, 1.0, 10)
    back = wire.decode(Problem, over_the_wire(wire.encode(problem)))
    assert_equal_problems(back, problem)
    assert back.decisions[0] == {"price": 1.0, "cups": 1, "tea": "grün", "hot": True}
    assert type(back.decisions[0]["cups"]) is int


def test_a_problem_of_a_matrix_comes_back() -> None:
    problem = Problem.of_matrix([[1.0, 0.5], [0.5, 2.0]], 0.1, 0.2, 1.0, 10, prior_mean=[0.1, 0.2])
    assert_equal_problems(wire.decode(Problem, over_the_wire(wire.encode(problem))), problem)


PILOT = [
    evidence(POINTS[:3], [1 / 3, 10, 5], 7, [0.4, 0.1 + 0.2, -0.2]),
    evidence(POINTS[2:4], [8, 8], 5, [-1e-17, 1e200]),
]


def test_a_pilot_comes_back_to_the_last_bit() -> None:
    problem = Problem(POINTS, SquaredExponential(0.3), 0.1, 0.2, 1.0, 10, pilot=PILOT)
    back = wire.decode(Problem, over_the_wire(wire.encode(problem)))
    assert len(back.pilot) == 2
    assert_equal_problems(back, problem)


def test_what_an_earlier_voxpop_wrote_has_no_pilot_no_rest_and_no_forecast() -> None:
    """Saved studies of format version 2 exist without these keys."""
    problem = wire.encode(Problem(POINTS, SquaredExponential(0.3), 0.1, 0.2, 1.0, 10))
    assert problem.pop("pilot") == []
    assert wire.decode(Problem, problem).pilot == ()
    plan = wire.encode(Plan(3, np.array([1]), np.array([4]), 5, 2))
    assert (plan.pop("rest"), plan.pop("forecast")) == (0, None)
    back = wire.decode(Plan, plan)
    assert (back.length, back.asked, back.rest, back.forecast) == (4, 4, 0, None)


@pytest.mark.parametrize("forecast", [None, Forecast(1.5, 0.25, 1 / 3), Forecast(0.0, 2.0, 0.5, certificate=0.125)])
def test_rest_and_forecast_come_back(forecast: Forecast | None) -> None:
    plan = Plan(3, np.array([1, 0]), np.array([4, 2]), 5, 2, rest=10, forecast=forecast)
    back = wire.decode(Plan, over_the_wire(wire.encode(plan)))
    assert (back.asked, back.rest, back.length, back.forecast) == (6, 10, 16, forecast)


@pytest.mark.parametrize("name", ["dpbe", "dpbe-paper"])
def test_policies_come_back_equal(name: str) -> None:
    policy = make_policy(name, alpha=0.55, ratio=1.3)
    assert make_policy(**over_the_wire(policy.settings())) == policy


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**15)), min_size=1, unique_by=lambda pair: pair[0]),
    st.integers(1, 10**9),
    st.integers(0, 10**6),
)
def test_plans_come_back_equal(wave: int, played: list[tuple[int, int]], people: int, reference: int) -> None:
    arms, pulls = (np.array(column, dtype=np.intp) for column in zip(*played, strict=True))
    plan = Plan(wave, arms, pulls, people, reference)
    back = wire.decode(Plan, over_the_wire(wire.encode(plan)))
    assert (back.wave, back.people, back.reference) == (wave, people, reference)
    np.testing.assert_array_equal(back.arms, arms)
    np.testing.assert_array_equal(back.pulls, pulls)
    assert back.arms.dtype == back.pulls.dtype == np.intp


@given(arrays(float, 3, elements=st.floats(-1e300, 1e300)), st.integers(1, 10**12), st.booleans())
def test_feedback_comes_back_to_the_last_bit(mean: Any, count: int, private: bool) -> None:
    noise = np.diag([1e-3, 0.1, 1 / 3]) if private else None
    back = wire.decode(Feedback, over_the_wire(wire.encode(Feedback(mean, count, noise))))
    np.testing.assert_array_equal(back.mean, mean)
    assert back.count == count
    assert (back.noise is None) == (noise is None)
    if back.noise is not None and noise is not None:
        np.testing.assert_array_equal(back.noise, noise)


def test_a_seal_keeps_the_content() -> None:
    content = {"a": [1, 2.5, None], "b": {"ü": "ß"}}
    assert wire.unpack("thing", wire.pack("thing", content), "file", lambda data: data) == content


def test_a_seal_does_not_depend_on_the_order_of_keys() -> None:
    document = json.loads(wire.pack("thing", {"a": 1, "b": 2}))
    document["content"] = {"b": 2, "a": 1}
    assert wire.unpack("thing", json.dumps(document), "file", lambda data: data) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "a table with a type"),
        ("matern", "a table with a type"),
        ({"nu": 2.5}, "a table with a type"),
        ({"type": "matren"}, "did you mean 'matern'"),
        ({"type": "matern", "mu": 2.5}, "'mu'; known: length_scale, nu"),
        ({"type": "matern", "nu": "x"}, "nu must be a number"),
        ({"type": "matern", "length_scale": [0.1, 0.0]}, "length_scale must be a number above 0, got 0.0"),
        ({"type": "sum", "left": {"type": "linear"}}, "needs .*left.*right"),
        ({"type": "sum", "left": {"type": "linear"}, "right": 3}, "a table with a type"),
        ({"type": "scaled", "kernel": {"type": "linear"}, "scale": 0}, "above 0, got 0"),
        ({"type": "precomputed", "matrix": [[1.0, 2.0], [2.0, 1.0]]}, "not positive semi-definite"),
    ],
)
def test_a_wrong_description_of_a_kernel_is_refused(data: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        wire.decode_kernel(data)
    refusal(caught)


def test_a_kernel_of_the_caller_s_own_cannot_be_saved() -> None:
    class Own(SquaredExponential):
        pass

    with pytest.raises(InputError, match="Own cannot be saved"):
        wire.encode(Own(0.3))


def test_not_a_number_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        wire.pack("thing", {"a": float("nan")})

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxpop.errors import InputError
from voxpop.model.decisions import Choice, Decisions, Float, Integer, Parameter, Space


def names(decisions: Decisions, parameter: str) -> list[Any]:
    return [decision[parameter] for decision in decisions]


def test_a_grid_of_a_real_number_is_evenly_spaced_with_both_ends() -> None:
    decisions = Space(price=Float(-1, 3)).grid(5)
    assert names(decisions, "price") == [-1.0, 0.0, 1.0, 2.0, 3.0]
    np.testing.assert_allclose(decisions.points[:, 0], [0, 0.25, 0.5, 0.75, 1], atol=1e-15)


def test_a_logarithmic_grid_has_constant_ratios_and_even_points() -> None:
    decisions = Space(rate=Float(1e-3, 10, log=True)).grid(5)
    assert names(decisions, "rate") == pytest.approx([1e-3, 1e-2, 1e-1, 1, 10], rel=1e-12)
    np.testing.assert_allclose(decisions.points[:, 0], [0, 0.25, 0.5, 0.75, 1], atol=1e-14)


def test_one_grid_point_lies_in_the_middle() -> None:
    assert names(Space(x=Float(0, 8)).grid(1), "x") == [4.0]
    assert names(Space(x=Float(1, 100, log=True)).grid(1), "x") == pytest.approx([10.0])


def test_a_grid_of_whole_numbers_takes_all_of_few_and_some_of_many() -> None:
    assert names(Space(k=Integer(2, 5)).grid(10), "k") == [2, 3, 4, 5]
    assert names(Space(k=Integer(0, 100)).grid(5), "k") == [0, 25, 50, 75, 100]


def test_whole_numbers_are_scaled_by_their_value() -> None:
    np.testing.assert_allclose(Space(k=Integer(2, 6)).grid(10).points[:, 0], [0, 0.25, 0.5, 0.75, 1])


def test_a_grid_is_every_combination_and_shows_the_names_back() -> None:
    decisions = Space(price=Float(1, 2), colour=Choice(("red", "blue", "green"))).grid(2)
    expected = [(p, c) for p in (1.0, 2.0) for c in ("red", "blue", "green")]
    assert [(d["price"], d["colour"]) for d in decisions] == expected


def test_a_grid_can_have_different_counts() -> None:
    assert len(Space(x=Float(0, 1), y=Float(0, 1)).grid({"x": 3, "y": 7})) == 21


def test_every_two_options_of_a_choice_are_at_distance_one() -> None:
    points = Space(c=Choice(("a", "b", "c", "d"))).grid().points
    assert [math.dist(p, q) for p, q in combinations(points.tolist(), 2)] == pytest.approx([1.0] * 6)


def test_options_need_not_be_words() -> None:
    assert names(Space(c=Choice((None, 3, "x"))).grid(), "c") == [None, 3, "x"]


MIXED = Space(price=Float(1, 3), rate=Float(0.1, 10, log=True), k=Integer(-2, 2), colour=Choice(("red", "blue")))


@pytest.mark.parametrize("points", [1, 2, 37, 64])
@pytest.mark.parametrize("seed", [None, 3])
def test_sobol_points_lie_in_the_space_and_in_the_unit_cube(points: int, seed: int | None) -> None:
    decisions = MIXED.sobol(points, seed)
    assert len(decisions) == points
    assert decisions.points.shape == (points, 5)
    assert 0 <= decisions.points.min() <= decisions.points.max() <= 1
    for decision in decisions:
        assert 1 <= decision["price"] <= 3
        assert 0.1 <= decision["rate"] <= 10
        assert decision["k"] in range(-2, 3)
        assert decision["colour"] in ("red", "blue")


def test_sobol_points_fill_a_dimension_evenly() -> None:
    points = np.sort(Space(x=Float(0, 1), y=Float(0, 1)).sobol(64).points, axis=0)
    for column in points.T:
        np.testing.assert_array_equal(np.floor(64 * column), np.arange(64))


def test_sobol_gives_every_whole_number_and_option_its_equal_share() -> None:
    decisions = Space(x=Float(0, 1), k=Integer(1, 4), c=Choice(("a", "b"))).sobol(64)
    assert np.bincount(names(decisions, "k"))[1:].tolist() == [16] * 4
    assert names(decisions, "c").count("a") == 32


def test_sobol_with_a_seed_repeats_itself_and_differs_from_another() -> None:
    np.testing.assert_array_equal(MIXED.sobol(20, 5).points, MIXED.sobol(20, 5).points)
    assert not np.array_equal(MIXED.sobol(20, 5).points, MIXED.sobol(20, 6).points)


def test_sobol_drops_repeated_combinations() -> None:
    decisions = Space(k=Integer(1, 3), c=Choice(("a", "b"))).sobol(100)
    assert sorted((d["k"], d["c"]) for d in decisions) == [(k, c) for k in (1, 2, 3) for c in ("a", "b")]


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-3, 1e6), u=st.floats(0, 1))
def test_scaling_undoes_placing(low: float, span: float, u: float) -> None:
    parameter = Float(low, low + span)
    assert parameter.scale(parameter.at(u))[0] == pytest.approx(u, abs=1e-6)


@given(low=st.floats(1e-6, 1e6), ratio=st.floats(1.01, 1e6), u=st.floats(0.001, 0.999))
def test_logarithmic_scaling_undoes_placing(low: float, ratio: float, u: float) -> None:
    parameter = Float(low, low * ratio, log=True)
    assert parameter.scale(parameter.at(u))[0] == pytest.approx(u, abs=1e-9)


def test_scale_puts_a_named_decision_where_the_grid_puts_it() -> None:
    decisions = MIXED.grid(3)
    np.testing.assert_array_equal([MIXED.scale(label) for label in decisions], decisions.points)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ({"price": 9.0, "rate": 1.0, "k": 0, "colour": "red"}, "price: value must be .* at most 3, got 9"),
        ({"price": 2.0, "rate": 1.0, "k": 0.5, "colour": "red"}, "k: value must be a whole number.* got 0.5"),
        ({"price": 2.0, "rate": 1.0, "k": 0, "colour": "green"}, "colour: 'green' is not one of"),
        ({"price": 2.0, "rate": 1.0, "k": 0}, "must name exactly"),
        ({"price": 2.0, "rate": 1.0, "k": 0, "colour": "red", "size": 1}, "must name exactly .* 'size'"),
    ],
)
def test_a_decision_outside_the_space_is_refused_by_name(label: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MIXED.scale(label)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (Float, (3, 1), "high must be a number above 3, got 1"),
        (Float, (2, 2), "high must be a number above 2, got 2"),
        (Float, (math.nan, 1), "low must be a number, got nan"),
        (Float, (0, math.inf), "high must be .* got inf"),
        (Float, (0, 1, True), "logarithmic .* above 0, got 0"),
        (Integer, (1, 1), "high must be a whole number, at least 2 .* got 1"),
        (Integer, (0.5, 3), "low must be a whole number.* got 0.5"),
        (Choice, (("a",),), r"at least two different options, got \['a'\]"),
        (Choice, (("a", "b", "a"),), "different options"),
    ],
)
def test_a_bad_parameter_is_refused(kind: type[Parameter], arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(*arguments)


def test_a_space_without_parameters_is_refused() -> None:
    with pytest.raises(InputError, match="at least one parameter"):
        Space()


@pytest.mark.parametrize("points", [0, -3, 2.5, "many"])
def test_a_bad_number_of_points_is_refused(points: Any) -> None:
    for make in (MIXED.grid, MIXED.sobol):
        with pytest.raises(InputError, match=r"points.* must be a whole number, at least 1"):
            make(points)


def test_a_grid_too_large_to_hold_is_refused_before_it_is_made() -> None:
    space = Space({f"x{i}": Float(0, 1) for i in range(20)})
    with pytest.raises(InputError, match="100000000000000000000 actions; give fewer points or use sobol"):
        space.grid(10)


def test_numbers_in_a_row_are_actions_of_one_dimension() -> None:
    assert Decisions([0.0, 0.5, 1.0]).points.shape == (3, 1)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], r"non-empty \(n, d\) array"),
        (np.empty((3, 0)), r"shape \(3, 0\)"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (1.5, r"shape \(\)"),
        ([[0.0, 1.0], [0.5]], "numbers of one shape"),
        ([["a"]], "array of numbers"),
        ([[0.0, 1.0], [math.nan, 0.0]], r"finite, got nan at position \[1, 0\]"),
        ([[0.0], [math.inf]], r"finite, got inf at position \[1, 0\]"),
        ([[0.1, 0.2], [0.3, 0.4], [0.1, 0.2]], "action 2 repeats action 0"),
        ([[0.0], [-0.0]], "action 1 repeats action 0"),
    ],
)
def test_a_bad_decision_set_is_refused(points: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Decisions(points)


def test_there_must_be_a_label_for_every_action() -> None:
    with pytest.raises(InputError, match="1 labels for 2 actions"):
        Decisions([0.0, 1.0], [{"x": 0}])


def test_a_decision_is_found_by_index_label_or_coordinates() -> None:
    labelled, plain = MIXED.grid(3), Decisions([[0.0, 1.0], [0.5, 0.5]])
    assert [labelled.find(i) for i in (0, 7, np.int64(11))] == [0, 7, 11]
    assert [labelled.find(labelled[i]) for i in range(len(labelled))] == list(range(len(labelled)))
    assert plain.find([0.5, 0.5]) == 1


def test_a_decision_is_found_by_coordinates_in_an_array() -> None:
    plain = Decisions([[0.0, 1.0], [0.5, 0.5]])
    assert plain.find(plain.points[1]) == 1


@pytest.mark.parametrize("decision", [-1, 2, True, [0.5, 0.6], {"x": 1}, "red", None])
def test_an_unknown_decision_is_refused(decision: object) -> None:
    with pytest.raises(InputError, match="decision"):
        Decisions([[0.0, 1.0], [0.5, 0.5]]).find(decision)

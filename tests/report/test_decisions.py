"""How decisions are named, and which kind of picture they get."""

import numpy as np
import pytest

from voxpop import Choice, Float, Integer, Problem, Space, SquaredExponential
from voxpop.model.decisions import Decisions
from voxpop.report.view import Column, Layout


def layout(decisions: Decisions | np.ndarray) -> Layout:
    return Layout(Problem(decisions, SquaredExponential(0.3), 0.1, 0.1, 1.0, 100))


NAMED = {
    "line": Space(price=Float(1, 2)).grid(5),
    "map": Space(price=Float(1, 2), gifts=Integer(0, 3)).grid(4),
    "options": Space(colour=Choice(("red", "blue"))).grid(),
    "several": Space(price=Float(1, 2), colour=Choice(("red", "blue"))).grid(3),
}


@pytest.mark.parametrize("kind", NAMED)
def test_every_kind_of_decision_set_has_its_picture(kind: str) -> None:
    assert layout(NAMED[kind]).kind == kind


def test_parameters_that_do_not_vary_are_not_drawn() -> None:
    found = layout(Space(price=Float(1, 2), colour=Choice(("red", "blue"))).grid({"price": 1}))
    assert (found.kind, found.label, found.short_name(1)) == ("options", "colour", "blue")
    assert found.name(1) == "price = 1.5, colour = blue"
    assert layout(np.array([[0.5]])).kind == "options"


@pytest.mark.parametrize(("dimensions", "kind"), [(1, "line"), (2, "map"), (3, "several")])
def test_points_in_a_box_have_coordinates_for_names(dimensions: int, kind: str) -> None:
    found = layout(np.linspace(0, 1, 4)[:, None] ** np.arange(1, dimensions + 1))
    names = ["x"] if dimensions == 1 else [f"x{place}" for place in range(1, dimensions + 1)]
    assert ([column.name for column in found.columns], found.kind) == (names, kind)
    assert found.name(1).startswith(f"{names[0]} = 0.3333")


def test_actions_of_a_matrix_have_no_order() -> None:
    found = Layout(Problem.of_matrix(np.eye(4), 0.1, 0.1, 1.0, 100))
    assert (found.kind, found.name(2), found.short_name(2)) == ("options", "decision no. 2", "no. 2")


@pytest.mark.parametrize(
    ("values", "logarithmic"),
    [(Float(1, 1000, log=True).values(9), True), (Float(1, 1000).values(9), False), (Float(1, 9).values(9), False)],
)
def test_parameters_spaced_by_their_logarithm_are_recognised(values: list[float], logarithmic: bool) -> None:
    assert Column("x", tuple(values)).logarithmic is logarithmic


def test_the_pilot_need_not_stand_on_the_grid() -> None:
    found = layout(Space(price=Float(2, 12)).grid(5))
    places = found.places_of(np.array([[0.0], [0.3], [1.0]]), found.columns[0])
    np.testing.assert_allclose(places, [2.0, 5.0, 12.0])

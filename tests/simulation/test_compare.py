"""Comparing policies: who is on the frontier, what the table says, and a picture whose names can be read."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from tests.reproduction.helpers import summary
from voxpop.simulation.comparison import COSTS, HEADINGS, Cell, Cells, frontier, rows, verdict
from voxpop.simulation.pictures import colours_of, picture


def cell(*runs: dict[str, Any]) -> Cell:
    return Cell({seed: summary(**run) for seed, run in enumerate(runs)}, ())


def costs(**places: tuple[float, int]) -> Cells:
    """Make cells of one run each, from regret and numbers."""
    return {name: cell({"regret": regret, "numbers": numbers}) for name, (regret, numbers) in places.items()}


# The frontier


@pytest.mark.parametrize(
    ("places", "best"),
    [
        ({"a": (10.0, 10)}, ["a"]),
        ({"a": (10.0, 10), "b": (20.0, 20)}, ["a"]),
        ({"a": (10.0, 20), "b": (20.0, 10)}, ["a", "b"]),
        ({"a": (10.0, 20), "b": (10.0, 10)}, ["b"]),  # as good in one and better in the other
        ({"a": (10.0, 10), "b": (10.0, 10)}, ["a", "b"]),  # equal in both: nobody is beaten
        ({"a": (10.0, 30), "b": (20.0, 20), "c": (30.0, 10), "d": (25.0, 25)}, ["a", "b", "c"]),
        ({"a": (10.0, 30), "b": (900.0, 0)}, ["a", "b"]),
    ],
)
def test_the_frontier_holds_what_nobody_beats_in_both(places: dict[str, tuple[float, int]], best: list[str]) -> None:
    assert frontier(costs(**places)) == best


def test_the_frontier_is_that_of_the_means() -> None:
    cells = {
        "a": cell({"regret": 0.0, "numbers": 10}, {"regret": 30.0, "numbers": 10}),
        "b": cell({"regret": 14.0, "numbers": 10}, {"regret": 14.0, "numbers": 10}),
    }
    assert frontier(cells) == ["b"]


def test_the_verdict_is_one_sentence() -> None:
    cells = costs(a=(10.0, 30), b=(20.0, 20), c=(30.0, 10))
    assert verdict(cells) == "No policy beats a, b or c in both regret and numbers sent."
    assert verdict(costs(a=(10.0, 30))) == "No policy beats a in both regret and numbers sent."


# The table


def test_a_policy_that_proves_nothing_has_no_verdicts() -> None:
    cells = {
        "sure": cell({"certificate": True, "kept": True}, {"certificate": False, "kept": True}, {"certificate": None}),
        "plain": cell({"certificate": None}, {"certificate": None}),
    }
    found = {row[0]: dict(zip(HEADINGS, row, strict=True)) for row in rows(cells)}
    assert (found["sure"]["optimum kept"], found["sure"]["certificate true"]) == ("3/3", "1/2")
    assert (found["plain"]["optimum kept"], found["plain"]["certificate true"]) == ("", "")


def test_the_table_has_means_and_spread() -> None:
    cells = {"a": cell({"regret": 100.0, "waves": 2}, {"regret": 300.0, "waves": 4})}
    assert rows(cells)[0][:5] == ("a", "200 ± 100", "10", "5", "3")


# The picture


def crowd(count: int) -> Cells:
    """Make policies that are close to each other, and one that asks nobody."""
    rng = np.random.default_rng(0)
    made = {
        f"policy-{number}": cell(
            *(
                {
                    "regret": 100 * spread * 1.05**number,
                    "numbers": round(1000 * spread * (1 + number % 3)),
                    "people": 1000,
                    "waves": 1 + number,
                }
                for spread in rng.uniform(0.8, 1.2, 3)
            )
        )
        for number in range(count)
    }
    return {**made, "free": cell({"regret": 250.0, "numbers": 0, "people": 0, "waves": 0})}


def names(ax: Axes) -> Iterator[Annotation]:
    return (text for text in ax.texts if isinstance(text, Annotation))


def test_names_cover_neither_each_other_nor_a_mark_and_stay_inside() -> None:
    figure = picture("tea", crowd(6))
    figure.draw_without_rendering()
    assert len(figure.axes) == len(COSTS) == 3
    for ax in figure.axes:
        boxes = {text.get_text(): text.get_window_extent() for text in names(ax)}
        assert boxes.keys() == {*(f"policy-{number}" for number in range(6)), "free (asks nobody)"}
        assert [pair for pair in combinations(boxes, 2) if boxes[pair[0]].overlaps(boxes[pair[1]])] == []
        inside = ax.get_window_extent()
        assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 for box in boxes.values())
        assert all(inside.y0 <= box.y0 and box.y1 <= inside.y1 for box in boxes.values())
        marks = [ax.transData.transform(text.xy) for text in names(ax) if text.get_text() != "free (asks nobody)"]
        assert not any(box.contains(*mark) for box in boxes.values() for mark in marks)


def test_names_are_placed_in_the_final_layout() -> None:
    figure = picture("tea", crowd(2))
    before = [ax.get_position().bounds for ax in figure.axes]
    figure.draw_without_rendering()
    np.testing.assert_allclose([ax.get_position().bounds for ax in figure.axes], before, atol=1e-6)


def test_marks_stand_at_the_means() -> None:
    cells = crowd(3)
    for ax, cost in zip(picture("tea", cells).axes, COSTS, strict=True):
        assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
        for text in names(ax):
            if text.get_text() in cells:
                made = cells[text.get_text()]
                assert text.xy == pytest.approx((made.mean(cost), made.mean()))


def test_a_policy_that_loses_nothing_can_be_drawn() -> None:
    figure = picture("tea", {"lucky": cell({"regret": 0.0}), "usual": cell({"regret": 5.0})})
    figure.draw_without_rendering()
    for ax in figure.axes:
        inside = ax.get_window_extent()
        assert all(inside.contains(*ax.transData.transform(text.xy)) for text in names(ax))


def test_only_free_policies_can_be_drawn() -> None:
    picture("tea", {"free": cell({"regret": 3.0, "numbers": 0, "people": 0, "waves": 0})}).draw_without_rendering()


def test_a_policy_has_the_same_colour_in_every_picture() -> None:
    def colour(*policies: str) -> object:
        ax = picture("tea", {name: cell({}) for name in policies}).axes[0]
        return next(text.get_color() for text in names(ax) if text.get_text() == "dpbe")

    assert colour("halving", "dpbe") == colour("dpbe", "bpe")


def test_policies_have_colours_of_their_own() -> None:
    assert len(set(colours_of("abcdefgh").values())) == 8
    assert len(colours_of("abcdefghi")) == 9

"""Comparing policies: who is on the frontier, what the table says, and a picture whose marks can be told apart."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tests.reproduction.helpers import summary
from voxpop.simulation.comparison import COSTS, HEADINGS, Cell, Cells, frontier, rows, verdict
from voxpop.simulation.pictures import looks_of, picture


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


def marks(ax: Axes) -> dict[str, tuple[float, float]]:
    """Return where the marks of policies stand, by name."""
    found: list[Any] = ax.containers
    return {mark.get_label(): tuple(np.ravel(mark.lines[0].get_data())) for mark in found}


def legend(made: Figure) -> dict[str, Any]:
    (box,) = made.legends
    return {text.get_text(): handle for text, handle in zip(box.get_texts(), box.legend_handles, strict=True)}


def test_one_legend_names_every_policy_and_covers_nothing() -> None:
    figure = picture("tea", crowd(6))
    figure.draw_without_rendering()
    assert len(figure.axes) == len(COSTS) == 3
    assert legend(figure).keys() == {*(f"policy-{number}" for number in range(6)), "free (asks nobody)"}
    canvas: Any = FigureCanvasAgg(figure)
    box: Any = figure.legends[0].get_window_extent(canvas.get_renderer())
    for ax in figure.axes:
        covered: Any = ax.get_tightbbox(canvas.get_renderer())
        assert not covered.overlaps(box)
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_marks_stand_at_the_means() -> None:
    cells = crowd(3)
    for ax, cost in zip(picture("tea", cells).axes, COSTS, strict=True):
        assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
        expected = {name: (made.mean(cost), made.mean()) for name, made in cells.items() if name != "free"}
        assert marks(ax) == {name: pytest.approx(place) for name, place in expected.items()}


def test_a_policy_that_loses_nothing_can_be_drawn() -> None:
    figure = picture("tea", {"lucky": cell({"regret": 0.0}), "usual": cell({"regret": 5.0})})
    figure.draw_without_rendering()
    for ax in figure.axes:
        inside = ax.get_window_extent()
        assert all(inside.contains(*ax.transData.transform(place)) for place in marks(ax).values())


def test_only_free_policies_can_be_drawn() -> None:
    picture("tea", {"free": cell({"regret": 3.0, "numbers": 0, "people": 0, "waves": 0})}).draw_without_rendering()


def test_a_policy_has_the_same_look_in_every_picture() -> None:
    def look(*policies: str) -> tuple[object, object]:
        found: list[Any] = picture("tea", {name: cell({}) for name in policies}).axes[0].containers
        line = next(mark.lines[0] for mark in found if mark.get_label() == "dpbe")
        return line.get_color(), line.get_marker()

    assert look("halving", "dpbe") == look("dpbe", "bpe")


def test_policies_have_colours_and_marks_of_their_own() -> None:
    for kind in zip(*looks_of("abcdefgh").values(), strict=True):
        assert len(set(kind)) == 8
    assert len(looks_of("abcdefghi")) == 9

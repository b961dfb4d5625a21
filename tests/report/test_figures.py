"""The pictures of a study: what they show, for every kind of decision, and that nothing covers anything."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tests.study.test_guardrails import guarded
from tests.study.test_watch import over
from voxpop.errors import Array, InputError
from voxpop.gp.belief import Belief, all_rows, shown_in, with_shocks
from voxpop.journal.journal import Course
from voxpop.model.words import number
from voxpop.policies.waves.sealing import revised, split_pilot
from voxpop.policies.waves.state import WavesState
from voxpop.report.drawing import inline, png
from voxpop.report.figures import DRAWINGS, draw, figure, overview, pictures
from voxpop.report.figures.decision import slice_along
from voxpop.report.stakes import stakes_of
from voxpop.report.view import View
from voxpop.simulation.runs import Run


def axes(run: Run, name: str) -> Axes:
    return figure(run.course, name, run.scenario.f).axes[0]


def legend(made: Figure) -> set[str]:
    return {text.get_text() for found in made.legends for text in found.get_texts()}


def line(ax: Axes, label: str) -> tuple[Array, Array]:
    found = [line for line in ax.get_lines() if line.get_label() == label]
    assert found, f"{label} is not in {[str(line.get_label()) for line in ax.get_lines()]}"
    return tuple(np.asarray(found[0].get_data(), dtype=float))


def segments(ax: Axes, label: str) -> Array:
    found: Any = next(part for part in ax.collections if part.get_label() == label)
    return np.array([part for part in found.get_segments() if len(part)])  # what is not known is not drawn


# The decision along one parameter


def test_the_decision_shows_bounds_estimate_answers_truth_and_choice(waves: Run) -> None:
    made = figure(waves.course, "decision", waves.scenario.f)
    said = {"certified", "likely", "estimate", "simulated truth", "pilot's answers", "answers", "chosen"}
    assert legend(made) == said
    ax, state, prices = made.axes[0], waves.state, np.linspace(2, 12, 25)
    np.testing.assert_allclose(line(ax, "estimate"), [prices, state.centre])
    np.testing.assert_allclose(line(ax, "simulated truth"), [prices, waves.scenario.f])
    pilot = waves.scenario.problem.pilot[0]
    np.testing.assert_allclose(line(ax, "pilot's answers"), [2 + 10 * pilot.points[:, 0], pilot.mean])
    asked = np.concatenate([plan.arms for plan in waves.plans])
    means = np.concatenate([wave.feedback.mean for wave in waves.closed])
    np.testing.assert_allclose(line(ax, "answers"), [prices[asked], means])
    np.testing.assert_allclose(line(ax, "chosen"), [[prices[waves.best]], [state.centre[waves.best]]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("price", "profit per customer")
    for label, low, high in (
        ("certified", state.lower, state.upper),
        ("likely", state.centre - 2 * state.lead_width, state.centre + 2 * state.lead_width),
    ):
        band: Any = next(part for part in ax.collections if part.get_label() == label)
        corners = band.get_paths()[0].vertices
        for price, ends in zip(prices, np.transpose([low, high]), strict=True):
            at = corners[np.isclose(corners[:, 0], price), 1]
            np.testing.assert_allclose([at.min(), at.max()], ends)


def test_without_a_truth_none_is_drawn(waves: Run) -> None:
    assert "simulated truth" not in legend(figure(waves.course, "decision"))
    assert "truly best" not in legend(figure(waves.course, "left"))
    with pytest.raises(InputError, match="this study has no picture 'regret'"):
        figure(waves.course, "regret")


def test_before_any_wave_only_the_pilot_counts(courses: dict[str, Course]) -> None:
    assert legend(figure(courses["only the pilot"], "decision")) == {"likely", "estimate", "pilot's answers", "chosen"}
    made = figure(courses["nothing"], "decision")
    assert legend(made) == {"for now"}
    assert made.get_suptitle() == "Nobody has answered yet"


# Decisions one by one, on a map, and in slices


@pytest.mark.parametrize("name", ["choice", "mixed", "scattered", "unordered"])
def test_decisions_without_an_order_have_a_row_each_the_best_first(courses: dict[str, Course], name: str) -> None:
    course = courses[name]
    ax, state = figure(course, "decision").axes[0], course.state
    rows = min(12, course.problem.size)
    drawn, places = line(ax, "estimate")
    assert places.tolist() == list(range(rows))
    assert drawn[0] == state.centre[course.answer.index]
    assert all(left >= right for left, right in pairwise(drawn[1:].tolist()))
    order = [int(np.flatnonzero(state.centre == value)[0]) for value in drawn]
    np.testing.assert_allclose(segments(ax, "certified")[:, :, 0], np.transpose([state.lower, state.upper])[order])
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert [label.removesuffix("…") for label in labels] == [
        View(course).layout.short_name(index)[: len(label) - label.endswith("…")]
        for index, label in zip(order, labels, strict=True)
    ]
    assert ax.get_yticklabels()[0].get_fontweight() == "bold"


@pytest.mark.parametrize("name", ["two parameters", "logarithmic"])
def test_two_numbers_are_a_map_coloured_by_the_estimate(courses: dict[str, Course], name: str) -> None:
    course = courses[name]
    ax = figure(course, "decision").axes[0]
    x, y = View(course).layout.columns
    assert (ax.get_xlabel(), ax.get_ylabel()) == (x.name, y.name)
    painted: Any = ax.collections[0]
    corners, colours = painted.get_coordinates(), painted.get_array()
    columns, rows = corners[0, :, 0], corners[:, 0, 1]
    found = colours[np.searchsorted(rows, y.places) - 1, np.searchsorted(columns, x.places) - 1]
    np.testing.assert_allclose(found, course.state.centre)
    best = course.answer.index
    np.testing.assert_allclose(line(ax, "chosen"), [[x.places[best]], [y.places[best]]])
    asked = np.unique(np.concatenate([plan.arms for plan in course.plans]))
    np.testing.assert_allclose(line(ax, "asked"), [x.places[asked], y.places[asked]])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log" if name == "logarithmic" else "linear", "linear")


def test_slices_keep_all_other_parameters_at_the_decision(courses: dict[str, Course]) -> None:
    course = courses["mixed"]
    view = View(course)
    made = figure(course, "slices")
    assert [ax.get_xlabel() for ax in made.axes if ax.get_visible()] == ["price", "colour", "gifts"]
    chosen = course.answer.decision
    for ax, column in zip(made.axes, view.layout.columns, strict=False):
        along = slice_along(view, column)
        assert along is not None
        assert len(along) == len(column.options)
        for index in along.tolist():
            assert {**course.problem.decisions[index], column.name: chosen[column.name]} == chosen
        np.testing.assert_allclose(line(ax, "estimate"), [column.places[along], course.state.centre[along]])


def test_scattered_decisions_are_dots_along_each_parameter(courses: dict[str, Course]) -> None:
    course = courses["scattered"]
    ax = figure(course, "slices").axes[0]
    known = [line(ax, label) for label in ("cannot be best", "could be best")]
    assert sum(len(found[0]) for found in known) == course.problem.size


# Wave by wave


def planned(run: Run, waves: int) -> Belief:
    """Return what was believed after so many waves, by the answers that are planned with; at the end, by all."""
    problem, state = run.scenario.problem, run.state
    if waves == len(run.closed):
        assert isinstance(state, WavesState)
        assert state.final is not None
        return state.final.belief
    shown = shown_in(problem, state.history[:waves])
    pilot = revised(split_pilot(problem, 0)[0], problem, shown)
    return with_shocks(shown, all_rows(shown, state.history[:waves], pilot))


def test_every_wave_has_a_panel_with_what_was_known_after_it(waves: Run) -> None:
    made = figure(waves.course, "waves")
    titles = ["pilot: 40 people", *(f"wave {plan.wave}: {plan.people} people" for plan in waves.plans)]
    panels = [ax for ax in made.axes if ax.get_visible()]
    assert [ax.get_title(loc="left") for ax in panels] == titles
    for place, ax in enumerate(panels):
        np.testing.assert_allclose(line(ax, "estimate")[1], planned(waves, place).mean)
        if place:
            np.testing.assert_allclose(line(ax, "answers")[1], waves.closed[place - 1].feedback.mean)


def test_an_open_wave_is_drawn_as_what_will_be_asked(courses: dict[str, Course]) -> None:
    course = courses["open"]
    assert course.pending is not None
    last = [ax for ax in figure(course, "waves").axes if ax.get_visible()][-1]
    assert last.get_title(loc="left") == f"wave 2: {course.pending.people} to ask"
    prices = np.array([course.problem.decisions[arm]["price"] for arm in course.pending.arms])
    np.testing.assert_allclose(line(last, "to be asked")[0], prices)
    assert course.pending.forecast is not None
    bars: Any = figure(course, "cost").axes[0].patches
    assert course.pending.forecast.gain in [bar.get_height() for bar in bars]


def test_many_waves_get_as_many_panels_as_fit(waves: Run) -> None:
    course = replace(waves.course, closed=tuple(replace(waves.closed[0]) for _ in range(20)))
    made = figure(course, "waves")
    assert len([ax for ax in made.axes if ax.get_visible()]) == 8
    assert "13 in between are left out" in draw(View(course), "waves")[1]


def test_the_bounds_of_the_choice_narrow_from_wave_to_wave(waves: Run) -> None:
    ax = axes(waves, "progress")
    stages, drawn = line(ax, "estimate")
    assert stages.tolist() == list(range(len(waves.closed) + 1))
    means = [planned(waves, k).mean[waves.best] for k in range(len(stages))]
    np.testing.assert_allclose(drawn, means)
    low, high = waves.course.bounds
    best = waves.course.answer.index
    np.testing.assert_allclose(segments(ax, "certified")[-1, :, 1], [low[best], high[best]])


def test_the_pilot_comes_before_wave_1(waves: Run) -> None:
    ax = axes(waves, "left")
    assert ax.get_xlim()[0] == pytest.approx(-0.6)
    ticks = ["pilot", *(str(plan.wave) for plan in waves.plans), "end"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ticks
    prices = np.linspace(2, 12, 25)
    bars = segments(ax, "could be best")
    for stage, active in enumerate([wave.active for wave in waves.closed], start=2):
        ends = [bar[:, 1] for bar in bars if bar[0, 0] == stage]
        covered = [any(low < price < high for low, high in ends) for price in prices]
        assert np.flatnonzero(covered).tolist() == active.tolist()


def test_decisions_without_an_order_are_counted(paper: Run) -> None:
    bars: Any = axes(paper, "left").patches
    counts = [paper.scenario.problem.size, *(wave.info.active_after for wave in paper.closed)]
    assert [bar.get_height() for bar in bars][: len(counts)] == counts


# Costs


def test_each_wave_has_a_bar_for_its_gain_and_one_for_its_cost(waves: Run) -> None:
    bars: list[Any] = list(axes(waves, "cost").patches)
    forecasts = [plan.forecast for plan in waves.plans if plan.forecast is not None]
    assert len(bars) == 2 * len(forecasts) > 0
    expected = [forecast.gain for forecast in forecasts] + [f.answers + f.exploring for f in forecasts]
    assert [bar.get_height() for bar in bars] == pytest.approx(expected)


def test_forecasts_far_apart_are_drawn_on_a_logarithmic_axis(waves: Run) -> None:
    def scale(gain: float) -> str:
        changed = []
        for wave in waves.closed:
            assert wave.plan.forecast is not None
            forecast = replace(wave.plan.forecast, gain=gain, answers=1.0, exploring=0.0)
            changed.append(replace(wave, plan=replace(wave.plan, forecast=forecast)))
        return axes(replace(waves, log=(tuple(changed),)), "cost").get_yscale()

    assert (scale(20.0), scale(2000.0), scale(0.0)) == ("linear", "log", "linear")


def test_waves_without_a_forecast_show_the_numbers_sent(paper: Run) -> None:
    made = figure(paper.course, "cost")
    assert made.get_suptitle() == "Numbers sent"
    assert line(made.axes[0], "in all")[1][-1] == paper.course.numbers


@pytest.mark.parametrize("simulated", [True, False])
def test_the_bars_of_the_study_and_of_not_asking_are_what_they_cost(waves: Run, simulated: bool) -> None:
    truth = waves.scenario.f if simulated else None
    found = stakes_of(waves.course, truth)
    assert found is not None
    ax = figure(waves.course, "stakes", truth).axes[0]
    bars: list[Any] = list(ax.patches)
    widths = [found.answers, found.trying, *([found.ahead] if simulated else []), found.pilot]
    assert [bar.get_width() for bar in bars[: len(widths)]] == pytest.approx(widths)
    assert [bar.get_x() for bar in bars[:2]] == pytest.approx([0, found.answers])
    assert bars[2].get_x() == pytest.approx(found.answers + found.trying if simulated else 0)
    said = [text.get_text() for text in ax.texts]
    assert said[0] == f"this study, in all: {number(found.total)}"
    assert said[-1].startswith(f"a decision at random: {found.guessing:,.0f}")


# All of them


def shown(course: Course, truth: Array | None = None) -> dict[str, Figure]:
    return {name: figure(course, name, truth) for name in pictures(View(course, truth))}


def overlaps(made: Figure) -> list[str]:
    """Return what covers something else, or leaves the sheet."""
    made.draw_without_rendering()
    canvas: Any = FigureCanvasAgg(made)
    renderer = canvas.get_renderer()
    sheet = made.bbox.padded(1)
    found = []
    panels: list[Any] = [ax for ax in made.axes if ax.get_visible()]
    for box in made.legends:
        inside: Any = box.get_window_extent(renderer)
        found += [f"legend over {ax.get_title()!r}" for ax in panels if ax.get_tightbbox(renderer).overlaps(inside)]
        if not (sheet.x0 <= inside.x0 and inside.x1 <= sheet.x1):
            found.append("legend beyond the sheet")
    for ax in panels:
        inside = ax.get_tightbbox(renderer)
        if not (sheet.x0 <= inside.x0 and inside.x1 <= sheet.x1 and sheet.y0 <= inside.y0 and inside.y1 <= sheet.y1):
            found.append(f"{ax.get_title()!r} beyond the sheet")
        ticks = [text.get_window_extent(renderer) for text in ax.get_yticklabels() if text.get_text()]
        found += ["tick labels over each other" for low, high in pairwise(ticks) if low.overlaps(high)]
    title: Any = getattr(made, "_suptitle", None)
    if title is not None and title.get_window_extent(renderer).x1 > sheet.x1:
        found.append("title beyond the sheet")
    return found


def test_nothing_covers_anything(courses: dict[str, Course], waves: Run) -> None:
    studies = ("paper", "open", "logarithmic", "choice", "mixed")
    drawn = {(study, name): made for study in studies for name, made in shown(courses[study]).items()}
    drawn |= {("simulated", name): made for name, made in shown(waves.course, waves.scenario.f).items()}
    _, watched = over(1, 1.5e-3, drift=1.5e-3)
    watched.watch(300)
    drawn["watched", "watch"] = figure(watched.course, "watch")
    drawn["guarded", "guardrails"] = figure(guarded().course, "guardrails")
    assert {name for _, name in drawn} == set(DRAWINGS)
    assert {key: found for key, made in drawn.items() if (found := overlaps(made))} == {}


def test_a_legend_over_the_data_would_be_found(waves: Run) -> None:
    """Guards the test above."""
    made = figure(waves.course, "decision")
    made.legends[0].set_loc("center")
    assert overlaps(made) != []


def test_the_overview_says_and_shows_what_comes_first(waves: Run, courses: dict[str, Course]) -> None:
    made = overview(waves.course, waves.scenario.f)
    said = " ".join(text.get_text() for part in made.subfigs for text in part.texts)
    for words in ("Do this", "price = ", "Certified", "Expected loss", "Asking cost", "Not asking would cost"):
        assert words in said
    assert len(made.axes) == 2
    assert png(made) == png(overview(waves.course, waves.scenario.f))
    assert len(overview(courses["nothing"]).axes) == 1


def test_a_picture_is_the_same_every_time(courses: dict[str, Course]) -> None:
    first, again = (inline(figure(courses["two parameters"], "decision"), "a", "b", "c") for _ in range(2))
    assert first == again


def test_pictures_are_found_by_name(waves: Run) -> None:
    with pytest.raises(InputError, match="unknown picture 'decison'; did you mean 'decision'"):
        figure(waves.course, "decison")


def test_a_policy_with_many_small_steps_can_be_drawn(waves: Run) -> None:
    view = View(replace(waves.course, closed=waves.course.closed * 61), waves.scenario.f)
    assert view.trail == ()
    assert set(pictures(view)) == {"decision", "stakes", "cost", "left", "regret"}
    for name in pictures(view):
        figure(view.course, name, view.truth)

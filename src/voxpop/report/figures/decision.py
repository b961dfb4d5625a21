"""What is known of every decision: along one parameter, on a map of two, in slices of several, or one by one."""

from typing import Any

import numpy as np

from voxpop.errors import Array
from voxpop.model.problem import Indices
from voxpop.model.state import State
from voxpop.report.drawing import BLUE, INK, MIDDLE, MUTED, ORANGE, PAPER, SKY, Axes
from voxpop.report.figures.common import (
    CERTIFIED,
    CHOSEN,
    DOTS,
    ESTIMATE,
    FROM_PILOT,
    LIKELY,
    SMALL,
    STAR,
    TRUTH,
    Canvas,
    answers_of,
    draw_bands,
    panels,
    reward_axis,
    reward_ticks,
    set_axis,
    shortened,
    window,
)
from voxpop.report.view import Column, View

NOBODY = "Nobody has answered yet"
BEST = 12  # alternatives that are listed on the first picture
MOST = 40  # and on the long list
MANY = 60  # answers
LONGEST = 30  # letters of a decision's name
ASKED: dict[str, Any] = {"linestyle": "none", "markersize": 6, "color": PAPER, "markeredgecolor": INK}
PIXELS = 96  # of a map, along each side
SLICES = 6  # parameters that are drawn
SHORT = 3  # a slice has at least this many decisions
DOTTED = 1000  # dots, beyond which they are one image


def draw_decision(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw the estimate of every decision, and the one that is chosen."""
    kind = view.layout.kind
    title = {"line": _draw_line, "map": _draw_map}.get(kind, draw_best)(canvas, view)
    if not view.informed:
        return NOBODY, f"{NOBODY}. {view.choice} is a place to start."
    if kind == "map":
        return title, f"The estimate of every decision, as a colour. Chosen: {view.choice}."
    bands = [f"certified: {view.sure}, if the model holds"] * certifies(view)
    bands += ["likely: within two standard deviations of the estimate"] * (view.likely() is not None)
    said = "; ".join(bands).capitalize() + ". What ends at the edge goes on." if bands else ""
    rows = f"The {listed(view)} best decisions by their estimates"
    what = f"The estimate for every {view.layout.label}" if kind == "line" else rows
    return title, f"{what}, with bounds. Chosen: {view.choice}. {said}"


def certifies(view: View) -> bool:
    """Return True if anything is certified about the value of a decision."""
    return bool(np.isfinite(view.bounds()).any())


# Along one parameter


def _draw_line(canvas: Canvas, view: View) -> str:
    """Draw estimate, bounds and answers along the only parameter."""
    ax, column, best = canvas.subplots(), view.layout.varied[0], view.answer.index
    order = np.argsort(column.places)
    marker = "." if np.isnan(view.estimate()).any() else ""
    if view.informed:
        draw_bands(ax, view, column, order, bounds=certifies(view), linewidth=1.8, marker=marker)
    if view.truth is not None:
        ax.plot(column.places[order], view.truth[order], color=ORANGE, linewidth=1.5, linestyle="--", label=TRUTH)
    for name, (at, means) in answers_of(view, column).items():
        ax.plot(at, means, label=name, **DOTS[name])
    place = float(column.places[best])
    ax.axvline(place, color=INK, linewidth=0.8, linestyle=":")
    ax.plot([place], [view.estimate()[best]], label=CHOSEN if view.informed else "for now", **STAR)
    low, high = _limits(view)
    ax.set_ylim(low, high + 0.1 * (high - low))  # with room for the name
    set_axis(ax, column)
    reward_axis(ax, view)
    if not view.informed:  # there is nothing to see but where the study begins
        ax.update_datalim([(column.places[end], 0.0) for end in order[[0, -1]]], updatey=False)
        ax.set_yticks([])
    ax.margins(x=0.02)
    # The choice is named beside its line, on the side that has more room.
    right = ax.transAxes.inverted().transform(ax.transData.transform((place, 0.0)))[0] > 0.5
    ax.annotate(
        shortened(view.choice, 36),
        (place, 1.0),
        (-5 if right else 5, -1),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right" if right else "left",
        va="top",
        weight="bold",
    )
    return f"What people say about every {column.name}"


def _limits(view: View) -> tuple[float, float]:
    """Return limits that show estimates, nearly all answers, and all that is certified about the choice.

    If there are many answers, a stray one should not flatten the rest.
    """
    every = [means for _, means in answers_of(view).values()]
    answers = [np.quantile(means, (0.02, 0.98) if len(means) > MANY else (0, 1)) for means in every]
    truth = [] if view.truth is None else [view.truth]
    ends = [*(view.likely() or ()), *view.bounds()]
    return window([view.estimate(), *(end[view.answer.index] for end in ends), *answers, *truth])


# One by one


def draw_alternatives(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw the long list of alternatives."""
    return draw_best(canvas, view, MOST), (
        f"{listed(view, MOST)} of {view.course.problem.size:,} decisions, the best by estimate first, with what "
        "people answered. What ends at the edge goes on."
    )


def has_alternatives(view: View) -> bool:
    """Return True if a list says more than the picture of the decision."""
    listed = 0 if view.layout.kind == "map" else BEST
    return view.informed and view.layout.kind != "line" and view.course.problem.size > listed


def draw_best(canvas: Canvas, view: View, most: int = BEST) -> str:
    """Draw the decisions of largest estimate one below the other, each with its bounds and its answers."""
    ax, best = canvas.subplots(), view.answer.index
    rows = _ranked(view)[:most]
    estimate, places = view.estimate()[rows], np.arange(len(rows))
    lower, upper = (end[rows] for end in view.bounds())
    low, high = (end[rows] for end in view.likely() or (view.estimate(), view.estimate()))
    if certifies(view):
        ax.hlines(places, lower, upper, color=MIDDLE, linewidth=1.5, label=CERTIFIED)
    if view.informed and view.likely() is not None:
        ax.hlines(places, low, high, color=SKY, linewidth=8, label=LIKELY)
    if view.informed:
        ax.plot(estimate, places, "o", color=BLUE, markersize=5, label=ESTIMATE)
    if view.truth is not None:
        ax.plot(view.truth[rows], places, "|", color=ORANGE, markersize=11, markeredgewidth=2.5, label=TRUTH)
    at = {decision: row for row, decision in enumerate(rows.tolist())}
    for name, (decisions, means) in answers_of(view).items():
        listed = np.isin(decisions, rows)
        if listed.any():
            ax.plot(means[listed], [at[decision] for decision in decisions[listed].tolist()], label=name, **DOTS[name])
    ax.plot([view.estimate()[best]], [0], label=CHOSEN if view.informed else "for now", **STAR)
    ax.set_xlim(*window([low, high, lower[:1], upper[:1]]))
    _name_rows(ax, view, rows)
    reward_axis(ax, view, "x")
    size = view.course.problem.size
    return "All decisions, best first" if len(rows) == size else f"The {len(rows)} best of {size:,} decisions"


def draw_guardrails(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw by how much the best decisions pass each guardrail, one panel a guardrail."""
    course, rows = view.course, _ranked(view)[:BEST]
    rules = [guardrail.rule for guardrail in course.problem.guardrails]
    axes: Any = canvas.subplots(1, len(rules), sharey=True, squeeze=False)
    places = np.arange(len(rows))
    for ax, rule, (mean, deviation) in zip(axes[0], rules, course.state.slacks, strict=False):
        ax.axvline(0.0, color=INK, linewidth=1.0, linestyle="--", label="limit")
        low, high = (mean[rows] + side * 2 * deviation[rows] for side in (-1, 1))
        ax.hlines(places, low, high, color=SKY, linewidth=8, label=LIKELY)
        ax.plot(mean[rows], places, "o", color=BLUE, markersize=5, label=ESTIMATE)
        ax.plot([mean[rows[0]]], [0], label=CHOSEN, **STAR)
        ax.set_xlabel(shortened(f"to spare: {rule}", 60), fontsize=SMALL)
    _name_rows(axes[0][0], view, rows)
    said = f"By how much the {len(rows)} best decisions by their estimates pass each guardrail; left of 0 it is broken."
    return "What decisions leave of the guardrails", said


def _name_rows(ax: Axes, view: View, rows: Indices) -> None:
    """Write the name of each decision at its row; the first is the chosen one."""
    layout = view.layout
    names = [shortened(layout.short_name(row), LONGEST) for row in rows.tolist()]
    ax.set_yticks(range(len(rows)), names, fontsize=SMALL)
    ax.get_yticklabels()[0].set_fontweight("bold")
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_ylabel(shortened(", ".join(column.name for column in layout.varied or layout.columns), 40))


def _ranked(view: View) -> Indices:
    """Return the decisions from the largest estimate to the smallest: the chosen one first, those given up last."""
    score = np.nan_to_num(view.estimate(), nan=-np.inf)
    score[view.answer.index] = np.inf
    return np.argsort(-score, kind="stable")


def listed(view: View, most: int = BEST) -> int:
    """Return how many decisions a list of at most this many has."""
    return min(most, view.course.problem.size)


# On a map


def _draw_map(canvas: Canvas, view: View) -> str:
    """Draw the estimate of every decision as a colour, with what was asked about and what was chosen."""
    ax, (x, y) = canvas.subplots(), view.layout.varied
    painted = paint(ax, view, view.estimate())
    for name, (decisions, _) in answers_of(view).items():
        marker, label = ("s", "asked in the pilot") if name == FROM_PILOT else ("o", "asked")
        asked = np.unique(decisions)
        ax.plot(x.places[asked], y.places[asked], marker, label=label, **ASKED)
    if view.truth is not None:
        best = [int(view.truth.argmax())]
        ax.plot(x.places[best], y.places[best], "D", label="truly best", **ASKED | {"markersize": 9})
    mark_choice(ax, view, view.course.state)
    bar = _colour_bar(canvas, ax, painted, view.course.reward)
    bar.ax.yaxis.set_major_formatter(reward_ticks(view))
    return "Estimate of every decision"


def draw_doubt(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw how unsure the estimate of every decision is."""
    ax, likely = canvas.subplots(), view.likely()
    low, high = view.bounds() if likely is None else likely
    painted = paint(ax, view, (high - low) / 2, "magma_r")
    mark_choice(ax, view, view.course.state)
    _colour_bar(canvas, ax, painted, f"± {view.course.reward}")
    what = "certified bounds" if likely is None else "two standard deviations"
    said = f"Light is well known, dark is not: {what}. Where nothing promising lies, nobody was asked."
    return "How unsure the estimates are", said


def mark_choice(ax: Axes, view: View, state: State, size: float = 16) -> None:
    """Mark the decision that a state recommends."""
    best = view.course.policy.best(view.course.problem, state)
    x, y = view.layout.varied
    ax.plot([x.places[best]], [y.places[best]], label=CHOSEN, clip_on=False, **STAR | {"markersize": size})


def paint(
    ax: Axes,
    view: View,
    values: Array,
    colours: str = "viridis",
    limits: tuple[float, float] | None = None,
    pixels: int = PIXELS,
) -> Any:
    """Colour every place of the map like the decision that is nearest to it."""
    from scipy.spatial import cKDTree

    x, y = view.layout.varied
    known = np.column_stack([x.shares, y.shares])
    edges = np.linspace(-0.02, 1.02, pixels + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    grid = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
    nearest = cKDTree(known).query(grid)[1].reshape(pixels, pixels)
    low, high = limits or (float(np.nanmin(values)), float(np.nanmax(values)))
    painted = ax.pcolormesh(
        _unscaled(x, edges), _unscaled(y, edges), values[nearest], cmap=colours, vmin=low, vmax=high, rasterized=True
    )
    set_axis(ax, x)
    set_axis(ax, y, "y")
    return painted


def _colour_bar(canvas: Canvas, ax: Axes, painted: Any, label: str) -> Any:
    bar = canvas.colorbar(painted, ax=ax, pad=0.02, aspect=30)
    bar.set_label(label)
    bar.outline.set_visible(False)
    return bar


def _unscaled(column: Column, shares: Array) -> Array:
    """Return the places that lie at these shares of the axis."""
    ends = np.array([min(column.options), max(column.options)], dtype=float)
    if column.logarithmic:
        return np.asarray(np.exp(np.log(ends[0]) + shares * np.log(ends[1] / ends[0])))
    return np.asarray(ends[0] + shares * (ends[1] - ends[0]))


# In slices


def draw_slices(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw a panel for each parameter."""
    columns, best = view.layout.varied[:SLICES], view.answer.index
    slices = [slice_along(view, column) for column in columns]
    made = panels(canvas, len(columns), 2)
    for place, (ax, column, along) in enumerate(zip(made, columns, slices, strict=True)):
        if along is None:
            _draw_all(ax, view, column)
        else:
            line, marker = "-" if column.numeric else "none", "." if len(along) < 30 else ""
            draw_bands(ax, view, column, along, linestyle=line, marker=marker)
        ax.plot([column.places[best]], [view.estimate()[best]], label=CHOSEN, **STAR)
        set_axis(ax, column)
        reward_axis(ax, view)
        ax.xaxis.label.set_fontweight("bold")
        if place % 2:
            ax.set_ylabel("")
    made[0].set_ylim(*window([view.estimate()], 0.2))
    every = "The estimate of every decision against each parameter; decisions differ in the other parameters, too."
    if all(along is not None for along in slices):
        every = "The estimate along each parameter, while all others stay as in the decision."
    elif any(along is not None for along in slices):
        every += " Lines join those that differ from the chosen one in nothing else."
    return "Parameter by parameter", every


def slice_along(view: View, column: Column) -> Indices | None:
    """Return the decisions that differ from the chosen one in this parameter alone, if there are a few."""
    found = view.layout.along(view.answer.index, column)
    return found if len(found) >= min(SHORT, len(column.options)) else None


def _draw_all(ax: Axes, view: View, column: Column) -> None:
    state, estimate = view.course.state, view.estimate()
    left = np.isin(np.arange(len(estimate)), state.active)
    for which, colour, label in ((~left, MUTED, "cannot be best"), (left, BLUE, "could be best")):
        many = bool(which.sum() > DOTTED)
        ax.plot(column.places[which], estimate[which], ".", color=colour, markersize=4, label=label, rasterized=many)

"""The pictures of a study: what is left, estimate against truth, regret, and what each phase cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.distance import cdist

from voxpop.core.errors import Array
from voxpop.core.phases import Forecast
from voxpop.core.problem import Problem
from voxpop.drivers.course import Course
from voxpop.lab.metrics import regret_curve
from voxpop.report.drawing import BLUE, GREEN, INK, MIDDLE, MUTED, ORANGE, SKY, sheet, styled
from voxpop.report.phases import phase_word
from voxpop.report.summary import confidence, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


POOLED = "all answers pooled"
BAR: dict[str, Any] = {"markersize": 11, "markeredgewidth": 3}
LOGARITHMIC = 50  # what differs by more than this factor is drawn on a logarithmic axis


class ActionAxis:
    """Where to draw an action: at its value if there is one numeric parameter, else at its true rank."""

    def __init__(self, course: Course, truth: Array | None) -> None:
        decisions = course.problem.decisions
        self.label = "action, best first"
        ranks = np.empty(len(decisions))
        ordered_by = course.state.centre if truth is None else truth
        ranks[np.argsort(-ordered_by, kind="stable")] = np.arange(1, len(decisions) + 1)
        self.places: Array = ranks
        first = decisions[0]
        if isinstance(first, Mapping) and len(first) == 1:
            name = next(iter(first))
            values = [label[name] for label in decisions]
            if all(isinstance(value, int | float) for value in values):
                self.label, self.places = name, np.array(values, dtype=float)
        self.numeric = self.places is not ranks
        self.order = np.argsort(self.places)

    def draw_band(self, ax: Axes, low: Array, high: Array, colour: str, label: str) -> None:
        """Draw an interval for every action: a band along a numeric parameter, or else one bar each."""
        places, low, high = self.places[self.order], low[self.order], high[self.order]
        if self.numeric:
            ax.fill_between(places, low, high, color=colour, linewidth=0, label=label)
        else:
            ax.vlines(places, low, high, color=colour, linewidth=3, label=label)

    def nearest(self, problem: Problem, points: Array) -> Array:
        """Return the places of the decisions nearest to some points, such as the pilot's."""
        return np.asarray(self.places[cdist(points, problem.decisions.points).argmin(axis=1)])


def draw_active(ax: Axes, course: Course, truth: Array | None) -> None:
    """Draw which actions could still be best in each phase, and which were played; the pilot is wave 0."""
    axis, problem, word = ActionAxis(course, truth), course.problem, phase_word(course)
    active = course.policy.init(problem).active
    for group in problem.pilot:
        places = axis.nearest(problem, group.points)
        ax.plot(np.zeros(len(places)), places, "o", color=BLUE, markersize=4, fillstyle="none")
    for closed in course.phases:
        phase = closed.plan.phase
        ax.plot(np.full(len(active), phase), axis.places[active], "_", color=SKY, **BAR)
        ax.plot(np.full(len(closed.plan.arms), phase), axis.places[closed.plan.arms], ".", color=BLUE, markersize=4)
        active = closed.active
    ax.plot(np.full(len(active), len(course.phases) + 1), axis.places[active], "_", color=SKY, **BAR)
    if truth is not None:
        best = axis.places[int(truth.argmax())]
        ax.axhline(best, color=ORANGE, linewidth=1, linestyle="--", label="truly best")
    ax.plot([], [], "_", color=SKY, label="could still be best", **BAR)
    ax.plot([], [], ".", color=BLUE, label="played")
    if problem.pilot:
        ax.plot([], [], "o", color=BLUE, markersize=4, fillstyle="none", label="tried in the pilot")
    ax.set(title=f"What is left, {word} by {word}", xlabel=word, ylabel=axis.label)
    first, end = 0 if problem.pilot else 1, len(course.phases) + 1
    _whole_phases(ax, first, end)
    whole = range(first, end, max(1, (end - first) // 8))
    ax.set_xticks([*whole, end], [*map(str, whole), "end"])
    _legend_below(ax)


def draw_estimate(ax: Axes, course: Course, truth: Array | None) -> None:
    """Draw the estimate with what is certified, the answers, and the truth."""
    axis, state, problem = ActionAxis(course, truth), course.state, course.problem
    order = axis.order
    places = axis.places[order]
    sure = confidence(course.policy, problem, len(course.phases))
    axis.draw_band(ax, state.lower, state.upper, SKY, f"certified ({sure})")
    if state.expected_loss is None:
        left = np.isin(np.arange(problem.size), state.active)
        ax.plot(axis.places[left], state.centre[left], ".", color=BLUE, markersize=5, label="estimate, if still active")
    else:
        _draw_pooled(ax, course, axis)
    shown = state.centre if truth is None else truth
    if truth is not None:
        ax.plot(places, truth[order], color=ORANGE, linewidth=1.5, label="truth")
    best = course.answer.index
    ax.plot([axis.places[best]], [state.centre[best]], "*", color=GREEN, markersize=13, label="chosen")
    low, high = float(shown.min()), float(shown.max())
    reach = high - low or 1.0
    ax.set_ylim(low - 0.6 * reach, high + 0.6 * reach)
    ax.set(title="Estimate" if truth is None else "Estimate and truth", xlabel=axis.label, ylabel=course.reward)
    _legend_below(ax)


def _draw_pooled(ax: Axes, course: Course, axis: ActionAxis) -> None:
    """Draw what all answers say together, and the answers of each wave; those of the pilot are hollow."""
    state, problem, spread = course.state, course.problem, 2 * course.state.lead_width
    axis.draw_band(ax, state.centre - spread, state.centre + spread, MIDDLE, "likely (2 std)")
    line = "-" if axis.numeric else "."
    ax.plot(axis.places[axis.order], state.centre[axis.order], line, color=BLUE, linewidth=1.5, label=POOLED)
    for place, group in enumerate(problem.pilot):
        at, label = axis.nearest(problem, group.points), "answers, pilot" if place == 0 else None
        ax.plot(at, group.mean, "o", color=INK, markersize=4, fillstyle="none", label=label)
    for place, phase in enumerate(course.phases):
        at, label = axis.places[phase.plan.arms], "answers, waves" if place == 0 else None
        ax.plot(at, phase.feedback.mean, ".", color=INK, markersize=4, label=label)


def draw_regret(ax: Axes, course: Course, truth: Array | None) -> None:
    """Draw what learning cost, round by round."""
    if truth is None:
        return
    f, horizon = truth, course.problem.horizon
    rounds, regret = regret_curve(course.plans, course.answer.index, horizon, f)
    ax.plot(rounds, regret, color=BLUE, linewidth=2, label=course.policy.name)
    blind = float((f.max() - f).mean())
    ax.plot([0, horizon], [0, blind * horizon], color=MUTED, linestyle="--", linewidth=1, label="a random action")
    ax.set_xlim(0, horizon)
    ax.set_ylim(0, max(2.5 * regret[-1], 1e-12))
    ax.locator_params(axis="x", nbins=5)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.yaxis.set_major_formatter(lambda regret, _: number(regret))
    ax.set(title="Loss compared with knowing the best from the start", xlabel="round", ylabel="cumulative regret")
    ax.legend(loc="upper left", fontsize=8)


def draw_cost(ax: Axes, course: Course, truth: Array | None) -> None:
    """Draw what each phase was expected to bring and to cost, if the policy said so, or else what was sent."""
    known = {plan.phase: plan.forecast for plan in course.plans if plan.forecast is not None}
    if known:
        _draw_forecasts(ax, known)
        _whole_phases(ax, 1, len(course.phases))
    else:
        _draw_numbers(ax, course)


def _draw_forecasts(ax: Axes, known: Mapping[int, Forecast]) -> None:
    """Draw gain and cost of each wave side by side."""
    phases = np.array(list(known))
    gains = np.array([forecast.gain for forecast in known.values()])
    costs = np.array([forecast.cost for forecast in known.values()])
    ax.bar(phases - 0.2, gains, 0.4, color=BLUE, label="expected gain")
    ax.bar(phases + 0.2, costs, 0.4, color=ORANGE, label="cost: answers, and trying poorer decisions")
    for phase, forecast in known.items():
        if forecast.certificate is not None:
            said = f"to certify\n{forecast.certificate:.2g}"
            ax.annotate(said, (phase, forecast.cost), (0, 3), textcoords="offset points", ha="center", fontsize=7)
    positive = np.concatenate([gains[gains > 0], costs[costs > 0]])
    if len(positive) and positive.max() > LOGARITHMIC * positive.min():
        ax.set_yscale("log")
        ax.set_ylim(positive.min() / 2, positive.max() * 4)
    ax.set(title="What each wave was expected to bring and to cost", xlabel="wave", ylabel="total reward")
    _legend_below(ax)


def _draw_numbers(ax: Axes, course: Course) -> None:
    """Draw what was sent in each phase, and in all."""
    phases = [plan.phase for plan in course.plans]
    sent = [plan.numbers for plan in course.plans]
    ax.bar(phases, sent, color=BLUE, label="in this phase")
    ax.plot(phases, np.cumsum(sent), color=ORANGE, marker=".", label="in all")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set(title="Numbers sent", xlabel="phase", ylabel="numbers")
    ax.legend(loc="upper left", fontsize=8)


def _whole_phases(ax: Axes, first: int, last: int) -> None:
    """Mark whole phases, with room for at least three."""
    ax.set_xlim(first - 0.6, max(3, last) + 0.6)
    ax.locator_params(axis="x", integer=True)


def _legend_below(ax: Axes) -> None:
    """Write the legend below the picture, where it covers nothing."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, fontsize=8, columnspacing=1.2)


DRAWINGS: dict[str, Callable[[Axes, Course, Array | None], None]] = {
    "active": draw_active,
    "estimate": draw_estimate,
    "regret": draw_regret,
    "cost": draw_cost,
}


def figure(course: Course, name: str, truth: Array | None = None) -> Figure:
    """Draw one picture."""
    made = sheet(6.4, 4.4)
    with styled():
        DRAWINGS[name](made.subplots(), course, truth)
    return made


def overview(course: Course, truth: Array | None = None) -> Figure:
    """Draw the four pictures on one sheet."""
    made = sheet(12, 8.5)
    with styled():
        for ax, draw in zip(made.subplots(2, 2).flat, DRAWINGS.values(), strict=True):
            draw(ax, course, truth)
    return made

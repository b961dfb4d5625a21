"""The pictures of a run: active actions, estimate against truth, regret, numbers sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from voxpop.core.errors import Array
from voxpop.lab.metrics import regret_curve
from voxpop.lab.runs import Run
from voxpop.report.drawing import BLUE, GREEN, MUTED, ORANGE, SKY, sheet, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class ActionAxis:
    """Where to draw an action: at its value if there is one numeric parameter, else at its true rank."""

    def __init__(self, run: Run) -> None:
        decisions = run.scenario.problem.decisions
        self.label = "action, best first"
        ranks = np.empty(len(decisions))
        ranks[np.argsort(-run.scenario.f, kind="stable")] = np.arange(1, len(decisions) + 1)
        self.places: Array = ranks
        first = decisions[0]
        if isinstance(first, Mapping) and len(first) == 1:
            name = next(iter(first))
            values = [label[name] for label in decisions]
            if all(isinstance(value, int | float) for value in values):
                self.label, self.places = name, np.array(values, dtype=float)
        self.order = np.argsort(self.places)


def draw_active(ax: Axes, run: Run) -> None:
    """Draw which actions could still be best in each phase, and which were played."""
    axis = ActionAxis(run)
    active = np.arange(run.scenario.problem.size)
    for closed in run.phases:
        phase = closed.plan.phase
        ax.plot(np.full(len(active), phase), axis.places[active], "_", color=SKY, markersize=11, markeredgewidth=3)
        ax.plot(np.full(len(closed.plan.arms), phase), axis.places[closed.plan.arms], ".", color=BLUE, markersize=4)
        active = closed.active
    best = axis.places[int(run.scenario.f.argmax())]
    ax.axhline(best, color=ORANGE, linewidth=1, linestyle="--")
    ax.plot([], [], "_", color=SKY, markersize=11, markeredgewidth=3, label="can still be best")
    ax.plot([], [], ".", color=BLUE, label="played")
    ax.plot([], [], "--", color=ORANGE, linewidth=1, label="truly best")
    ax.set(title="What is left, phase by phase", xlabel="phase", ylabel=axis.label)
    ax.legend(loc="upper right", fontsize=8)


def draw_estimate(ax: Axes, run: Run) -> None:
    """Draw the estimate with its band against the truth."""
    axis, state, f = ActionAxis(run), run.state, run.scenario.f
    order = axis.order
    places = axis.places[order]
    left = np.zeros(len(f), dtype=bool)
    left[state.active] = True
    ax.fill_between(places, state.lower[order], state.upper[order], color=SKY, linewidth=0, label="bounds")
    ax.plot(places, f[order], color=ORANGE, linewidth=1.5, label="truth")
    ax.plot(axis.places[left], state.centre[left], ".", color=BLUE, markersize=5, label="estimate, if still active")
    best = run.best
    ax.plot([axis.places[best]], [state.centre[best]], "*", color=GREEN, markersize=13, label="chosen")
    low, high = float(f.min()), float(f.max())
    reach = high - low or 1.0
    ax.set_ylim(low - 0.6 * reach, high + 0.6 * reach)
    ax.set(title="Estimate and truth", xlabel=axis.label, ylabel=run.scenario.reward)
    ax.legend(loc="upper right", fontsize=8, ncols=2)


def draw_regret(ax: Axes, run: Run) -> None:
    """Draw what learning cost, round by round."""
    f, horizon = run.scenario.f, run.scenario.problem.horizon
    rounds, regret = regret_curve(run.plans, run.best, horizon, f)
    ax.plot(rounds, regret, color=BLUE, linewidth=2, label=run.policy.name)
    blind = float((f.max() - f).mean())
    ax.plot([0, horizon], [0, blind * horizon], color=MUTED, linestyle="--", linewidth=1, label="a random action")
    ax.set_xlim(0, horizon)
    ax.set_ylim(0, max(2.5 * regret[-1], 1e-12))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set(title="Loss compared with knowing the best from the start", xlabel="round", ylabel="cumulative regret")
    ax.legend(loc="upper left", fontsize=8)


def draw_numbers(ax: Axes, run: Run) -> None:
    """Draw what was sent in each phase, and in all."""
    phases = [plan.phase for plan in run.plans]
    sent = [plan.numbers for plan in run.plans]
    ax.bar(phases, sent, color=BLUE, label="in this phase")
    ax.plot(phases, np.cumsum(sent), color=ORANGE, marker=".", label="in all")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set(title="Numbers sent", xlabel="phase", ylabel="numbers")
    ax.legend(loc="upper left", fontsize=8)


DRAWINGS: dict[str, Callable[[Axes, Run], None]] = {
    "active": draw_active,
    "estimate": draw_estimate,
    "regret": draw_regret,
    "numbers": draw_numbers,
}


def figure(run: Run, name: str) -> Figure:
    """Draw one picture."""
    made = sheet(6.4, 4.0)
    with styled():
        DRAWINGS[name](made.subplots(), run)
    return made


def overview(run: Run) -> Figure:
    """Draw the four pictures on one sheet."""
    made = sheet(11, 7)
    with styled():
        for ax, draw in zip(made.subplots(2, 2).flat, DRAWINGS.values(), strict=True):
            draw(ax, run)
    return made

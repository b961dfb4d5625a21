"""What the study cost, wave by wave and in all, against what not knowing would cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from voxpop.model.waves import Forecast
from voxpop.report.drawing import BLUE, MIDDLE, MUTED, ORANGE, PEACH, SKY
from voxpop.report.figures.common import SMALL, Canvas, plain_logarithm, shortened
from voxpop.report.stakes import regret_curve
from voxpop.report.summary import number
from voxpop.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOGARITHMIC = 50  # what differs by more than this factor is drawn on a logarithmic axis
LONGER = 2.5  # a bar that is longer than the others by more than this factor is cut


def draw_stakes(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw what the study costs in all, and what not knowing would cost, as bars."""
    stakes = view.stakes
    assert stakes is not None
    ax, asked = canvas.subplots(), bool(view.course.closed)
    rows: list[tuple[str, list[tuple[str, str, float]]]] = []
    if asked:
        parts = [
            ("price of answers", BLUE, stakes.answers),
            ("trying poorer decisions", MIDDLE, stakes.trying),
            ("the choice, from now on", SKY, stakes.ahead),
        ]
        rows.append(("this study, in all", [part for part in parts if part[2] or part[1] == SKY]))
    if stakes.pilot is not None and stakes.pilot_choice is not None:
        kept = f"the pilot's choice, {view.layout.name(stakes.pilot_choice)}"
        rows.append((kept if asked else f"{kept}, for good", [("_without asking", ORANGE, stakes.pilot)]))
    rows.append(("a decision at random", [("_without asking", ORANGE, stakes.guessing)]))
    totals = [sum(value for _, _, value in parts) for _, parts in rows]
    longest = max(totals[:-1], default=0.0)
    end = 1.3 * longest if stakes.pilot and totals[-1] > LONGER * longest else max(totals)
    for row, ((name, parts), total) in enumerate(zip(rows, totals, strict=True)):
        left = 0.0
        for label, colour, value in parts:
            ax.barh(row, min(value, end - left), 0.42, left, color=colour, label=label)
            left += value
        cut = ", far longer" if total > end else ""
        said = f"{shortened(name, 46)}: {number(total)}{cut}"
        ax.annotate(said, (0, row - 0.27), (0, 0), textcoords="offset points", va="bottom", weight="bold", fontsize=10)
        if cut:
            ax.plot([end], [row], ">", color=ORANGE, markersize=12, clip_on=False)
    ax.set_ylim(len(rows) - 0.6, -0.75)
    ax.set_xlim(0, (end or 1.0) * 1.04)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_formatter(lambda value, _: number(value) if value else "0")
    ax.locator_params(axis="x", nbins=5)
    horizon, caveat = view.course.problem.horizon, stakes.caveat
    ax.set_xlabel(f"lost against the best: {shortened(view.course.reward, 22)}, {horizon:,} rounds")
    source = "measured against the simulated truth" if stakes.measured else "the model's estimate, from all answers"
    said = f"Losses against the best decision, added up over {horizon:,} rounds: {source}."
    title = "What asking costs, and what not asking would" if asked else "What not asking costs"
    return title, said + (f" {caveat[0].upper()}{caveat[1:]}." if caveat else "")


def stakes_height(view: View) -> float:
    """Return how tall the bars are together."""
    rows = 1 + bool(view.course.closed) + bool(view.course.problem.pilot)
    return 1.6 + 0.75 * rows


def draw_cost(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw what each wave was expected to bring and to cost, if the policy said so, or else what was sent."""
    ax, pending, reward = canvas.subplots(), view.course.pending, view.course.reward
    known = {plan.wave: plan.forecast for plan in view.plans if plan.forecast is not None}
    if known:
        _draw_forecasts(ax, known, None if pending is None else pending.wave)
        ax.set_ylabel(f"{shortened(reward, 20)}, added up")
    else:
        _draw_numbers(ax, view)
    ax.set_xlabel("wave")
    ax.locator_params(axis="x", integer=True)
    if not known:
        return "Numbers sent", "How many numbers people sent in each wave."
    return "Gain and cost of each wave, as expected before it", (
        f"What each wave was expected to bring over the rounds left, and to cost, in {reward} added up; "
        "both were said before it. Asking stops when no wave is expected to bring more than it costs."
    )


def _draw_forecasts(ax: Axes, known: Mapping[int, Forecast], pending: int | None) -> None:
    """Draw gain and cost of each wave side by side; those of an open wave are paler."""
    waves = np.array(list(known))
    gains = np.array([forecast.gain for forecast in known.values()])
    costs = np.array([forecast.cost for forecast in known.values()])
    for shift, heights, full, pale, label in (
        (-0.2, gains, BLUE, SKY, "expected gain"),
        (0.2, costs, ORANGE, PEACH, "cost: answers, poorer decisions"),
    ):
        colours = [pale if wave == pending else full for wave in known]
        bars = ax.bar(waves + shift, heights, 0.4, color=colours, edgecolor=full, linewidth=0.8)
        bars.set_label(label)
    for wave, forecast in known.items():
        if forecast.certificate is not None:
            said = f"to certify\n{forecast.certificate:.2g}"
            ax.annotate(said, (wave, forecast.cost), (0, 3), textcoords="offset points", ha="center", fontsize=SMALL)
    positive = np.concatenate([gains[gains > 0], costs[costs > 0]])
    if len(positive) and positive.max() > LOGARITHMIC * positive.min():
        ax.set_yscale("log")
        plain_logarithm(ax.yaxis, positive.min(), positive.max())
        ax.set_ylim(positive.min() / 2, positive.max() * 4)
    ax.set_xlim(waves.min() - 0.6, max(3, waves.max()) + 0.6)


def _draw_numbers(ax: Axes, view: View) -> None:
    """Draw what was sent in each wave, and in all."""
    waves = [plan.wave for plan in view.course.plans]
    sent = [wave.numbers for wave in view.course.closed]
    ax.bar(waves, sent, color=BLUE, label="in this wave")
    ax.plot(waves, np.cumsum(sent), color=ORANGE, marker="." if len(sent) < 60 else "", label="in all")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylabel("numbers")


def draw_regret(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw what was lost against the simulated truth, round by round."""
    ax, course, f = canvas.subplots(), view.course, view.truth
    assert f is not None
    horizon = course.problem.horizon
    rounds, regret = regret_curve(course.plans, course.answer.index, horizon, f)
    ax.plot(rounds, regret, color=BLUE, linewidth=2, label="this study, without the price of answers")
    if view.stakes is not None and view.stakes.pilot is not None:
        ax.plot([0, horizon], [0, view.stakes.pilot], color=ORANGE, linewidth=1.5, label="the pilot's choice")
    blind = float((f.max() - f).mean())
    ax.plot([0, horizon], [0, blind * horizon], color=MUTED, linestyle="--", label="a decision at random")
    top = max(2.5 * float(regret[-1]), 1.15 * ((view.stakes and view.stakes.pilot) or 0.0), 1e-12)
    ax.set_xlim(0, horizon)
    ax.set_ylim(0, top)
    ax.locator_params(axis="x", nbins=5)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.yaxis.set_major_formatter(lambda value, _: number(value))
    ax.set(xlabel="round", ylabel=f"{shortened(course.reward, 20)}, added up")
    said = "Only a simulation can show this: what was lost, round by round, measured against its truth."
    return "Lost against knowing the best from the start", said

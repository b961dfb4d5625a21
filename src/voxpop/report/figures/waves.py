"""Wave by wave: what was asked, what was known afterwards, what was left, and what it cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from voxpop.errors import Array
from voxpop.journal.schedule import wave_dates
from voxpop.model.problem import Indices
from voxpop.model.state import State
from voxpop.model.waves import Forecast
from voxpop.model.words import number
from voxpop.report.drawing import BLUE, INK, MIDDLE, MUTED, ORANGE, PEACH, SKY, Axes
from voxpop.report.figures.common import (
    CERTIFIED,
    CHOSEN,
    ESTIMATE,
    FROM_PILOT,
    FROM_WAVES,
    LIKELY,
    PILOT,
    SMALL,
    STAR,
    TRUTH,
    WAVE,
    Canvas,
    answers_of,
    draw_bands,
    panels,
    plain_logarithm,
    reward_axis,
    set_axis,
    shortened,
    window,
)
from voxpop.report.figures.decision import ASKED, mark_choice, paint
from voxpop.report.stakes import regret_curve
from voxpop.report.view import AHEAD, ANSWERS, LOST, TRYING, Column, View

PANELS = {"line": (2, 8), "map": (3, 9)}  # how many stand side by side, and how many there are at most
PIXELS = 48  # of a small map, along each side
OPEN = "to be asked"
LOGARITHMIC = 50  # what differs by more than this factor is drawn on a logarithmic axis
COSTS = {ANSWERS: BLUE, TRYING: MIDDLE, AHEAD: SKY, LOST: ORANGE}


@dataclass(frozen=True, eq=False)
class Stage:
    """The pilot, a wave, or the wave that is open: what was asked, and what is known afterwards."""

    title: str
    state: State
    at: tuple[Array, ...]  # what was asked, on each axis
    answers: Array  # or estimates, if the wave is open
    open: bool = False


def stages_of(view: View) -> list[Stage]:
    """Return all stages of a study along a line or on a map."""
    course, columns, made = view.course, view.layout.varied, []
    until = {wave: f", until {end}" for wave, (end, _) in wave_dates(course).items()}
    if course.problem.pilot:
        places, answers = zip(*(answers_of(view, column)[FROM_PILOT] for column in columns), strict=True)
        made.append(Stage(f"pilot: {course.pilot_people:,} people", view.trail[0], places, answers[0]))
    for wave, state in zip(course.closed, view.trail[1:], strict=True):
        at = tuple(column.places[wave.plan.arms] for column in columns)
        title = f"wave {wave.plan.wave}: {wave.people:,} people{until.get(wave.plan.wave, '')}"
        made.append(Stage(title, state, at, wave.objective.mean))
    if (plan := course.pending) is not None:
        at = tuple(column.places[plan.arms] for column in columns)
        state = view.trail[-1]
        expected = view.course.problem.within(state.centre[plan.arms])
        title = f"wave {plan.wave}: {plan.people:,} to ask{until.get(plan.wave, '')}"
        made.append(Stage(title, state, at, expected, open=True))
    return made


def shown_stages(view: View) -> list[Stage]:
    """Return the stages that get a panel."""
    stages, most = stages_of(view), PANELS[view.layout.kind][1]
    kept = np.linspace(0, len(stages) - 1, min(most, len(stages))).round().astype(int)
    return [stages[place] for place in kept.tolist()]


def draw_waves(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw a panel for each wave: what was asked, and the estimate afterwards."""
    stages, across = shown_stages(view), PANELS[view.layout.kind][0]
    draw = _draw_map_stage if view.layout.kind == "map" else _draw_line_stage
    made = panels(canvas, len(stages), across, sharex=True)
    for ax, stage in zip(made, stages, strict=True):
        draw(ax, view, stage)
        ax.set_title(stage.title, fontsize=SMALL, weight="normal")
        ax.label_outer()
    for ax in made[-across:]:  # nothing is below these
        ax.tick_params(labelbottom=True)
    said = "What was asked in each wave, and the estimate afterwards, from all answers up to then."
    hidden = len(stages_of(view)) - len(stages)
    return "The estimate, wave by wave", said + (f" {hidden} in between are left out." if hidden else "")


def _draw_line_stage(ax: Axes, view: View, stage: Stage) -> None:
    column, state = view.layout.varied[0], stage.state
    draw_bands(ax, view, column, np.argsort(column.places), state, view.likely(state) is None, linewidth=1.4)
    label, style = (OPEN, PILOT) if stage.open else (FROM_WAVES, WAVE)
    ax.plot(*stage.at, stage.answers, label=label, **style)
    best = view.course.policy.best(view.course.problem, state)
    ax.plot([column.places[best]], [view.estimate(state)[best]], label="decision then", **STAR | {"markersize": 11})
    means = [means for _, means in answers_of(view).values()]
    ax.set_ylim(*window([*map(view.estimate, view.trail[_first(view) :] or view.trail), *means], 0.15))
    set_axis(ax, column)
    reward_axis(ax, view)


def _draw_map_stage(ax: Axes, view: View, stage: Stage) -> None:
    values = [view.estimate(known) for known in view.trail]
    limits = float(min(map(np.nanmin, values))), float(max(map(np.nanmax, values)))
    paint(ax, view, view.estimate(stage.state), limits=limits, pixels=PIXELS)
    ax.plot(*stage.at, "o", label=OPEN if stage.open else "asked", **ASKED | {"markersize": 4})
    mark_choice(ax, view, stage.state, 11)
    for column, side in zip(view.layout.varied, "xy", strict=True):
        set_axis(ax, column, side, 3)


def draw_progress(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw how the bounds of the chosen decision narrowed."""
    ax, best, first = canvas.subplots(), view.answer.index, _first(view)
    stages = np.arange(first, len(view.trail))
    states = [view.trail[stage] for stage in stages.tolist()]
    centre = view.course.problem.within([state.centre[best] for state in states])
    certified = np.array([[end[best] for end in view.bounds(state)] for state in states]).T
    likely = np.array([[end[best] for end in view.likely(state) or ()] for state in states]).T
    if np.isfinite(certified).any():
        ax.vlines(stages, *certified, color=MIDDLE, linewidth=1.5, label=CERTIFIED)
    if len(likely):
        ax.vlines(stages, *likely, color=SKY, linewidth=9, label=LIKELY)
    ax.plot(stages, centre, "o-", color=BLUE, linewidth=1, markersize=5, label=ESTIMATE)
    for wave in view.course.closed:
        kept = wave.plan.arms == best
        ax.plot(np.full(kept.sum(), wave.plan.wave), wave.objective.mean[kept], label=FROM_WAVES, **WAVE)
    if view.truth is not None:
        ax.axhline(view.truth[best], color=ORANGE, linewidth=1.5, linestyle="--", label=TRUTH)
    ax.set_ylim(*window([centre, likely, certified[:, -1]]))
    _stage_axis(ax, first, len(view.course.closed))
    reward_axis(ax, view)
    said = f"The estimate of {view.choice} after each wave, with what is certified. What ends at the edge goes on."
    return f"What is known about {view.choice}", said


def draw_watch(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw what was certified about the decision in force, round by round: it ages until the next wave."""
    ax, course = canvas.subplots(), view.course
    now, tolerance = course.concluded, course.policy.settings().get("tolerance")
    known, waves = now.known, len(course.closed)
    ends = [course.begins(wave) + course.plans[wave - 1].length if wave else 0 for wave in range(waves + 1)]
    highest = tolerance or 0.0
    for wave, (said, begins) in enumerate(zip(known, ends, strict=True)):
        until = ends[wave + 1] if wave < waves else course.rounds
        rate = course.watching.ageing(course.problem, said.best)
        if np.isfinite(said.certified):
            aged = said.certified + rate * (until - begins)
            ax.plot([begins, until], [said.certified, aged], color=BLUE, linewidth=2, label=CERTIFIED)
            highest = max(highest, aged if wave < waves else now.state.certificate)
        if wave and said.best != known[wave - 1].best:
            ax.axvline(begins, color=ORANGE, linestyle="--", label="another decision")
    ax.plot(ends[1:], [0] * waves, "^", color=INK, markersize=6, clip_on=False, label="end of a wave")
    if tolerance is not None:
        ax.axhline(tolerance, color=MUTED, linestyle=":", label="tolerance")
    ax.set_ylim(0, 1.1 * highest if np.isfinite(highest) and highest else None)
    ax.set_xlim(0, course.rounds + 1)
    ax.set(xlabel="round", ylabel=f"better by at most, {shortened(course.reward, 20)}")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    shown = "By how much any decision can be better than the one in force, as certified: it ages until the next wave."
    return f"The watch over {view.choice}", shown


def draw_left(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw what could still be best after each wave, and what was asked about."""
    course, valued = view.course, view.layout.kind == "line" and bool(view.trail)
    actives = [course.policy.init(course.problem).active, *(wave.active for wave in course.closed)]
    (_draw_left_values if valued else _draw_left_count)(canvas.subplots(), view, actives)
    said = (
        "Decisions that could still be best before each wave, as far as that is certified. What is unlikely is "
        "not asked about, long before it is ruled out."
    )
    title = "What was asked, and what is left, wave by wave" if valued else "How many decisions are left, wave by wave"
    return title, said


def _draw_left_values(ax: Axes, view: View, actives: Sequence[Indices]) -> None:
    column, course = view.layout.varied[0], view.course
    for group in course.problem.pilot:
        places = view.layout.places_of(group.points, column)
        ax.plot(np.zeros(len(places)), places, label="asked in the pilot", **PILOT)
    runs = [(stage, *run) for stage, active in enumerate(actives, start=1) for run in runs_of(column, active)]
    ax.vlines(*np.transpose(runs), color=SKY, linewidth=9, label="could be best")
    for plan in course.all_plans:
        label, style = ("asked", WAVE) if plan is not course.pending else (OPEN, PILOT)
        ax.plot(np.full(len(plan.arms), plan.wave), column.places[plan.arms], label=label, **style)
    end = len(course.all_plans) + 1
    ax.plot([end], [column.places[view.answer.index]], label=CHOSEN, clip_on=False, **STAR)
    if view.truth is not None:
        ax.axhline(column.places[int(view.truth.argmax())], color=ORANGE, linestyle="--", label="truly best")
    _stage_axis(ax, _first(view), end, "now" if course.ended is None else "end")
    set_axis(ax, column, "y")
    ax.update_datalim([(end, column.places.min()), (end, column.places.max())])
    ax.autoscale_view(scalex=False)


def runs_of(column: Column, active: Indices) -> list[tuple[float, float]]:
    """Join neighbouring values of a parameter: return the ends of each run, half a step further out.

    >>> runs_of(Column("price", (1.0, 2.0, 3.0, 4.0, 5.0)), np.array([0, 1, 4]))
    [(0.5, 2.5), (4.5, 5.5)]
    """
    order = np.argsort(column.places)
    ranks = np.sort(np.argsort(order)[active])
    values, half = column.places[order], np.ptp(column.places) / (len(order) - 1) / 2
    parts = np.split(ranks, np.flatnonzero(np.diff(ranks) > 1) + 1)
    return [(float(values[part[0]] - half), float(values[part[-1]] + half)) for part in parts]


def _draw_left_count(ax: Axes, view: View, actives: Sequence[Indices]) -> None:
    counts, asked = [len(active) for active in actives], [len(plan.arms) for plan in view.course.plans]
    stages = np.arange(1, len(counts) + 1)
    bars = ax.bar(stages, counts, 0.6, color=SKY, label="could be best")
    if len(counts) <= 12:
        ax.bar_label(bars, [f"{count:,}" for count in counts], padding=2, fontsize=SMALL)
    ax.bar(stages[: len(asked)], asked, 0.3, color=INK, label="asked about")
    _stage_axis(ax, 1, len(counts), "now" if view.course.ended is None else "end")
    ax.set_ylabel("decisions")


def _first(view: View) -> int:
    """Return the first stage at which something is known: 0, the pilot, if there was one."""
    return 0 if view.course.problem.pilot else 1


def _stage_axis(ax: Axes, first: int, last: int, end: str = "") -> None:
    """Mark whole waves; the pilot is wave 0. What is left at the end may come after the last."""
    ax.set_xlim(first - 0.6, max(3, last) + 0.6)
    stages = list(range(first, last + (not end), max(1, (last - first) // 8)))
    names = ["pilot" if stage == 0 else f"{stage}" for stage in stages]
    ax.set_xticks([*stages, last] if end else stages, [*names, end] if end else names)
    ax.set_xlabel("wave")


# What it cost


def draw_stakes(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw what the study costs in all, and what not knowing would cost, as bars."""
    stakes, (rows, end) = view.stakes, view.costs
    assert stakes is not None
    ax, asked = canvas.subplots(), bool(view.course.closed)
    for at, row in enumerate(rows):
        left = 0.0
        for name, value in row.parts:
            ax.barh(at, min(value, end - left), 0.42, left, color=COSTS[name], label="_" * (name == LOST) + name)
            left += value
        cut = ", far longer" if row.total > end else ""
        said = f"{shortened(row.name, 46)}: {number(row.total)}{cut}"
        ax.annotate(said, (0, at - 0.27), (0, 0), textcoords="offset points", va="bottom", weight="bold", fontsize=10)
        if cut:
            ax.plot([end], [at], ">", color=ORANGE, markersize=12, clip_on=False)
    ax.set_ylim(len(rows) - 0.6, -0.75)
    ax.set_xlim(0, end * 1.04)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_formatter(lambda value, _: number(value) if value else "0")
    ax.locator_params(axis="x", nbins=5)
    horizon, caveat = view.course.problem.horizon, stakes.caveat
    ax.set_xlabel(f"lost against the best: {shortened(view.course.unit, 22)}, {horizon:,} rounds")
    known = "compared with the best decision by all answers" if asked else "as the model expects them at most"
    source = "measured against the simulated truth" if stakes.measured else known
    said = f"Losses against the best decision, added up over {horizon:,} rounds: {source}."
    title = "What asking costs, and what not asking would" if asked else "What not asking costs"
    return title, said + (f" {caveat[0].upper()}{caveat[1:]}." if caveat else "")


def draw_cost(canvas: Canvas, view: View) -> tuple[str, str]:
    """Draw what each wave was expected to bring and to cost, if the policy said so, or else what was sent."""
    ax, pending, reward = canvas.subplots(), view.course.pending, view.course.unit
    forecasts = {plan.wave: view.course.forecast(plan) for plan in view.course.all_plans}
    known = {wave: forecast for wave, forecast in forecasts.items() if forecast is not None}
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

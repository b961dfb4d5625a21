"""The three trust models side by side: tab:private_regret."""

import math
from collections.abc import Iterator
from typing import Any

from reproduction import theory
from reproduction.drawing import draw_bars
from reproduction.exhibits import Exhibit, Finding, Scale, Sheet, Shown, compare
from voxpop.model.problem import Problem
from voxpop.report.drawing import ORANGE, SKY
from voxpop.simulation.comparison import Cells, quantity
from voxpop.simulation.pictures import panels

EPSILON, DELTA, ALPHA = 15.0, 1e-6, 0.7
MODELS = ("central", "shuffle", "local")
PAPER_NAMES = {"central": "CDP-DPBE", "shuffle": "SDP-DPBE", "local": "LDP-DPBE"}
MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "as printed": ("dpbe-paper", {"calibration": "paper"}),
    "voxpop": ("dpbe", {}),
}


def exhibits(scale: Scale) -> Iterator[Exhibit]:
    """Make the exhibit of the synthetic study under each trust model."""
    horizon = scale.private_horizon
    series = {
        f"{model}, {mode}": scale.trials(
            "synthetic", policy, horizon=horizon, privacy=model, epsilon=EPSILON, delta=DELTA, **chosen
        )
        for model in MODELS
        for mode, (policy, chosen) in MODES.items()
    }
    series["none, as printed"] = scale.trials("synthetic", "dpbe-paper", horizon=horizon)
    series["none, voxpop"] = scale.trials("synthetic", "dpbe", horizon=horizon)
    yield Exhibit(
        name="trust",
        title="Three trust models",
        labels=("tab:private_regret",),
        series=series,
        present=present,
        text=f"Synthetic study, eps = {EPSILON:g}, delta = {DELTA:g}. voxpop asks enough people for each to hide "
        "among the others; the printed protocols keep to the schedule.",
    )


def present(cells: Cells) -> Shown:
    """Draw bars of regret and numbers sent."""
    names = ("none", *MODELS)
    with panels(2) as (figure, axes):
        colours = zip(MODES, (SKY, ORANGE), strict=True)
        bars = {mode: ([cells[f"{name}, {mode}"] for name in names], colour, "") for mode, colour in colours}
        draw_bars(axes, names, bars)
    return Shown(figure, [_table(cells)], _findings(cells))


def _table(cells: Cells) -> Sheet:
    orders = _orders(cells["none, voxpop"].trials[0].scenario().problem)
    rows = {}
    for name in ("none", *MODELS):
        fields = [(field, mode) for field in ("regret", "numbers") for mode in MODES]
        found = {f"{field}, {mode}": quantity(cells[f"{name}, {mode}"].mean(field)) for field, mode in fields}
        rows[PAPER_NAMES.get(name, "DPBE")] = {"paper's order, evaluated": quantity(orders[name]), **found}
    return Sheet.of("Regret in the trust models", "tab:private_regret", "model", rows)


def _orders(problem: Problem) -> dict[str, float]:
    """Evaluate tab:private_regret without constants."""
    T, log, gain = (
        problem.horizon,
        math.log(problem.size * problem.horizon),
        theory.information_gain_bound(problem, problem.horizon),
    )
    base, root = T ** (1 - ALPHA / 2) * math.sqrt(log), gain * math.sqrt(log) / EPSILON
    return {
        "none": base,
        "central": base + math.log(1 / DELTA) * root * T ** (1 - ALPHA),
        "local": base + math.log(1 / DELTA) * root * T ** (1 - ALPHA / 2),
        "shuffle": base + math.log(gain / DELTA) ** 1.5 * root * T ** (1 - ALPHA),
    }


def _findings(cells: Cells) -> list[Finding]:
    central, shuffle, local = (cells[f"{model}, as printed"] for model in MODELS)
    shuffled, open_run = cells["shuffle, voxpop"], cells["none, voxpop"]
    return [
        compare("The shuffle model loses less than the local one, as printed", shuffle, local).because(REASON),
        compare("The central model loses less than the local one, as printed", central, local).because(REASON),
        compare("voxpop's shuffle model loses less than its local one", shuffled, cells["local, voxpop"]).as_target(),
        compare(
            "voxpop's shuffle model loses at most a third more than no privacy", shuffled, open_run, factor=4 / 3
        ).as_target(),
    ]


REASON = (
    "As printed, neither drops an action within T: both lose what a random choice loses. The noise of the shuffle "
    "protocol exceeds local noise until some hundred thousand people take part, for its p is a worst-case bound. "
    "Calibrated numerically, it costs next to nothing."
)

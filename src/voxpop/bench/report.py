"""What was measured, as a table, as JSON and as a picture; and whether it has become worse."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.table import Table

from voxpop.bench.figures import Curve, Figure, Results

FALL = 1.5  # a ratio that is worse than the baseline by this factor is a regression


def baseline(quick: bool) -> dict[str, float]:
    """The ratios of an earlier run, shipped with the software."""
    text = files("voxpop.bench").joinpath("baseline.json").read_text(encoding="utf-8")
    known: dict[str, dict[str, float]] = json.loads(text)
    return known.get("quick" if quick else "full", {})


def regressed(figure: Figure, before: dict[str, float]) -> bool:
    """Whether a figure with a target has fallen by a third since the baseline."""
    old = before.get(figure.name)
    if old is None or (figure.at_least is None and figure.at_most is None):
        return False
    return figure.value < old / FALL if figure.at_least is not None else figure.value > max(old, 0.1) * FALL


def verdict(figure: Figure, before: dict[str, float]) -> str:
    """One word on a figure."""
    if not figure.reached:
        return "missed"
    if regressed(figure, before):
        return "worse"
    return "reached" if figure.at_least is not None or figure.at_most is not None else ""


def table(results: Results, before: dict[str, float]) -> Table:
    """The figures for people."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("figure", "value", "target", "baseline", "", "note"):
        made.add_column(name, justify="right" if name in ("value", "target", "baseline") else "left")
    for figure in results.figures:
        target = f"≥ {figure.at_least:g}" if figure.at_least is not None else ""
        target = f"≤ {figure.at_most:g}" if figure.at_most is not None else target
        old = before.get(figure.name)
        cells = (f"{figure.value:.3g}", target, "" if old is None else f"{old:.3g}", verdict(figure, before))
        made.add_row(figure.name, *cells, figure.note)
    return made


def as_dict(results: Results, limits: dict[str, float], before: dict[str, float]) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "machine": limits,
        "figures": [{**asdict(figure), "verdict": verdict(figure, before)} for figure in results.figures],
        "curves": [asdict(curve) for curve in results.curves],
        "not_installed": results.absent,
    }


def draw(curves: list[Curve], folder: Path) -> list[Path]:
    """Cost against each size, with the fitted exponent, as PNG and SVG."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(11, 3.2), layout="constrained")
    for axes, curve in zip(canvas.subplots(1, len(curves)), curves, strict=True):
        axes.loglog(curve.sizes, curve.times, "o-", color="#2563eb")
        if curve.limit is not None:
            allowed = [curve.times[0] * (size / curve.sizes[0]) ** curve.limit for size in curve.sizes]
            axes.loglog(curve.sizes, allowed, "--", color="#9ca3af", label=f"allowed: exponent {curve.limit:g}")
            axes.legend(frameon=False, fontsize=8)
        axes.set_title(f"exponent {curve.exponent:.2f}", fontsize=10)
        axes.set_xticks(curve.sizes, [f"{size:.0e}".replace("e+0", "e") for size in curve.sizes], fontsize=8)
        axes.minorticks_off()
        axes.set_xlabel(curve.axis)
        axes.grid(visible=True, which="major", alpha=0.3)
    canvas.axes[0].set_ylabel("seconds")
    paths = [folder / f"speed.{ending}" for ending in ("png", "svg")]
    for path in paths:
        canvas.savefig(path, dpi=130)
    return paths

"""What was measured, as a table, as JSON and as a picture; and whether it has become worse."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.measure import Curve, Figure, Results
from voxpop.errors import InputError
from voxpop.io.files import write_atomically
from voxpop.report.drawing import BLUE, MUTED, png, svg
from voxpop.simulation.pictures import logarithmic, panels

FALL = 1.5  # a ratio that is worse than the baseline by this factor is a regression


def baseline(quick: bool, path: Path | None = None) -> dict[str, float]:
    """Read the ratios of an earlier run from this file, or those shipped with the software."""
    shipped = files("benchmarks").joinpath("baseline.json")
    if path is not None and not path.is_file():
        raise InputError(f"there is no baseline {str(path)!r}; write one with --keep {path}")
    try:
        known = json.loads((shipped if path is None else path).read_text(encoding="utf-8"))
        return {str(name): float(value) for name, value in known.get(_kind(quick), {}).items()}
    except (ValueError, AttributeError, TypeError):
        raise InputError(f"{str(path)!r} is not a baseline; write one with --keep {path}") from None


def keep(results: Results, quick: bool, path: Path) -> None:
    """Write the ratios that have a target into a baseline; the other kind of run keeps its own."""
    known = {_kind(kind): baseline(kind, path) for kind in (True, False)} if path.is_file() else {}
    ratios = {figure.name: float(f"{figure.value:.3g}") for figure in results.figures if figure.targeted}
    write_atomically(path, json.dumps({**known, _kind(quick): ratios}, indent=1) + "\n")


def _kind(quick: bool) -> str:
    return "quick" if quick else "full"


def regressed(figure: Figure, before: dict[str, float]) -> bool:
    """Return True if a figure with a target is worse than the baseline by the factor `FALL`."""
    old = before.get(figure.name)
    if old is None or not figure.targeted:
        return False
    return figure.value < old / FALL if figure.at_least is not None else figure.value > max(old, 0.1) * FALL


def verdict(figure: Figure, before: dict[str, float]) -> str:
    """Judge a figure in one word."""
    if not figure.reached:
        return "missed"
    if regressed(figure, before):
        return "worse"
    return "reached" if figure.targeted else ""


def machine(limits: dict[str, float]) -> str:
    """Describe the machine's own limits in one line."""
    double, single, copy = limits["gigaflops"], limits["gigaflops_single"], limits["gigabytes_per_second"]
    return f"one thread: matrix products {double:.0f} gigaflops, {single:.0f} in single precision; copy {copy:.0f} GB/s"


def table(results: Results, before: dict[str, float]) -> Table:
    """Make a table of the figures."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    made.add_column("figure")
    for name in ("value", "target", "baseline"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("", no_wrap=True)
    for figure in results.figures:
        target = f"≥ {figure.at_least:g}" if figure.at_least is not None else ""
        target = f"≤ {figure.at_most:g}" if figure.at_most is not None else target
        old = before.get(figure.name)
        cells = (f"{figure.value:.3g}", target, "" if old is None else f"{old:.3g}", verdict(figure, before))
        made.add_row(f"{figure.name}\n  [dim]{figure.note}[/dim]" if figure.note else figure.name, *cells)
    return made


def as_dict(results: Results, limits: dict[str, float], before: dict[str, float]) -> dict[str, Any]:
    """Return everything as plain data."""
    return {
        "machine": limits,
        "figures": [{**asdict(figure), "verdict": verdict(figure, before)} for figure in results.figures],
        "curves": [asdict(curve) for curve in results.curves],
        "not_installed": results.absent,
    }


def draw(curves: list[Curve], folder: Path) -> None:
    """Draw cost against each size, with the fitted exponent, as PNG and SVG."""
    with panels(len(curves), "", width=3.4, height=3.4) as (figure, axes):
        for ax, curve in zip(axes, curves, strict=True):
            ax.plot(curve.sizes, curve.times, "o-", color=BLUE)
            if curve.limit is not None:
                allowed = [curve.times[0] * (size / curve.sizes[0]) ** curve.limit for size in curve.sizes]
                ax.plot(curve.sizes, allowed, "--", color=MUTED, label=f"allowed: exponent {curve.limit:g}")
                ax.legend(fontsize=8, loc="upper left")
            logarithmic(ax)
            ax.set_title(curve.note or f"exponent {curve.exponent:.2f}", fontsize=8)
            ax.set_xlabel(curve.axis)
        axes[0].set_ylabel("seconds")
    write_atomically(folder / "speed.svg", svg(figure))
    write_atomically(folder / "speed.png", png(figure))

"""`python -m benchmarks`: how fast voxpop is here, in ratios of times taken in one run, on one thread."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmarks.measure import Absent, Curve, Figure, Found, machine_limits
from benchmarks.selection import growth, large_set, plain_loop, widths
from benchmarks.studies import crowds, every_round, other_policies, planning, round_by_round, small_studies
from voxpop.cli import main
from voxpop.cli.display import console, progress, table_of
from voxpop.errors import InputError
from voxpop.io.files import write_atomically
from voxpop.report.drawing import BLUE, MUTED, png, svg
from voxpop.runtime.machine import one_thread
from voxpop.simulation.pictures import logarithmic, panels

SHIPPED = Path(__file__).with_name("baseline.json")


def pieces(quick: bool) -> dict[str, Callable[[], Found]]:
    """Return the measurements by name: what is timed against what."""
    sizes, arms, horizons = [10_000, 30_000, 100_000], [50, 100, 200], [300, 1000, 3000]
    if not quick:
        sizes, arms, horizons = [*sizes, 300_000], [*arms, 400], [*horizons, 10_000]
    return {
        "the plain program": partial(small_studies, 1 if quick else 5),
        "the plain loop": partial(plain_loop, 10_000, 200),
        "a large decision set": partial(large_set, 100_000 if quick else 1_000_000, 300),
        "affine widths": partial(widths, 100_000, 200),
        "growth with n and H": partial(growth, sizes, arms),
        "GP-UCB": partial(round_by_round, horizons),
        "every round": partial(every_round, 10_000 if quick else 40_000),
        "the plan of a wave": partial(planning, [100, 10_000] if quick else [100, 10_000, 1_000_000]),
        "crowds": crowds,
        "other policies": partial(other_policies, 1000 if quick else 5000),
    }


def baseline(quick: bool, path: Path | None = None) -> dict[str, float]:
    """Read the ratios of an earlier run from this file, or those shipped with the software."""
    if path is not None and not path.is_file():
        raise InputError(f"there is no baseline {str(path)!r}; write one with --keep {path}")
    try:
        known = json.loads((path or SHIPPED).read_text(encoding="utf-8"))
        return {str(name): float(value) for name, value in known.get(_kind(quick), {}).items()}
    except (ValueError, AttributeError, TypeError):
        raise InputError(f"{str(path)!r} is not a baseline; write one with --keep {path}") from None


def keep_baseline(figures: Sequence[Figure], quick: bool, path: Path) -> None:
    """Write the ratios that have a target into a baseline; the other kind of run keeps its own."""
    known = {_kind(kind): baseline(kind, path) for kind in (True, False)} if path.is_file() else {}
    ratios = {figure.name: float(f"{figure.value:.3g}") for figure in figures if figure.target}
    write_atomically(path, json.dumps({**known, _kind(quick): ratios}, indent=1) + "\n")


def _kind(quick: bool) -> str:
    return "quick" if quick else "full"


def table(figures: Sequence[Figure], before: dict[str, float]) -> Table:
    """Make a table of the figures."""
    rows = []
    for figure in figures:
        old = f"{before[figure.name]:.3g}" if figure.name in before else ""
        name = f"{figure.name}\n  [dim]{figure.note}[/dim]" if figure.note else figure.name
        rows.append((name, f"{figure.value:.3g}", figure.target, old, figure.verdict(before)))
    return table_of(("figure", "value", "target", "baseline", "verdict"), rows, left=("figure", "verdict"))


def draw(curves: Sequence[Curve], folder: Path) -> None:
    """Draw cost against each size, with the fitted exponent, as PNG and SVG."""
    with panels(len(curves), width=3.4, height=3.4) as (figure, axes):
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


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Use smaller sizes, which take about a minute.")] = False,
    out: Annotated[Path, typer.Option(help="The folder for speed.json, speed.png and speed.svg.")] = Path(
        "voxpop-bench"
    ),
    known: Annotated[
        Path | None, typer.Option("--baseline", help="The ratios to compare with; those in this folder unless given.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep this run's ratios as a baseline in this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")] = False,
) -> None:
    """Measure how fast voxpop is, in ratios; exits with 1 if a target is missed or a ratio has fallen by a third."""
    before, parts, found = baseline(quick, known), pieces(quick), list[Figure | Curve | Absent]()
    with one_thread(), progress(len(parts), "parts") as (bar, task):  # ratios then do not depend on the number of cores
        limits = machine_limits()
        for name, measure in parts.items():
            bar.update(task, description=name)
            found += measure()
            bar.advance(task)
    figures = [one for one in found if isinstance(one, Figure)]
    curves = [one for one in found if isinstance(one, Curve)]
    absent = [one.name for one in found if isinstance(one, Absent)]
    data = {
        "machine": limits,
        "figures": [{**asdict(figure), "verdict": figure.verdict(before)} for figure in figures],
        "curves": [{**asdict(curve), "exponent": curve.exponent} for curve in curves],
        "not_installed": absent,
    }
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "speed.json", json.dumps(data, indent=1))
    draw(curves, out)
    if keep is not None:
        keep_baseline(figures, quick, keep)
    if as_json:
        typer.echo(json.dumps(data))
    else:
        double, single, copy = limits.values()
        products = f"matrix products {double:.0f} gigaflops, {single:.0f} in single precision"
        console.print(f"one thread: {products}; copy {copy:.0f} GB/s", highlight=False)
        console.print(table(figures, before))
        for peer in absent:
            console.print(f"{peer}: not installed", highlight=False)
        console.print(f"written to {out}/", highlight=False)
    if any(figure.verdict(before) in ("missed", "worse") for figure in figures):
        raise typer.Exit(1)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(bench)

if __name__ == "__main__":
    main(app)

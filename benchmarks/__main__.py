"""`python -m benchmarks`: how fast voxpop is here, in ratios of times taken in one run, on one thread."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import report
from benchmarks.measure import Results, machine_limits
from benchmarks.selection import growth, large_set, plain_loop, widths
from benchmarks.studies import crowds, every_round, other_policies, planning, round_by_round, small_studies
from voxpop.cli import main
from voxpop.cli.display import console, progress
from voxpop.io.files import write_atomically
from voxpop.runtime.machine import one_thread


def pieces(quick: bool) -> dict[str, Callable[[], Results]]:
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


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Use smaller sizes, which take about a minute.")] = False,
    out: Annotated[Path, typer.Option(help="The folder for speed.json, speed.png and speed.svg.")] = Path(
        "voxpop-bench"
    ),
    baseline: Annotated[
        Path | None, typer.Option(help="The ratios to compare with; those in this folder unless given.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep this run's ratios as a baseline in this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")] = False,
) -> None:
    """Measure how fast voxpop is, in ratios; exits with 1 if a target is missed or a ratio has fallen by a third."""

    results, before, parts = Results(), report.baseline(quick, baseline), pieces(quick)
    with one_thread(), progress(len(parts), "parts") as (bar, task):  # ratios then do not depend on the number of cores
        limits = machine_limits()
        for name, measure in parts.items():
            bar.update(task, description=name)
            results.add(measure())
            bar.advance(task)
    data = report.as_dict(results, limits, before)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "speed.json", json.dumps(data, indent=1))
    report.draw(results.curves, out)
    if keep is not None:
        report.keep(results, quick, keep)
    if as_json:
        typer.echo(json.dumps(data))
    else:
        console.print(report.machine(limits), highlight=False)
        console.print(report.table(results, before))
        for peer in results.absent:
            console.print(f"{peer}: not installed", highlight=False)
        console.print(f"written to {out}/", highlight=False)
    if any(report.verdict(figure, before) in ("missed", "worse") for figure in results.figures):
        raise typer.Exit(1)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(bench)

if __name__ == "__main__":
    main(app)

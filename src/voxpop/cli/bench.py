"""`voxpop bench`: how fast voxpop is here, in ratios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from voxpop.cli.display import console, errors, progress


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Use smaller sizes, which take about a minute.")] = False,
    out: Annotated[Path, typer.Option(help="The folder for speed.json, speed.png and speed.svg.")] = Path(
        "voxpop-bench"
    ),
    baseline: Annotated[
        Path | None, typer.Option(help="The ratios to compare with; those shipped with voxpop unless given.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep this run's ratios as a baseline in this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")] = False,
) -> None:
    """Measure how fast voxpop is, in ratios; exits with 1 if a target is missed or a ratio has fallen by a third."""
    from voxpop.io.files import write_atomically
    from voxpop.runtime.machine import one_thread
    from voxpop.simulation.bench import report
    from voxpop.simulation.bench.clock import machine_limits
    from voxpop.simulation.bench.figures import pieces
    from voxpop.simulation.bench.results import Results

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
    try:
        report.draw(results.curves, out)
    except ImportError:
        errors.print("no picture: it needs matplotlib; install it with: pip install 'voxpop[report]'")
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

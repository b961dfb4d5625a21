"""`voxpop bench`: how fast voxpop is here, in ratios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from voxpop.cli.display import console, errors


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes: about half a minute.")] = False,
    out: Annotated[Path, typer.Option(help="The folder for speed.json, speed.png and speed.svg.")] = Path(
        "voxpop-bench"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")] = False,
) -> None:
    """Measure how fast voxpop is, in ratios; exit 1 when a target is missed or a ratio has fallen by a third."""
    from voxpop.bench.clock import machine_limits
    from voxpop.bench.figures import Results, measure
    from voxpop.bench.report import as_dict, baseline, draw, table, verdict
    from voxpop.files import write_atomically
    from voxpop.threads import one_thread

    results, before = Results(), baseline(quick)
    with one_thread():  # ratios then do not depend on the number of cores
        limits = machine_limits()
        for name, part in measure(quick):
            errors.print(f"measured: {name}", style="dim", highlight=False)
            results.figures += part.figures
            results.curves += part.curves
            results.absent += part.absent
    data = as_dict(results, limits, before)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "speed.json", json.dumps(data, indent=1))
    try:
        draw(results.curves, out)
    except ImportError:
        errors.print("no picture: it needs matplotlib; install it with: pip install 'voxpop[report]'")
    if as_json:
        typer.echo(json.dumps(data))
    else:
        flops, bandwidth = limits["gigaflops"], limits["gigabytes_per_second"]
        console.print(
            f"one thread: {flops:.0f} gigaflops (matrix product), {bandwidth:.0f} GB/s (copy)", highlight=False
        )
        console.print(table(results, before))
        for peer in results.absent:
            console.print(f"{peer}: not installed", highlight=False)
        console.print(f"written to {out}/", highlight=False)
    if any(verdict(figure, before) in ("missed", "worse") for figure in results.figures):
        raise typer.Exit(1)

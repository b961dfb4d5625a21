"""`voxpop audit`: an attack on voxpop's own releases."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import Progress, TaskID
from rich.table import Table

from voxpop.cli.display import console, progress
from voxpop.cli.options import DeltaOption
from voxpop.errors import one_of, require_choice
from voxpop.privacy import RELEASES, Private, Secure
from voxpop.privacy.audit import audit as attack
from voxpop.privacy.audit import audit_shares
from voxpop.privacy.release import HELPER


def audit(
    model: Annotated[str, typer.Option("--privacy", help=f"{one_of([*RELEASES, 'all'])}.")] = "all",
    epsilon: Annotated[float, typer.Option(help="The eps of the promise.")] = 5.0,
    delta: DeltaOption = 1e-6,
    trials: Annotated[int, typer.Option(help="Releases attacked in each of the two neighbouring groups.")] = 4000,
) -> None:
    """Attack voxpop's own private releases, and say what was claimed and what was measured.

    Looks in many directions and attacks in the worst. Uses the noise that real people get, from the operating system.
    Exits with 1 if a release protects less than it claims.
    """
    require_choice("trust model", model, ("all", *RELEASES))
    findings = []
    for name in RELEASES if model == "all" else (model,):
        privacy = Private(name, epsilon, delta)
        shares = 2 if privacy.release_type.second == HELPER else 0
        with progress(2 * trials * (1 + shares), f"releases ({name})") as (bar, task):

            def watch(done: int, bar: Progress = bar, task: TaskID = task) -> None:
                bar.advance(task, done)

            findings += [attack(privacy, Secure(), trials, watch=watch)]
            findings += audit_shares(privacy, Secure(), trials, watch=watch)
    table = Table(box=None, header_style="bold", pad_edge=False)
    numeric = ("claimed mu", "measured mu", "mu is above", "claimed eps", "eps is above")
    for heading in ("model", *numeric, "verdict", "worst along"):
        table.add_column(heading, justify="right" if heading in numeric else "left", no_wrap=heading not in numeric)
    for found in findings:
        numbers = (found.claimed_mu, found.measured_mu, found.certain_mu, found.claimed_epsilon, found.certain_epsilon)
        verdict = "[bold red]VIOLATED[/bold red]" if found.violated else "holds"
        whole, _, holder = found.model.partition(", ")  # what one server holds stands below the line of its model
        table.add_row(
            f"- {holder}" if holder else whole, *(f"{number:.3f}" for number in numbers), verdict, found.direction
        )
    console.print(table)
    sample = findings[0]
    console.print(
        f"mu = sensitivity / noise; - is what one server holds of a person; bounds hold with {sample.confidence:.2%} "
        f"confidence, from {sample.trials:,} releases per model; eps at delta = {sample.delta:g}; worst along: the "
        "coordinates in which most was learned",
        highlight=False,
    )
    if any(found.violated for found in findings):
        raise typer.Exit(1)

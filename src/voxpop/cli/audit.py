"""`voxpop audit`: an attack on voxpop's own releases."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import typer
from rich.progress import Progress, TaskID
from rich.table import Table

from voxpop.cli.display import console, progress
from voxpop.cli.operators import LOCAL, KeyFile, Url
from voxpop.cli.options import DeltaOption
from voxpop.cli.study import Seen, look
from voxpop.errors import InputError, one_of, require_choice
from voxpop.privacy import RELEASES, Private, Secure
from voxpop.privacy.audit import audit as attack
from voxpop.privacy.audit import audit_shares
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.ledger import Entry, Ledger, exposure
from voxpop.privacy.release import HELPER

HOUSEHOLDS = (2, 3, 4)


def audit(
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]...", help="Studies of the same people, as files or of the service: add them up."
        ),
    ] = None,
    model: Annotated[str, typer.Option("--privacy", help=f"{one_of([*RELEASES, 'all'])}.")] = "all",
    epsilon: Annotated[float, typer.Option(help="The eps of the promise.")] = 5.0,
    delta: DeltaOption = 1e-6,
    trials: Annotated[int, typer.Option(help="Releases attacked in each of the two neighbouring groups.")] = 4000,
    budget: Annotated[float | None, typer.Option(help="With studies: the eps that a person may be exposed to.")] = None,
    url: Url = LOCAL,
    key_file: KeyFile = None,
) -> None:
    """Attack voxpop's own private releases, or add up what studies have released about the same people.

    Without a study: say what was claimed and what was measured.

    Looks in many directions and attacks in the worst. Uses the noise that real people get, from the operating system.
    Exits with 1 if a release protects less than it claims. With studies: say to which eps the most exposed person is
    exposed by all of them together, and a household of 2 to 4 people who are always asked together. Exits with 1 if a
    person is exposed to more than the budget.
    """
    if studies:
        _add_up([(name, look(name, url, key_file)) for name in studies], delta, budget)
        return
    if budget is not None:
        raise InputError(f"budget {budget:g} is for what studies add up to; name the studies")
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


def _add_up(studies: list[tuple[str, Seen]], delta: float, budget: float | None) -> None:
    """Show what a person, or a household, is exposed to by all these studies together."""
    ledgers, linked = [seen.course.ledger for _, seen in studies], all(seen.progress is None for _, seen in studies)
    for (name, _), ledger in zip(studies, ledgers, strict=True):
        console.print(
            f"{name}: {len(ledger.entries)} releases, epsilon {_eps(exposure([ledger], delta, linked=linked))}"
        )
    found = exposure(ledgers, delta, linked=linked)
    who = "whoever has the same name" if linked else "the most exposed people of each, who may be the same"
    console.print(f"together, counting {who} as one person: epsilon {_eps(found)} at delta {delta:g}", highlight=False)
    for size in HOUSEHOLDS:
        console.print(f"a household of {size}: epsilon {_eps(exposure(ledgers, delta, size, linked))}", highlight=False)
    for name, seen in studies:
        for group in seen.course.problem.pilot:
            if group.epsilon is None:
                console.print(f"{name}: the {group.people} people of its pilot were promised nothing", highlight=False)
                continue
            pilot = Entry("pilot", group.people, group.epsilon, group.delta or delta)
            pilot = replace(pilot, multiplier=noise_multiplier(pilot.epsilon, pilot.delta))
            both = exposure([*ledgers, Ledger(None, [pilot])], delta, linked=linked)
            said = f"{name}: who was in its pilot (epsilon {group.epsilon:g}) as well: epsilon {_eps(both)}"
            console.print(said, highlight=False)
    if budget is not None and found > budget * (1 + 1e-9):
        console.print(f"[bold red]BEYOND[/bold red] the budget of {budget:g}")
        raise typer.Exit(1)


def _eps(epsilon: float) -> str:
    return "unbounded" if math.isinf(epsilon) else f"{epsilon:.2f}"

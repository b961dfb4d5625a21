"""What the commands show on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from voxpop.drivers.phase import ClosedPhase
from voxpop.drivers.simulate import FinitePopulation
from voxpop.lab.rehearsals import Rehearsal
from voxpop.lab.runs import Run, simulate
from voxpop.lab.scenario import Scenario
from voxpop.lab.trials import Trial
from voxpop.policies import Policy
from voxpop.privacy import Privacy
from voxpop.report.phases import phase_table
from voxpop.report.summary import summarise

console = Console()
errors = Console(stderr=True)


@contextmanager
def progress(total: int, unit: str) -> Iterator[tuple[Progress, TaskID]]:
    """Show a progress bar on standard error, so that standard output stays clean."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    quiet = not errors.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=errors, transient=True, disable=quiet) as bar:
        yield bar, bar.add_task("", total=total)


def watched(trial: Trial | Rehearsal) -> Run:
    """Simulate a trial with a live display."""
    scenario = trial.scenario()
    return watched_run(scenario, trial.make_policy(scenario), trial.seed, trial.make_privacy())


def watched_run(scenario: Scenario, policy: Policy, seed: int, privacy: Privacy | None = None) -> Run:
    """Simulate with a live display of the phase, the rounds and what is left."""
    with progress(scenario.problem.horizon, "rounds") as (bar, task):

        def watch(phase: ClosedPhase) -> None:
            left = f"{phase.info.active_after} of {scenario.problem.size} actions left"
            bar.update(task, advance=phase.plan.length, description=f"phase {phase.plan.phase}: {left}")

        return simulate(scenario, policy, seed, privacy, watch)


def show_people(run: Run) -> None:
    """Say how many people there were, and whether that was enough, if they are only some."""
    scenario = run.scenario
    if isinstance(scenario.population, FinitePopulation):
        pilot = sum(group.people for group in scenario.problem.pilot) if scenario.calibration else 0
        others = f"; {pilot:,} others took part in the pilot" if pilot else ""
        again = "; more were asked, so that some were asked twice" if run.people_asked_again else ""
        said = f"{len(scenario.population):,} people could be asked, about {scenario.problem.size:,} decisions"
        console.print(f"{said}{others}{again}", highlight=False)


def show_phases(run: Run) -> None:
    """Print the run as a table of phases, or of waves."""
    made = phase_table(run.course)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in made.headings:
        table.add_column(name, justify="right")
    for row in made.rows:
        table.add_row(*row)
    console.print(table)
    for note in made.notes:
        console.print(note, highlight=False)


def show_summary(run: Run) -> None:
    """Print the closing summary."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for line in summarise(run.course, run.scenario.f):
        note = f"\n[dim]{escape(line.note)}[/dim]" if line.note else ""
        table.add_row(line.name, f"[bold]{escape(line.value)}[/bold]{note}")
    console.print(Panel(table, title=run.scenario.name, title_align="left", expand=False, padding=(1, 2)))

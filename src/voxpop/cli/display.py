"""What the commands show on the terminal."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
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

from voxpop.errors import Array
from voxpop.io.schema import asks_again
from voxpop.journal.journal import Course
from voxpop.journal.wave import ClosedWave
from voxpop.model.words import number
from voxpop.report.summary import summarise
from voxpop.report.tables import wave_table
from voxpop.simulation.rehearsals import Rehearsal
from voxpop.simulation.runs import Run, Scenario, simulate
from voxpop.simulation.simulator import FinitePopulation
from voxpop.simulation.trials import Trial

console = Console()
errors = Console(stderr=True)
UNLIMITED = 10_000  # columns


@contextmanager
def progress(total: int, unit: str) -> Iterator[tuple[Progress, TaskID]]:
    """Show a progress bar on standard error, so that standard output stays clean."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    quiet = not errors.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=errors, transient=True, disable=quiet) as bar:
        yield bar, bar.add_task("", total=total)


def say(*lines: str) -> None:
    """Print lines as they are, without markup and however long they are."""
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def show_run(trial: Trial | Rehearsal, scenario: Scenario) -> Run:
    """Simulate a trial with a live display of the wave, the rounds and what is left; then show what it found."""
    with progress(scenario.problem.horizon, "rounds") as (bar, task):

        def watch(wave: ClosedWave) -> None:
            left = f"{wave.info.active_after} of {scenario.problem.size} actions left"
            bar.update(task, advance=wave.plan.length, description=f"wave {wave.plan.wave}: {left}")

        run = simulate(scenario, trial.make_policy(scenario), trial.seed, trial.make_privacy(), watch)
    _show_people(run)
    show_waves(run.course)
    show_summary(run.course, run.truth)
    if run.moves is not None:
        say(
            f"in this moving world the run loses {number(run.metrics.regret)} in all, and the decision lost "
            f"{number(run.loss)} a round when asking stopped"
        )
    return run


def _show_people(run: Run) -> None:
    """Say how many people there were, and whether that was enough, if they are only some."""
    scenario = run.scenario
    if isinstance(scenario.population, FinitePopulation):
        pilot = sum(group.people for group in scenario.problem.pilot) if scenario.calibration else 0
        others = f"; {pilot:,} {'' if asks_again(run.policy) else 'others '}took part in the pilot" if pilot else ""
        again = "; more were asked, so that some were asked twice" if run.people_asked_again else ""
        if again and run.privacy.model != "none":
            again += ", and what they were promised does not hold"
        said = f"{len(scenario.population):,} people could be asked, about {scenario.problem.size:,} decisions"
        say(f"{said}{others}{again}")


def table_of(
    headings: Iterable[str], rows: Iterable[Sequence[str]], left: Collection[str] = (), title: str | None = None
) -> Table:
    """Make a plain table; its columns are aligned to the right, except for those on the left."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        first = heading in left
        table.add_column(heading, justify="left" if first else "right", no_wrap=first and title is not None)
    for row in rows:
        table.add_row(*row)
    return table


def print_table(table: Table) -> None:
    """Print a table; where no terminal limits it, as wide as its rows are."""
    free = not console.is_terminal and "COLUMNS" not in os.environ
    (Console(width=UNLIMITED) if free else console).print(table)


def show_waves(course: Course) -> None:
    """Print a study as a table of waves, or of waves."""
    made = wave_table(course)
    print_table(table_of(made.headings, made.rows))
    if made.notes:
        say(*made.notes)


def show_summary(course: Course, truth: Array | None = None) -> None:
    """Print what a study has found; `truth` is known of simulations only."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for line in summarise(course, truth):
        note = f"\n[dim]{escape(line.note)}[/dim]" if line.note else ""
        table.add_row(line.name, f"[bold]{escape(line.value)}[/bold]{note}")
    console.print(Panel(table, title=escape(course.name), title_align="left", expand=False, padding=(1, 2)))

"""`python -m reproduction`: the paper's figures and tables."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from reproduction import choose
from reproduction.exhibits import FULL, QUICK, Exhibit, Scale
from reproduction.journal import Journal
from reproduction.output import COLOURS, Part, cells_of, write_exhibit, write_report
from voxpop.cli import display, main
from voxpop.cli.display import console, print_table, table_of
from voxpop.cli.options import AddressOption, BackendOption, DataOption, JobsOption
from voxpop.errors import InputError, require_integer
from voxpop.simulation.comparison import RunSummary, perform
from voxpop.simulation.paper import load_light
from voxpop.simulation.sweep import Backend, sweep
from voxpop.simulation.trials import Trial

STYLES = {"good": "green", "bad": "red", "open": "yellow"}
HEADINGS = ("claim", "verdict", "evidence")
LINES = 20  # of progress, where there is no terminal to draw a bar on


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Figures or tables, such as ablation, peers/light or fig:tradeoff.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run fewer seeds and rounds, which takes minutes.")] = False,
    seeds: Annotated[int | None, typer.Option(help="The number of runs of each setting.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for pictures, tables and the report.")] = Path("voxpop-paper"),
    data: DataOption = None,
    listing: Annotated[bool, typer.Option("--list", help="List the figures and tables, and stop.")] = False,
    backend: BackendOption = "local",
    address: AddressOption = None,
    jobs: JobsOption = None,
) -> None:
    """Reproduce the paper: run its experiments, and put its numbers beside ours.

    Without names, everything is reproduced. A sweep that was interrupted continues where it stopped when the same
    command is given again. Exits with 1 if a run failed.
    """
    scale = _scale(quick, seeds, data)
    chosen = choose(names or [], scale)
    if listing:
        _list(chosen)
        return
    where = Backend(backend, address, jobs)
    trials = list(dict.fromkeys(trial for exhibit in chosen for trial in exhibit.trials))
    out.mkdir(parents=True, exist_ok=True)
    records, failures = _run(trials, Journal(out / "runs.jsonl"), where)
    summary = [f"{trial.as_dict()}: {error}" for trial, error in failures.items()]
    parts = _present(chosen, records, out, scale.note)
    if not parts:
        raise InputError(f"no figure could be made, because {len(failures)} of {len(trials)} runs failed: {summary[0]}")
    notices = [f"failed: {line}" for line in summary]
    page = out / f"{_stem(names or [])}.html"
    write_report(parts, scale, len(records), notices, page)
    _show(parts)
    console.print(f"report: {page}\npictures and tables: {out}", highlight=False, markup=False, soft_wrap=True)
    if failures:
        typer.echo(f"error: {len(failures)} of {len(trials)} runs failed, the first: {summary[0]}", err=True)
        raise typer.Exit(1)


def _stem(names: list[str]) -> str:
    """Name the page after the one thing it shows, or else as the report on all or a selection."""
    if len(names) == 1:
        return names[0].replace("/", "-").replace(":", "-")
    return "selection" if names else "report"


def _scale(quick: bool, seeds: int | None, data: Path | None) -> Scale:
    """Decide how much to run."""
    scale = QUICK if quick else FULL
    if seeds is not None:
        require_integer("seeds", seeds, least=1)
        scale = replace(scale, seeds=seeds, note=scale.note.replace(f"{QUICK.seeds} seeds", f"{seeds} seeds"))
    if data is not None:
        load_light(data)  # refuses damaged data now, before hours of work
        scale = replace(scale, data=str(data.resolve()))
    return scale


def _run(trials: list[Trial], journal: Journal, where: Backend) -> tuple[dict[Trial, RunSummary], dict[Trial, str]]:
    """Do every run that is not in the journal yet; each is kept as soon as it is finished."""
    if not trials:
        return {}, {}
    with journal.writing() as keep:
        records = journal.read(trials)
        failures: dict[Trial, str] = {}
        left = [trial for trial in trials if trial not in records]
        random.Random(0).shuffle(left)  # short and long runs mixed, so that the remaining time can be estimated
        with counted_progress(len(trials), "runs") as advance:
            advance(len(records))
            try:
                for done in sweep(perform, left, where) if left else ():
                    if done.result is None:
                        failures[done.item] = done.error
                    else:
                        keep(done.item, done.result)
                        records[done.item] = done.result
                    advance(1)
            except KeyboardInterrupt:
                typer.echo(
                    f"stopped: {len(records)} of {len(trials)} runs are kept in {journal.path}; "
                    "the same command continues from there",
                    err=True,
                )
                raise typer.Exit(130) from None
    return records, failures


def _present(chosen: list[Exhibit], records: dict[Trial, RunSummary], out: Path, note: str) -> list[Part]:
    parts = []
    with counted_progress(len(chosen), "figures") as advance:
        for exhibit in chosen:
            cells = cells_of(exhibit, records)
            if cells is not None:
                parts.append(write_exhibit(exhibit, cells, out, note))
            advance(1)
    return parts


@contextmanager
def counted_progress(total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show how much is done, as the function that is yielded counts it: a bar, or a line now and then."""
    quiet, done = not display.errors.is_terminal, 0

    def advance(count: int) -> None:
        nonlocal done
        before, done = done, done + count
        if quiet and done * LINES // total > before * LINES // total:
            say()
        bar.advance(task, count)

    def say() -> None:
        display.errors.print(f"{done:,} of {total:,} {unit}", highlight=False, soft_wrap=True)

    with display.progress(total, unit) as (bar, task):
        if quiet and total > 1:
            say()
        yield advance


def _show(parts: list[Part]) -> None:
    findings = [finding for part in parts for finding in part.shown.findings]
    styles = [STYLES[COLOURS[finding.verdict]] for finding in findings]
    rows = [(f.claim, f"[{style}]{f.verdict}[/]", f.evidence) for f, style in zip(findings, styles, strict=True)]
    print_table(table_of(HEADINGS, rows, left=HEADINGS))
    counts = Counter(finding.verdict for finding in findings)
    console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), highlight=False)


def _list(chosen: list[Exhibit]) -> None:
    """Print one line per exhibit even on a narrow terminal, so that the list can be searched."""
    typer.echo(f"{'name':22}{'runs':>5}  what it shows")
    for exhibit in chosen:
        labels = ", ".join(exhibit.labels) or "not in the paper"
        typer.echo(f"{exhibit.name:22}{len(exhibit.trials):>5}  {exhibit.title} ({labels})")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(reproduce)

if __name__ == "__main__":
    main(app)

"""`voxpop status`, `voxpop report` and `voxpop export`: what a study that is being conducted has found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from voxpop.cli.ask_tell import plain, show_question
from voxpop.cli.display import console, print_table, show_summary, show_waves
from voxpop.cli.opening import Seen, Which, look
from voxpop.cli.operators import LOCAL, KeyFile, Url, progress_lines
from voxpop.errors import InputError, require_choice
from voxpop.io import frames as exports
from voxpop.io.files import file_stem, write_atomically
from voxpop.journal.journal import Course
from voxpop.journal.tables import TABLES, Row, best_rows, headline, wave_rows
from voxpop.report.summary import number
from voxpop.report.tables import WRITERS, exported, summary

LEADING = 10  # decisions that a status shows


def status(
    study: Which,
    url: Url = LOCAL,
    key_file: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what a study has found: what to do, how sure that is, what was asked, and what is left.

    This changes nothing: neither does it begin a study, nor does it open a wave.
    """
    seen = look(study, url, key_file)
    course = seen.course
    if as_json:
        typer.echo(exports.as_json(_status(seen)).decode(), nl=False)
        return
    show_summary(course)
    if course.unanswered:
        console.print(f"note: {course.unanswered}", highlight=False, soft_wrap=True)
    if (ledger := headline(course)["ledger"]) is not None:
        console.print(f"ledger: {_charged(ledger)}", highlight=False, soft_wrap=True)
    if course.closed or course.problem.pilot:
        console.print()
        show_waves(course)
    _show_leading(course)
    console.print()
    _show_next(seen)


def report(
    study: Which,
    out: Annotated[Path, typer.Option(help="The folder for the report and its picture.")] = Path("voxpop-report"),
    url: Url = LOCAL,
    key_file: KeyFile = None,
) -> None:
    """Write a report on a study: a page with pictures that needs nothing else, to read and to send.

    A study may be reported on at any time, before its first wave and after its last.
    """
    from voxpop.report.page import write_report

    course = look(study, url, key_file).course
    page, picture = write_report(course, out, f"{file_stem(course.name)}-results")
    console.print(f"report: {page}\npicture: {picture}", highlight=False, markup=False, soft_wrap=True)


def export(
    study: Which,
    out: Annotated[
        Path | None, typer.Option(help="The file to write: .csv, .json or .parquet; printed as CSV if not given.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help=f"{', '.join(TABLES)}; decisions unless given. A JSON file has all of them.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    url: Url = LOCAL,
    key_file: KeyFile = None,
) -> None:
    """Write a study's tables to a file, for spreadsheets and other programs.

    They hold every decision with its estimate and bounds, every wave with what it asked, brought and cost, and the
    average answers. A study keeps nothing about single people, so there is nothing about them to write.
    """
    chosen = require_choice("table", "decisions" if table is None else table, TABLES)
    ending = ".csv" if out is None else _ending(out, table)
    seen = look(study, url, key_file)
    if out is None:
        typer.echo(exported(seen.course, ending, chosen).decode(), nl=False)
        return
    _check_target(out, seen, force)
    write_atomically(out, exported(seen.course, ending, chosen))
    console.print(f"written: {out}", highlight=False, markup=False, soft_wrap=True)


def _ending(out: Path, table: str | None) -> str:
    """Return the format that a file's name asks for."""
    ending = out.suffix.lower()
    if ending not in (*WRITERS, ".json"):
        raise InputError(f"--out must end in .csv, .json or .parquet, got {str(out)!r}")
    if ending == ".json" and table is not None:
        raise InputError(f"a JSON file holds every table; leave out --table {table}, or write a .csv file")
    return ending


def _check_target(out: Path, seen: Seen, force: bool) -> None:
    """Refuse to overwrite the study itself, and other files unless that is wished."""
    if out.resolve() in {file.resolve() for file in seen.files}:
        raise InputError(
            f"{out} is where the study is kept; choose another name, such as {out.stem}-export{out.suffix}"
        )
    if out.exists() and not force:
        raise InputError(f"{out} exists; choose another name, or replace it with --force")


def _status(seen: Seen) -> dict[str, Any]:
    course, question = seen.course, seen.question
    return {
        "summary": summary(course),
        "question": None if question is None else plain(question),
        "waves": wave_rows(course),
        "leading": best_rows(course, LEADING),
        **({} if seen.progress is None else {"progress": dict(seen.progress)}),
    }


def _charged(ledger: Row) -> str:
    """Say what a private study has released so far, and what that costs."""
    releases, people = ledger["releases"], ledger["people"]
    if not releases:
        return f"nothing was released; everyone may be exposed to epsilon {ledger['budget']:g}"
    spent = "without limit" if ledger["epsilon"] is None else f"to epsilon {ledger['epsilon']:.3g}"
    return (
        f"{releases:,} release{'s' * (releases > 1)} about {people:,} people; the most exposed are exposed {spent}, "
        f"of {ledger['budget']:g}, at delta {ledger['delta']:g}"
    )


def _show_leading(course: Course) -> None:
    """Print the best decisions that are left, with their estimates and bounds."""
    rows, left = best_rows(course, LEADING), len(course.state.active)
    first = f"the best {len(rows)} of {left:,} decisions" if left > len(rows) else "the decisions"
    console.print(f"\n[bold]{first} that could still be best[/bold]", highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in (shown := [column for column in rows[0] if column not in ("open", "best")]):
        table.add_column(escape(column), justify="right")
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in shown))
    print_table(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return "" if value is None else escape(str(value))


def _show_next(seen: Seen) -> None:
    """Print what is to be done: the open wave, or how to open one."""
    course = seen.course
    if seen.progress is not None:
        console.print(progress_lines(seen.progress, live=True), highlight=False, markup=False, soft_wrap=True)
    elif seen.question is not None:
        show_question(seen.question, seen.file)
    elif course.ended is None:
        how = f"voxpop ask {seen.file}" if seen.file else "Study.ask()"
        console.print(f"no wave is open; {how} opens wave {len(course.closed) + 1}", highlight=False, soft_wrap=True)

"""`voxpop ask`, `played`, `tell`, `undo`, `watch`, `status`, `report` and `export`: a study, wave by wave."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from voxpop import __version__
from voxpop.cli.display import console, errors, print_table, say, show_summary, show_waves, table_of
from voxpop.cli.operators import LOCAL, AsJson, KeyFile, Url, progress_lines, request
from voxpop.cli.options import COLUMNS, Names
from voxpop.errors import InputError, require_choice
from voxpop.io.columns import Roles
from voxpop.io.files import file_stem, write_atomically
from voxpop.io.frames import as_csv
from voxpop.io.frames import as_json as as_json_text
from voxpop.io.schema import encode
from voxpop.io.tables import read_answers
from voxpop.journal.file import MARK
from voxpop.journal.journal import Course
from voxpop.journal.question import Question
from voxpop.journal.schedule import NO_CALENDAR, dated_turns, read_rounds, scheduled
from voxpop.journal.tables import TABLES, best_rows, wave_rows
from voxpop.model.waves import changed
from voxpop.model.words import counted, describe, number
from voxpop.report.summary import expectation, summarise
from voxpop.report.tables import WRITERS, exported, summary
from voxpop.service.stores.schema import NAME
from voxpop.study.answers import dearer
from voxpop.study.study import Study

SAVED = ".json"  # the ending of a saved study

Which = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A study file (TOML), a study saved by a Python program (JSON), or the name of a study of the service.",
    ),
]


@dataclass(frozen=True, eq=False)
class Seen:
    """A study as it is now."""

    course: Course
    files: tuple[Path, ...] = ()  # in which it is kept
    file: Path | None = None  # the study file, with which it is conducted
    progress: Mapping[str, Any] | None = None  # how far the open wave is, in the words of a coordinator


def look(which: str, url: str = LOCAL, key_file: Path | None = None) -> Seen:
    """Read a study without changing anything."""
    path = Path(which)
    if not path.is_file() and NAME.fullmatch(which):
        return _look_at_service(which, url, key_file)
    if key_file is not None:
        raise InputError(f"{which} is a file, and --key-file is for a study of the service; give the study's name")
    if path.suffix == SAVED:
        return Seen(Study.load(path).course, _files(path))
    return Seen(_open(path, looking=True).course, _files(path), path)


def _files(path: Path) -> tuple[Path, ...]:
    """Return the files in which a study is kept."""
    return path, path.with_suffix(SAVED), path.with_suffix(MARK)


def _open(file: Path, newest: bool = False, begin: bool = False, looking: bool = False) -> Study:
    """Open the study of a study file; `begin` makes its own file, and `looking` at it changes nothing."""
    study = Study.from_file(file, newest, begin=begin, looking=looking)
    if study.horizon_change is not None:
        before, now = study.horizon_change
        whose, then = (f"{file} now has", "; the next ask takes that") if looking else ("the study now has", "")
        typer.echo(f"note: {whose} {now:,} rounds instead of {before:,}{then}", err=True)
    if study.decisions_change is not None:
        added, withdrawn = study.decisions_change
        typer.echo(
            f"note: {counted(added, 'decision')} came and {withdrawn:,} went; what is certified from now on rests on "
            "the waves that follow",
            err=True,
        )
    return study


def _look_at_service(name: str, url: str, key_file: Path | None) -> Seen:
    """Fetch a study's log, which holds plans and releases and no single answer, and see what follows from it."""
    if key_file is None and not os.environ.get("VOXPOP_KEY"):
        file = f"name {name}.toml" if Path(f"{name}.toml").is_file() else "check the path"
        raise InputError(
            f"there is no file {name!r}, and a study of the service needs an operator key; {file}, or give --key-file"
        )
    progress = request(url, key_file, "GET", f"/v2/studies/{name}")
    log = request(url, key_file, "GET", f"/v2/studies/{name}/log")
    from voxpop.service.study.log import Record, fold

    try:
        return Seen(fold([Record(**record) for record in log["events"]], name), progress=progress)
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError):
        raise InputError(
            f"voxpop {__version__} cannot read the log of {name!r}; use the version that the coordinator at {url} has"
        ) from None


StudyPath = Annotated[Path, typer.Argument(help="The study file (TOML).")]
Newest = Annotated[
    bool,
    typer.Option(
        "--newest", help="The study's file is surely its newest copy, although the mark beside it says otherwise."
    ),
]


def ask(
    study: StudyPath,
    newest: Newest = False,
    template: Annotated[Path | None, typer.Option(help="Write a table for the answers to this CSV file.")] = None,
    wide: Annotated[bool, typer.Option("--wide", help="The table has a row a person and a column a decision.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the question as one JSON object.")] = False,
    schedule: Annotated[
        Path | None, typer.Option(help="Write the rounds of the wave to a .csv file, or its dates to an .ics file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the schedule if it exists.")] = False,
) -> None:
    """Say what to play now, how many people to ask, and what that is expected to bring and to cost.

    Asking again gives the same question.

    The study remembers its waves in a file beside the study file, with the ending .json.
    """
    if template is not None:
        _check_target(template, _files(study))
    elif wide:
        raise InputError("--wide is about the table for the answers; add --template FILE.csv, or leave it out")
    if schedule is not None and schedule.suffix not in (".csv", ".ics"):
        raise InputError(f"--schedule must end in .csv or .ics, got {str(schedule)!r}")
    if schedule is not None and schedule.exists() and not force:
        raise InputError(f"{schedule} exists; choose another name, or replace it with --force")
    opened = _open(study, newest, begin=True)
    if schedule is not None and schedule.suffix == ".ics" and opened.calendar is None:
        raise InputError(f"{study}: {NO_CALENDAR}")
    new = opened.course.pending is None
    question = opened.ask()
    if new and question is not None and question.calendar is not None:
        begun = min(question.calendar.begun(datetime.now(UTC)) - question.first + 1, len(question.schedule()))
        if begun > 0:
            typer.echo(
                f"note: by the calendar {counted(begun, 'round')} of wave {question.wave} began before it was asked; "
                "move the start or close those days in the study file, or say with voxpop played what was in force",
                err=True,
            )
    if question is not None and template is not None:
        empty = dict.fromkeys(question.labels if wide else [question.measure, *question.metrics])
        rows = [{**row, **empty} for row in question.rows(wide)]
        write_atomically(template, as_csv(list(rows[0]), rows))
    if schedule is not None:
        write_atomically(schedule, scheduled(opened.course, schedule.suffix, datetime.now(UTC)))
    if as_json:
        ended = {"wave": None, "ended": opened.ended, "best": vars(opened.best)}
        typer.echo(json.dumps(ended if question is None else encode(question)))
    elif question is None:
        _show_best(opened)
    else:
        show_question(question, study, opened.course)


def played(
    study: StudyPath,
    rounds: Annotated[
        Path,
        typer.Argument(help="CSV with the columns round and one per parameter, as voxpop ask --schedule writes it."),
    ],
) -> None:
    """Say what was really in force in each round of the open wave, and see whom to ask about what now.

    Write the schedule with voxpop ask --schedule, and correct the rounds that were played otherwise: write the decision
    that was in force, or leave it empty if none of the study's was. Do so before people are asked; saying it again
    replaces what was said before.
    """
    opened = _open(study)
    show_question(opened.played(read_rounds(opened.course, rounds)), study, opened.course)


def tell(
    study: StudyPath,
    answers: Annotated[
        Path,
        typer.Argument(
            help="CSV or Parquet with the columns person, reward, one per parameter, and block if there are blocks; or "
            "with a row a person and a column a decision."
        ),
    ],
    person: Annotated[str | None, typer.Option(metavar="NAME", help=COLUMNS["person"])] = None,
    reward: Annotated[str | None, typer.Option(metavar="NAME", help=COLUMNS["reward"])] = None,
    ignore: Annotated[Names, typer.Option(metavar="NAME", help="This column of a wide table is no decision.")] = None,
    wave: Annotated[int | None, typer.Option(help="The wave the answers belong to; the open one if not given.")] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Close the wave although fewer people answered than were asked, or some only in part."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is best as one JSON object.")] = False,
) -> None:
    """Hand in the answers of the wave that was asked, and see what is best so far.

    This closes the wave; until the next question is asked, voxpop undo takes it back.
    """
    opened = _open(study)
    decisions, measure = opened.problem.decisions, opened.direction.measure
    metrics = [guardrail.name for guardrail in opened.problem.guardrails]
    blocks = opened.course.pending is not None and opened.course.pending.in_blocks
    roles = Roles(ignored=tuple(ignore or ()), person=person, reward=reward or opened.reward, perhaps=reward is None)
    told = read_answers(
        *(answers, decisions, opened.private, opened.strata is not None, measure, blocks, roles, metrics), partial
    )
    opened.tell(len(opened.log) + 1 if wave is None else wave, told, partial)
    if as_json:
        typer.echo(json.dumps({**vars(opened.best), "ended": opened.ended, "warning": opened.warning}))
    else:
        _show_best(opened)


def undo(study: StudyPath) -> None:
    """Take back the answers that were told last, until the next question is asked.

    In a private study their release stays charged: it has been seen, and its people cannot be asked again.
    """
    opened = _open(study)
    waves = opened.closed
    opened.take_back()
    cost = dearer(changed(opened.state, spent=waves[-1].spent), opened.state)
    said = f"wave {len(opened.log) + 1} is open again" + (
        f"; what it certified was seen, so that {cost}" if cost else ""
    )
    if opened.private:
        people = opened.ledger.entries[-1].people
        said += f"; its release stays charged, so that its {people:,} people have taken part: ask others"
    say(said)


ALERT = 3  # the exit code


def watch(
    study: StudyPath,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds that have passed; with a calendar, it says how many.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is known as one JSON object.")] = False,
) -> None:
    """Go on with a study that is over: say how long its decision stands, and when to ask again.

    What was certified ages by the study's drift. If another decision is the best now, the exit code is 3.
    """
    if not study.with_suffix(SAVED).exists():
        raise InputError(f"the study of {study} has not begun; ask first")
    opened = _open(study)
    found = opened.watch(rounds)
    if as_json:
        typer.echo(json.dumps(encode(found)))
    else:
        say(str(found), *([f"voxpop ask {study} says whom to ask"] if found.wave else []))
    if found.alert:
        typer.echo(f"alert: {found.alert}", err=True)
        raise typer.Exit(ALERT)


def show_question(question: Question, study: Path | None, course: Course | None = None) -> None:
    """Print what to play, whom to ask, what that is expected to bring, and how to hand in the answers."""
    headings, rows = question.plays
    forecast, money = question.forecast, None
    if course is not None and course.pending is not None:
        forecast, money = course.forecast(course.pending), course.money
    expected = "" if forecast is None or question.over else f": {expectation(forecast, money)}"
    console.print(f"[bold]wave {question.wave}[/bold]{expected}", highlight=False, soft_wrap=True)
    console.print(table_of(headings, [list(map(escape, row)) for row in rows], left=(headings[0], *headings[2:])))
    if question.washed_out:
        say(question.washed_out)
    if not question.over:
        show_schedule(question)
    drawn = ", ".join(f"{people:,} of {stratum}" for stratum, people in question.strata.items())
    at_random = "" if question.same else f", drawn at random{f' ({drawn})' if drawn else ''}"
    ask = f"then ask {question.whom}{at_random}, for their average {question.measure} of each"
    ask += f", over the rounds of {'each' if question.same else 'their'} block" if question.in_blocks else ""
    if study is not None:
        ask += (
            f"; put the answers into a CSV file with the columns {', '.join(next(question.rows()))} and hand it to: "
            f"voxpop tell {study} ANSWERS.csv"
        )
    console.print(ask, highlight=False, markup=False)
    if study is not None and question.order and not question.over:
        files = "--schedule FILE.csv writes what to play in each round, and --template FILE.csv a table for the answers"
        console.print(f"voxpop ask {study} {files}", highlight=False, markup=False)
    passing = f"; the study counts {question.rest:,} rounds for that" if question.rest else ""
    console.print(
        f"until the answers are in, use {describe(question.meanwhile)}{passing}", highlight=False, markup=False
    )


def show_schedule(question: Question) -> None:
    """Print the dates of the first turns, if there are any, and how many follow."""
    if (calendar := question.calendar) is None:
        return
    made, rounds = dated_turns(question), (question.first, question.length)
    shown = [(*dates, escape(decision)) for *dates, decision in made[:LEADING]]
    console.print(table_of(("round", "from", "until", "play"), shown, left=("round", "play")))
    more = [f"and {len(made) - LEADING:,} more; --schedule plan.csv writes all"] if len(made) > LEADING else []
    takes = f"wave {question.wave} takes {calendar.lasting(*rounds)}, until {calendar.until(*rounds)}"
    say(*more, takes, *calendar.changes(*rounds))


def _show_best(opened: Study) -> None:
    """Print what to do now, what to expect and to lose, what is certified, and why asking stopped, if it did."""
    best, over, course = opened.best, opened.ended is not None, opened.course
    said = {line.name: escape(f"{line.value} ({line.note})" if line.note else line.value) for line in summarise(course)}
    facts = {
        "use" if course.unanswered else "best" if over else "best so far": escape(describe(best.decision)),
        "note": course.unanswered,
        "alert": escape(course.alert),
        **{name.lower(): said.get(name, "") for name in ("Expect", "Expected loss", "Certified")},
        "guardrails": escape("; ".join(best.guardrails)),
        "take note": said.get("Take note", ""),
        "model check": escape(opened.warning),
        "nothing is left to ask": said.get("Stopped because", ""),
    }
    for name, fact in facts.items():
        if fact:
            console.print(f"{name}: {fact}", highlight=False, soft_wrap=True)


LEADING = 10  # decisions that a status shows


def status(
    study: Which,
    url: Url = LOCAL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what a study has found: what to do, how sure that is, what was asked, and what is left.

    This changes nothing: neither does it begin a study, nor does it open a wave.
    """
    seen = look(study, url, key_file)
    course = seen.course
    if as_json:
        typer.echo(as_json_text(_status(seen)).decode(), nl=False)
        return
    show_summary(course)
    if course.unanswered:
        say(f"note: {course.unanswered}")
    if course.ledger.budget is not None:
        say(f"ledger: {course.ledger}")
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
    with errors.status("drawing the pictures"):
        page, picture = write_report(course, out, f"{file_stem(course.name)}-results")
    say(f"report: {page}", f"picture: {picture}")


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
    _check_target(out, seen.files, force, "choose another name, or replace it with --force")
    write_atomically(out, exported(seen.course, ending, chosen))
    say(f"written: {out}")


def _ending(out: Path, table: str | None) -> str:
    """Return the format that a file's name asks for."""
    ending = out.suffix.lower()
    if ending not in (*WRITERS, ".json"):
        raise InputError(f"--out must end in .csv, .json or .parquet, got {str(out)!r}")
    if ending == ".json" and table is not None:
        raise InputError(f"a JSON file holds every table; leave out --table {table}, or write a .csv file")
    return ending


def _check_target(out: Path, files: tuple[Path, ...], force: bool = False, remedy: str = "choose another name") -> None:
    """Refuse to overwrite the study itself, and other files unless that is wished."""
    if out.resolve() in {file.resolve() for file in files}:
        raise InputError(
            f"{out} is where the study is kept; choose another name, such as {out.stem}-export{out.suffix}"
        )
    if out.exists() and not force:
        raise InputError(f"{out} exists; {remedy}")


def _status(seen: Seen) -> dict[str, Any]:
    course = seen.course
    return {
        "summary": summary(course),
        "question": encode(course.question),
        "waves": wave_rows(course),
        "leading": best_rows(course, LEADING),
        **({} if seen.progress is None else {"progress": dict(seen.progress)}),
    }


def _show_leading(course: Course) -> None:
    """Print the best decisions that are left, with their estimates and bounds."""
    rows, left = best_rows(course, LEADING), len(course.state.active)
    first = f"the best {len(rows)} of {left:,} decisions" if left > len(rows) else "the decisions"
    console.print(f"\n[bold]{first} that could still be best[/bold]", highlight=False)
    shown = [column for column in rows[0] if column not in ("open", "best")]
    print_table(table_of(map(escape, shown), [[_cell(row[column]) for column in shown] for row in rows]))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return "" if value is None else escape(str(value))


def _show_next(seen: Seen) -> None:
    """Print what is to be done: the open wave, or how to open one."""
    course = seen.course
    if seen.progress is not None:
        say(progress_lines(seen.progress, live=True))
    elif course.question is not None:
        show_question(course.question, seen.file)
    elif course.ended is None:
        how = f"voxpop ask {seen.file}" if seen.file else "Study.ask()"
        say(f"no wave is open; {how} opens wave {len(course.closed) + 1}")

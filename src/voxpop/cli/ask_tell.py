"""`voxpop ask`, `voxpop tell` and `voxpop undo`: a study with real people, one wave after the other."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from voxpop.cli.display import console
from voxpop.cli.opening import conduct
from voxpop.io.tables import read_answers
from voxpop.journal.question import Question
from voxpop.report.summary import certified, confidence, describe, expectation, number
from voxpop.study.study import Study

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
    as_json: Annotated[bool, typer.Option("--json", help="Print the question as one JSON object.")] = False,
) -> None:
    """Say what to play now, how many people to ask, and what that is expected to bring and to cost.

    Asking again gives the same question.

    The study remembers its waves in a file beside the study file, with the ending .json.
    """
    opened = conduct(study, newest, begin=True)
    question = opened.ask()
    if as_json:
        typer.echo(json.dumps(None if question is None else plain(question)))
    elif question is None:
        _show_best(opened)
    else:
        show_question(question, study)


def tell(
    study: StudyPath,
    answers: Annotated[Path, typer.Argument(help="CSV with the columns person, reward and one per parameter.")],
    wave: Annotated[int | None, typer.Option(help="The wave the answers belong to; the open one if not given.")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Close the wave although fewer people answered than were asked.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is best as one JSON object.")] = False,
) -> None:
    """Hand in the answers of the wave that was asked, and see what is best so far.

    This closes the wave; until the next question is asked, voxpop undo takes it back.
    """
    opened = conduct(study)
    decisions, measure = opened.problem.decisions, opened.direction.measure
    told = read_answers(answers, decisions, opened.private, opened.strata is not None, measure)
    opened.tell(len(opened.log) + 1 if wave is None else wave, told, partial)
    if as_json:
        typer.echo(json.dumps({**vars(opened.best), "ended": opened.ended, "warning": opened.warning}))
    else:
        _show_best(opened)


def undo(study: StudyPath) -> None:
    """Take back the answers that were told last, until the next question is asked.

    In a private study their release stays charged: it has been seen, and its people cannot be asked again.
    """
    opened = conduct(study)
    opened.take_back()
    said = f"wave {len(opened.log) + 1} is open again"
    if opened.private:
        people = opened.ledger.entries[-1].people
        said += f"; its release stays charged, so that its {people:,} people have taken part: ask others"
    console.print(said, highlight=False, soft_wrap=True)


def plain(question: Question) -> dict[str, Any]:
    """Return a question as plain data."""
    forecast = question.forecast
    return {**vars(question), "forecast": None if forecast is None else asdict(forecast)}


def show_question(question: Question, study: Path | None) -> None:
    """Print what to play, whom to ask, what that is expected to bring, and how to hand in the answers."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("play")
    table.add_column("rounds", justify="right")
    for decision, rounds in zip(question.decisions, question.rounds, strict=True):
        table.add_row(escape(describe(decision)), f"{rounds:,}")
    name = f"[bold]wave {question.wave}[/bold]"
    if question.forecast is not None:
        name = f"[bold]wave {question.wave}[/bold]: {expectation(question.forecast)}"
    console.print(name, highlight=False, soft_wrap=True)
    console.print(table)
    drawn = ", ".join(f"{people:,} of {stratum}" for stratum, people in question.strata.items())
    columns = ["person", *(["stratum"] if drawn else []), *question.decisions[0], question.measure]
    ask = f"then ask {question.people:,} people, drawn at random{f' ({drawn})' if drawn else ''}, for their average "
    ask += f"{question.measure} of each"
    if study is not None:
        ask += (
            f"; put the answers into a CSV file with the columns {', '.join(columns)} and hand it to: "
            f"voxpop tell {study} ANSWERS.csv"
        )
    console.print(ask, highlight=False, markup=False)
    passing = f"; the study counts {question.rest:,} rounds for that" if question.rest else ""
    console.print(
        f"until the answers are in, use {describe(question.meanwhile)}{passing}", highlight=False, markup=False
    )


def _show_best(opened: Study) -> None:
    """Print what to do now, the two figures that say how sure that is, and why asking stopped, if it did."""
    best, over, unanswered = opened.best, opened.ended is not None, opened.course.unanswered
    sure = confidence(opened.policy, opened.problem, len(opened.log))
    decision = f"[bold]{escape(describe(best.decision))}[/bold]"
    if opened.log or opened.problem.pilot:
        decision += f", with a {opened.reward} of {number(best.low)} to {number(best.high)}"
    facts = {
        "use" if unanswered else "best" if over else "best so far": decision,
        "note": unanswered,
        "certified": f"{certified(best.regret, best.certain)} ({sure})",
        "expected loss": "" if best.expected_loss is None else f"{number(best.expected_loss)} per round",
        "model check": escape(opened.warning),
        "nothing is left to ask": opened.ended or "",
    }
    for name, fact in facts.items():
        if fact:
            console.print(f"{name}: {fact}", highlight=False, soft_wrap=True)

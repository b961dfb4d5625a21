"""`voxpop ask`, `voxpop tell` and `voxpop undo`: a study with real people, one wave after the other."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from voxpop.cli.display import console
from voxpop.core.errors import InputError, said_of
from voxpop.drivers.question import Question
from voxpop.drivers.study import Study
from voxpop.formats.record import ENDING
from voxpop.formats.studyfile import privacy_of, read_study, strata_of
from voxpop.formats.tables import read_answers
from voxpop.report.summary import certified, confidence, describe, expectation, number

StudyPath = Annotated[Path, typer.Argument(help="The study file (TOML).")]
Newest = Annotated[
    bool, typer.Option("--newest", help="The record of releases is lost, and the study's file is its newest copy.")
]


def ask(
    study: StudyPath,
    newest: Newest = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the question as one JSON object.")] = False,
) -> None:
    """Say what to play now, how many people to ask, and what that is expected to bring and to cost.

    Asking again gives the same question.

    The study remembers its phases in a file beside the study file, with the ending .json.
    """
    opened = _open(study, newest)
    question = opened.ask()
    if as_json:
        typer.echo(json.dumps(None if question is None else _plain(question)))
        return
    if question is None:
        _show_best(opened)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("play")
    table.add_column("rounds", justify="right")
    for decision, rounds in zip(question.decisions, question.rounds, strict=True):
        table.add_row(describe(decision), f"{rounds:,}")
    name = f"[bold]phase {question.phase}[/bold]"
    if question.forecast is not None:
        name = f"[bold]wave {question.phase}[/bold]: {expectation(question.forecast)}"
    console.print(name, highlight=False, soft_wrap=True)
    console.print(table)
    drawn = ", ".join(f"{people:,} of {stratum}" for stratum, people in question.strata.items())
    columns = ["person", *(["stratum"] if drawn else []), *question.decisions[0], "reward"]
    console.print(
        f"then ask {question.people:,} people, drawn at random{f' ({drawn})' if drawn else ''}, for their average "
        f"reward of each; put the answers into a CSV file with the columns {', '.join(columns)} and hand it to: "
        f"voxpop tell {study} ANSWERS.csv",
        highlight=False,
        markup=False,
    )
    passing = f"; the study counts {question.rest:,} rounds for that" if question.rest else ""
    console.print(f"until the answers are in, use {describe(question.meanwhile)}{passing}", highlight=False)


def tell(
    study: StudyPath,
    answers: Annotated[Path, typer.Argument(help="CSV with the columns person, reward and one per parameter.")],
    phase: Annotated[
        int | None, typer.Option(help="The phase the answers belong to; the open one if not given.")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Close the wave although fewer people answered than were asked.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is best as one JSON object.")] = False,
) -> None:
    """Hand in the answers of the wave that was asked, and see what is best so far.

    This closes the wave; until the next question is asked, voxpop undo takes it back.
    """
    opened = _open(study)
    told = read_answers(answers, opened.problem.decisions, opened.private, opened.strata is not None)
    opened.tell(len(opened.log) + 1 if phase is None else phase, told, partial)
    if as_json:
        typer.echo(json.dumps({**vars(opened.best), "ended": opened.ended, "warning": opened.warning}))
    else:
        _show_best(opened)


def undo(study: StudyPath) -> None:
    """Take back the answers that were told last, until the next question is asked.

    In a private study their release stays charged: it has been seen, and its people cannot be asked again.
    """
    opened = _open(study)
    opened.take_back()
    said = f"phase {len(opened.log) + 1} is open again"
    if opened.private:
        people = opened.ledger.entries[-1].people
        said += f"; its release stays charged, so that its {people:,} people have taken part: ask others"
    console.print(said, highlight=False, soft_wrap=True)


def _open(study: Path, newest: bool = False) -> Study:
    memory = study.with_suffix(".json")
    problem, policy, data = read_study(study)
    privacy, strata = privacy_of(study, data), strata_of(study, data)
    if not memory.exists():
        return Study(problem, policy, path=memory, privacy=privacy, strata=strata)
    opened = Study.load(memory, newest)
    begun = opened.problem
    beta = problem.beta if "beta" in data["model"] else begun.beta  # unless given, it is that of the first horizon
    if not opened.is_of(replace(problem, horizon=begun.horizon, beta=beta), policy, privacy, strata):
        raise InputError(
            f"{study} was changed after its study began, and only its horizon may be; undo the other changes, or move "
            f"{memory} away to begin a new study"
        )
    if problem.horizon != begun.horizon:
        with said_of(study):
            opened.change_horizon(problem.horizon)
        typer.echo(f"note: the study now has {problem.horizon:,} rounds instead of {begun.horizon:,}", err=True)
    if opened.recovered:
        phases, record = ", ".join(map(str, opened.recovered)), memory.with_suffix(ENDING)
        typer.echo(f"note: {memory} is older than {record}, from which phase {phases} is taken", err=True)
    return opened


def _plain(question: Question) -> dict[str, Any]:
    forecast = question.forecast
    return {**vars(question), "forecast": None if forecast is None else asdict(forecast)}


def _show_best(opened: Study) -> None:
    """Print what to do now, the two figures that say how sure that is, and why asking stopped, if it did."""
    best, over = opened.best, opened.ended is not None
    sure = confidence(opened.policy, opened.problem, len(opened.log))
    facts = {
        "best" if over else "best so far": f"[bold]{escape(describe(best.decision))}[/bold], "
        f"with a reward of {number(best.low)} to {number(best.high)}",
        "certified": f"{certified(best.regret, best.certain)} ({sure})",
        "expected loss": "" if best.expected_loss is None else f"{number(best.expected_loss)} per round",
        "model check": escape(opened.warning),
        "nothing is left to ask": opened.ended or "",
    }
    for name, fact in facts.items():
        if fact:
            console.print(f"{name}: {fact}", highlight=False, soft_wrap=True)

"""`voxpop ask` and `voxpop tell`: a study with real people, one phase after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from voxpop.cli.display import console
from voxpop.core.errors import InputError
from voxpop.drivers.study import Study
from voxpop.formats.studyfile import privacy_of, read_study
from voxpop.formats.tables import read_answers
from voxpop.report.summary import describe, number

StudyPath = Annotated[Path, typer.Argument(help="The study file (TOML).")]


def ask(
    study: StudyPath,
    as_json: Annotated[bool, typer.Option("--json", help="Print the question as one JSON object.")] = False,
) -> None:
    """Say what to play now and how many people to ask; asking again gives the same question.

    The study remembers its phases in a file beside the study file, with the ending .json.
    """
    opened = _open(study)
    question = opened.ask()
    if as_json:
        typer.echo(json.dumps(None if question is None else vars(question)))
        return
    if question is None:
        console.print("nothing is left to ask")
        _show_best(opened)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("play")
    table.add_column("rounds", justify="right")
    for decision, rounds in zip(question.decisions, question.rounds, strict=True):
        table.add_row(describe(decision), f"{rounds:,}")
    console.print(f"[bold]phase {question.phase}[/bold]")
    console.print(table)
    console.print(
        f"then ask {question.people:,} people, drawn at random, for their average reward of each; put the "
        f"answers into a CSV file with the columns person, {', '.join(question.decisions[0])}, reward and hand it to: "
        f"voxpop tell {study} ANSWERS.csv",
        highlight=False,
    )


def tell(
    study: StudyPath,
    answers: Annotated[Path, typer.Argument(help="CSV with the columns person, reward and one per parameter.")],
    phase: Annotated[
        int | None, typer.Option(help="The phase the answers belong to; the open one if not given.")
    ] = None,
) -> None:
    """Hand in the answers of the phase that was asked, and see what is best so far."""
    opened = _open(study)
    question = opened.ask()
    open_phase = question.phase if question else len(opened.log)
    opened.tell(open_phase if phase is None else phase, read_answers(answers))
    _show_best(opened)


def _open(study: Path) -> Study:
    memory = study.with_suffix(".json")
    problem, policy, data = read_study(study)
    privacy = privacy_of(study, data)
    if not memory.exists():
        return Study(problem, policy, path=memory, privacy=privacy)
    opened = Study.load(memory)
    if not opened.is_of(problem, policy, privacy):
        raise InputError(
            f"{study} was changed after its study began; undo the change, or move {memory} away to begin a new study"
        )
    return opened


def _show_best(opened: Study) -> None:
    best = opened.best
    console.print(
        f"best so far: [bold]{describe(best.decision)}[/bold], "
        f"with a reward of {number(best.low)} to {number(best.high)}; "
        + ("nothing else can be best" if best.certain else f"nothing is better by more than {number(best.regret)}"),
        highlight=False,
    )

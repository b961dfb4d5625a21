"""`voxpop plan`: what a study takes to certify more or less, before it starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from voxpop.cli.display import print_table, progress, say, table_of
from voxpop.cli.options import DeltaOption, EpsilonOption, JobsOption, Stops
from voxpop.io.files import file_stem, write_atomically
from voxpop.io.schema import Definition
from voxpop.io.studyfile import read_study_file
from voxpop.model.words import certified, counted, number
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Private, make_privacy
from voxpop.report.drawing import png
from voxpop.simulation.aims import Aim, aims_of, best_of, picture
from voxpop.simulation.sweep import Backend


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Stops):
    """The options of `voxpop plan`."""

    study: Annotated[Path, typer.Argument(help="The study file (TOML).")]
    horizon: Annotated[int | None, typer.Option(help="Another number of rounds than the file's.")] = None
    epsilon: EpsilonOption = None
    delta: DeltaOption = Private.delta
    runs: Annotated[int, typer.Option(help="Rehearsals of each aim.")] = 16
    seed: Annotated[int, typer.Option(help="The seed of the first rehearsal.")] = 0
    jobs: JobsOption = None
    out: Annotated[Path, typer.Option(help="The folder for the picture.")] = Path("voxpop-plan")

    def definition(self) -> Definition:
        """Return the study of the file, with what was said otherwise."""
        given, gives_beta = read_study_file(self.study)
        problem, privacy = given.problem, given.privacy
        if self.horizon is not None:
            usual: dict[str, Any] = {} if gives_beta else {"beta": None}
            problem = replace(problem, horizon=self.horizon, **usual)
        if self.epsilon is not None:
            model = "central" if privacy.model == NoPrivacy.model else privacy.model
            privacy = make_privacy(model, self.epsilon, self.delta)
        settings: dict[str, Any] = {**given.policy.settings(), **self.settings()}
        return replace(given, problem=problem, privacy=privacy, policy=make_policy(**settings))


def plan(chosen: PlanOptions) -> None:
    """Say before a study starts what it takes to certify more or less, and what pays, from rehearsals.

    Each row is an aim: to ask while asking pays, or until nothing can be better by more than a tolerance. Nothing is
    begun and no file but the picture is written; --horizon, --tolerance, --epsilon and others say what if.
    """
    definition = chosen.definition()
    with progress(0, "rehearsals") as (bar, task):

        def watch(total: int) -> None:
            bar.update(task, advance=1, total=total)

        aims = aims_of(definition, chosen.runs, chosen.seed, Backend(jobs=chosen.jobs), watch)
    _show(aims)
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / f"{file_stem(definition.name)}.png"
    write_atomically(path, png(picture(aims)))
    say(f"picture: {path}")


def _show(aims: list[Aim]) -> None:
    """Print a row for each aim, and which of them pays."""
    definition, best, runs = aims[0].definition, best_of(aims), len(aims[0].outcomes)
    calendar, unit, rows = definition.calendar, definition.unit, []
    for aim in aims:
        takes = f"{aim.typical('rounds'):,.0f}"
        if calendar is not None and (rounds := round(aim.typical("rounds"))):
            takes += f" ({calendar.lasting(1, rounds)})"
        counts = [f"{aim.typical(name):,.0f}" for name in ("people", "numbers", "waves")]
        said = aim.typical("certified")
        name = "while it pays" if aim.tolerance is None else f"until {number(aim.tolerance)}"
        stated = number(said) if said < float("inf") else "nothing"
        pays = "pays" if aim is best else ""
        loses = f"{number(aim.total)} ± {number(aim.error)}"
        rows.append([name, *counts, takes, stated, f"{aim.reached} of {runs}", loses, pays])
    rows.append(["ask nobody", "0", "0", "0", "0", "nothing", "", number(aims[0].not_asking), "pays" * (best is None)])
    headings = ("aim", "people", "numbers", "waves", "rounds", "certified", "reached", f"loses in all ({unit})", "")
    print_table(table_of(map(escape, headings), rows, left=("aim", "")))
    horizon = definition.problem.horizon
    say(
        f"medians of {counted(runs, 'rehearsal')} with truths drawn from what the pilot says; certified: no other "
        "decision is better by more than this; loses in all, against knowing the best from the start: means over "
        f"{counted(horizon, 'round')}, with the price of answers and standard errors"
    )
    if best is None:
        say("no aim loses less than asking nobody")
    elif best.tolerance is None:
        say("asking while it pays loses least")
    else:
        say(f"to go on until {certified(best.tolerance, certain=False)} loses least: --tolerance {best.tolerance:g}")

"""Who answers in a simulation: options for a study file and for one's own people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from voxpop.cli.stopping import WHO, Limits
from voxpop.core.errors import InputError, require_choice
from voxpop.lab.own_people import OwnPeople
from voxpop.lab.piloted import PEOPLE
from voxpop.lab.scenarios import SCENARIOS


def _option(text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=text, rich_help_panel=WHO)
    return option


PopulationOption = Annotated[
    str | None, _option("The file: one row for each person and decision; or, with --formula, one for each person.")
]
FormulaOption = Annotated[
    str | None, _option("What a person gains, from columns and parameters: '(price - 1.5) * (wtp >= price)'.")
]
GridOption = Annotated[
    list[str] | None, _option("The values of each parameter of the formula: price=2:12:101, or plan=basic,plus.")
]
NoiseOption = Annotated[
    float | None, _option("How much one round of one person varies, in units of reward; 0 unless given.")
]
PilotPeopleOption = Annotated[
    int | None, _option(f"The people who take part in the pilot; {PEOPLE}, or half of them if they are few.")
]
ResampleOption = Annotated[
    Path | None,
    typer.Option(help="The pilot (CSV) behind the study file: its own people, drawn again, answer in the rehearsal."),
]


def own_people(
    population: str | None,
    formula: str | None,
    grid: Sequence[str] | None,
    noise: float | None,
    pilot_people: int | None,
) -> OwnPeople | None:
    """Return the caller's own people, or None if there are none; refuse options that are about them."""
    if population is not None:
        return OwnPeople(population, formula, tuple(grid or ()), noise or 0.0, pilot_people)
    for name, value in {"formula": formula, "grid": grid, "noise": noise, "pilot-people": pilot_people}.items():
        if value is not None and value != []:
            raise InputError(f"--{name} is about your own people; add --population people.csv, or leave it out")
    return None


def split_population(limits: Limits) -> tuple[str | None, Limits]:
    """Return the file of people that --population names, if it is not their number, and the limits without it."""
    given = str(limits.get("population", ""))
    if not given:
        return None, limits
    try:
        return None, {**limits, "population": int(given)}
    except ValueError:
        return given, {name: value for name, value in limits.items() if name != "population"}


def built_in(study: str | None, people: OwnPeople | None, resample: Path | None) -> str | None:
    """Return the name of a built-in study, or None for a study file and for one's own people alone."""
    if study is None:
        if people is None:
            raise InputError(
                f"name a study ({', '.join(SCENARIOS)}) or a study file, or give people with --population people.csv"
            )
        return None
    if study not in SCENARIOS and (study.endswith(".toml") or Path(study).exists()):
        return None
    require_choice("study", study, SCENARIOS)
    for option, file in {"population": people and people.path, "resample": resample}.items():
        if file is not None:
            raise InputError(f"the study {study!r} has its own people; leave out its name, or --{option} {file}")
    return study

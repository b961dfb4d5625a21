"""Who answers in a simulation: options for a study file and for one's own people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from voxpop.cli.columns import COLUMNS, Names, roles_of
from voxpop.cli.stopping import WHO, Limits, taking
from voxpop.errors import InputError, require_choice
from voxpop.simulation.rehearsals import OwnPeople
from voxpop.simulation.scenarios import PEOPLE, SCENARIOS


def _option(kind: Any, text: str, metavar: str | None = None) -> Any:
    return Annotated[kind | None, typer.Option(help=text, metavar=metavar, rich_help_panel=WHO)]


PopulationOption = _option(
    str, "The file: a row for each person and decision or, with --formula, for each person. Nobody is asked twice."
)
OPTIONS: dict[str, Any] = {
    "formula": _option(str, "What a person gains, from columns and parameters: '(price - 1.5) * (wtp >= price)'."),
    "grid": _option(list[str], "The values of each parameter of the formula: price=2:12:101, or plan=basic,plus."),
    "noise": _option(float, "How much one round of one person varies, in units of reward; 0 unless given."),
    "pilot_people": _option(int, f"The people who take part in the pilot; {PEOPLE}, or half of them if they are few."),
    **{name: _option(list[str], text, "NAME") for name, text in COLUMNS.items()},
}
ResampleOption = Annotated[
    Path | None,
    typer.Option(help="The pilot (CSV) behind the study file: its own people, drawn again, answer in the rehearsal."),
]


class PeopleIn(Protocol):
    """What was said about people, still without their file."""

    def __call__(self, population: str | None) -> OwnPeople | None:
        """Return the people of the file, or None without one."""


def _own_people(
    population: str | None,
    formula: str | None,
    grid: Sequence[str] | None,
    noise: float | None,
    pilot_people: int | None,
    **columns: Names,
) -> OwnPeople | None:
    """Return the caller's own people, or None if there are none; refuse options that are about them."""
    if population is None:
        given = {"formula": formula, "grid": grid, "noise": noise, "pilot-people": pilot_people, **columns}
        for name, value in given.items():
            if value is not None and value != []:
                raise InputError(f"--{name} is about your own people; add --population people.csv, or leave it out")
        return None
    return OwnPeople(population, formula, tuple(grid or ()), noise or 0.0, pilot_people, roles_of(**columns))


def _people_in(**given: Any) -> PeopleIn:
    return partial(_own_people, **given)


takes_people = taking(OPTIONS, "people_in", _people_in)


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

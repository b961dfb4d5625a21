"""A pilot that was uploaded: how its columns were read, what it says, and the study file that follows from it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxpop.calibration.doubts import FEW_PEOPLE, FEW_VALUES, doubts
from voxpop.calibration.fit import calibrate
from voxpop.errors import InputError, require_integer
from voxpop.io.columns import Roles
from voxpop.io.studyfile import write_study
from voxpop.io.tables import Ranges, limits_of, read_pilot_table
from voxpop.model.decisions import Choice, Space
from voxpop.model.words import counted
from voxpop.policies import DEFAULT
from voxpop.report.summary import constant_rows, pilot_sentences
from voxpop.service.console.numbers import whole

MOST_POINTS = 51  # values of a numeric parameter
WANTED = 1_500  # decisions in all, unless the operator says how many values
HORIZON = 20_000  # rounds, unless the operator says something else
LABELS = {  # of the form's fields, by the options of the command line
    "ignore": "Leave out",
    "choice": "Names, not numbers",
    "integer": "Whole numbers",
    "log": "By their logarithm",
}


@dataclass(frozen=True)
class Pilot:
    """What a pilot says. Its averages are part of the study file; single answers are nowhere."""

    file: str
    text: str  # the study file
    columns: tuple[str, ...]  # how each was read
    sentences: tuple[str, ...]
    doubts: tuple[str, ...]
    constants: tuple[tuple[str, str, str], ...]
    kernel: str
    few: str = ""  # why it is too small to be trusted
    whole: tuple[str, ...] = ()  # parameters that may be meant as whole numbers only

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Pilot:
        """Make it of plain data, as another process sends it."""
        return cls(**{name: _frozen(part) for name, part in found.items()})


def _frozen(part: Any) -> Any:
    return tuple(map(_frozen, part)) if isinstance(part, list) else part


def calibrated(file: str, content: bytes, typed: Mapping[str, str]) -> Pilot:
    """Read and calibrate a pilot; refuse one in the words of the form."""
    try:
        return _calibrated(file, content, typed)
    except InputError as error:
        raise InputError(for_form(str(error))) from None


def for_form(text: str) -> str:
    """Name fields of the form instead of options of the command line.

    >>> for_form("if only whole numbers make sense, add --integer seats")
    'if only whole numbers make sense, write seats under “Whole numbers”'
    """
    text = text.replace("add --minimize if less of it is better", "call its negative reward if less of it is better")
    text = re.sub(r"add --(ignore|choice|integer|log) ", r"write --\1 ", text)
    named = re.sub(r"--(ignore|choice|integer|log) ([^\s;,]+)", lambda it: f"{it[2]} under “{LABELS[it[1]]}”", text)
    return re.sub(r"--(ignore|choice|integer|log)\b", lambda it: f"“{LABELS[it[1]]}”", named)


def _calibrated(file: str, content: bytes, typed: Mapping[str, str]) -> Pilot:
    path = Path(Path(file).name or "pilot.csv")
    if not content:
        raise InputError(f"{path} is empty; its first line names the columns: person, price, reward, rounds")
    roles = Roles((), _names(typed, "ignore"), _names(typed, "choice"))
    ranges = Ranges(limits_of("low", ()), limits_of("high", ()), _names(typed, "log"), _names(typed, "integer"))
    table = read_pilot_table(path, roles=roles, ranges=ranges, content=content)
    horizon = whole("Rounds", typed["horizon"]) if typed.get("horizon") else HORIZON
    require_integer("Rounds", horizon, least=1)
    points = whole("Values of a number", typed["points"]) if typed.get("points") else points_of(table.space)
    require_integer("Values of a number", points, least=2)
    found = calibrate(table.pilot, table.space)
    open_questions = doubts(found, table.pilot, table.people.__getitem__, lambda record: f"line {table.lines[record]}")
    text = write_study(found, table.space, horizon, points, path.stem, {"name": DEFAULT})
    return Pilot(
        path.name,
        text,
        tuple(map(for_form, table.said)),
        tuple(pilot_sentences(found)),
        tuple(map(for_form, open_questions)),
        tuple(constant_rows(found)),
        found.kernel_name,
        _few(found.people, len(found.pilot)),
        tuple(said.split(":")[0] for said in table.said if "--integer" in said),
    )


def _few(people: int, decisions: int) -> str:
    """Say that a pilot is too small; empty if it is not."""
    if people >= FEW_PEOPLE and decisions >= FEW_VALUES:
        return ""
    return (
        f"This pilot is too small: {counted(people, 'person', 'people')} and {counted(decisions, 'decision')}. What "
        "the study assumes is then hardly more than a guess; ask a few dozen people about a dozen decisions."
    )


def _names(typed: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Read a list of columns."""
    return tuple(part.strip() for part in typed.get(name, "").split(",") if part.strip())


def points_of(space: Space) -> int:
    """Choose how many values a numeric parameter has, so that there are not too many decisions."""
    parameters = space.parameters.values()
    choices = math.prod(len(parameter.options) for parameter in parameters if isinstance(parameter, Choice))
    numbers = sum(not isinstance(parameter, Choice) for parameter in parameters)
    if not numbers:
        return MOST_POINTS
    return max(3, min(MOST_POINTS, int((WANTED / choices) ** (1 / numbers) + 1e-9)))

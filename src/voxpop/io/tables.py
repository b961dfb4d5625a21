"""Tables of people's answers: a pilot, and the answers to one wave."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voxpop.calibration.pilot import Pilot
from voxpop.errors import InputError, require_choice, said_of
from voxpop.io.cells import PERCENT, whole_number
from voxpop.io.columns import RESERVED, SYNONYMS, Numbers, Roles, Words, read_columns
from voxpop.io.csv_text import Column, TextTable, read_table
from voxpop.io.history import day_of
from voxpop.model.decisions import Choice, Decisions, Float, Integer, Parameter, Space
from voxpop.model.direction import Direction
from voxpop.runtime.frames import Table


@dataclass(frozen=True)
class Ranges:
    """Limits by parameter, and which parameters are spaced by their logarithm or are whole numbers.

    The name "" stands for the only numeric parameter.
    """

    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    integer: tuple[str, ...] = ()

    def of(self, numeric: Collection[str], names: Collection[str]) -> Ranges:
        """Return the same with all names filled in, or refuse names that are not those of numeric parameters."""

        def resolved(option: str, name: str) -> str:
            if not name:
                if len(numeric) != 1:
                    said = f"there are {', '.join(numeric)}" if numeric else "none of the parameters is a number"
                    raise InputError(f"--{option} needs the name of a parameter, as in --{option} price=1; {said}")
                return next(iter(numeric))
            if require_choice("parameter", name, names) not in numeric:
                raise InputError(f"--{option} is for numbers, and {name} is a choice; leave it out")
            return name

        def limits(option: str, given: Mapping[str, float]) -> dict[str, float]:
            found = {resolved(option, name): value for name, value in given.items()}
            if len(found) < len(given):
                raise InputError(f"--{option} is given twice for {next(iter(numeric))}; give it once")
            return found

        return Ranges(
            limits("low", self.low),
            limits("high", self.high),
            tuple(resolved("log", name) for name in self.log),
            tuple(resolved("integer", name) for name in self.integer),
        )

    def parameter(self, name: str, values: Sequence[float]) -> Float | Integer:
        """Make the parameter that took these values in a pilot.

        >>> Ranges({"price": 1.0}, {"price": 15.0}, log=("price",)).parameter("price", [2.0, 12.0])
        Float(low=1.0, high=15.0, log=True)
        >>> Ranges(integer=("seats",)).parameter("seats", [4.0, 2.0])
        Integer(low=2, high=4)
        """
        least, most, log = min(values), max(values), name in self.log
        low, high = self.low.get(name, least), self.high.get(name, most)
        for wrong, option, number, worst in (
            (low > least, f"--low {name}={low:g}", f"at most {least:g}", least),
            (high < most, f"--high {name}={high:g}", f"at least {most:g}", most),
        ):
            if wrong:
                raise InputError(
                    f"{option} leaves out {worst:g}, which the pilot tried; give {number}, or take those rows out of "
                    "the pilot"
                )
        if name in self.integer:
            if log:
                raise InputError(f"--log {name} and --integer {name} cannot be combined; leave one of them out")
            odd = [value for value in (low, high, *values) if value != round(value)]
            if odd:
                raise InputError(
                    f"--integer {name} takes whole numbers, and {odd[0]:g} is not one; leave out --integer"
                )
            return Integer(round(low), round(high))
        if log and low <= 0:
            raise InputError(
                f"--log {name} needs values above 0, and they begin at {low:g}; give --low above 0, or leave out --log"
            )
        return Float(low, high, log)


def limits_of(option: str, texts: Iterable[str]) -> dict[str, float]:
    """Read what follows an option such as --low: price=1, or 1 for the only numeric parameter.

    >>> limits_of("low", ["price=1", "size = 2.5"]), limits_of("low", ["-1"])
    ({'price': 1.0, 'size': 2.5}, {'': -1.0})
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.rpartition("="))
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"--{option} takes a name and a number, such as price=1, got {text!r}")
        if name in found:
            other = name or "the parameter"
            raise InputError(f"--{option} is given for {other} as {found[name]:g} and as {number:g}; give one")
        found[name] = number
    return found


STRATUM = "stratum"  # the part of the population that a person belongs to, in studies with strata
BLOCK = "block"  # the rounds that a person was asked about, in waves with blocks
SHOWN = 8  # options of a choice that are named
REMEDY = "add --choice {name} if the cells are names, or --ignore {name} if it is not a parameter"


@dataclass(frozen=True, eq=False)
class PilotTable:
    """A pilot as it was read from a table: what it says, what was decided about its columns, and who is where in it."""

    pilot: Pilot
    space: Space
    said: tuple[str, ...]  # one sentence for each column, and for what was noticed
    people: tuple[str, ...]  # the names, by the pilot's numbers
    lines: tuple[int, ...]  # of the pilot's records
    whole: tuple[str, ...]  # parameters that may be meant as whole numbers only

    def place(self, record: int) -> str:
        """Say whose answer a record is, and where it stands."""
        return f"{self.people[int(self.pilot.people[record])]}, line {self.lines[record]}"


def read_pilot_table(
    path: Path,
    protected: bool = False,
    roles: Roles | None = None,
    ranges: Ranges | None = None,
    direction: Direction = Direction.MAXIMIZE,
    content: bytes | None = None,
    space: Space | None = None,
) -> PilotTable:
    """Read a pilot from a table with the columns person, reward, rounds (if not 1) and one for each parameter.

    Columns of numbers become float parameters over the range of the pilot, columns of words become choices, unless
    `ranges` and `roles` say otherwise, or the `space` of a study, which says both. In a protected pilot no reward is
    refused for its value. The column reward may also be called cost if less is better. With `content` nothing is read
    from the disk.
    """
    if space is not None:
        choices = [name for name, parameter in space.parameters.items() if isinstance(parameter, Choice)]
        roles = Roles(parameters=tuple(space.parameters), choices=tuple(choices))
    roles = roles or Roles()
    table = read_table(path, {**SYNONYMS, direction.measure: "reward"}, content)
    if "reward" not in table.names and "cost" in map(str.lower, table.names):
        raise InputError(
            f"{path} has a column cost and none called reward; add --minimize if less of it is better, or call it "
            "reward if more is"
        )
    table.require("person", "reward")
    people = table["person"].filled
    names, when = roles.select(table), roles.round_of(table)
    if not names:
        raise InputError(
            f"{path} has no column for a parameter beside person, reward and rounds; add one, such as price"
        )
    counted = [name for name in ("rounds",) if name in table.names]
    either, missing = [name for name in names if name not in roles.choices], ["reward"] if protected else ()
    columns = read_columns(table, ["reward", *counted], roles.choices, either, missing, REMEDY)
    for name in names:
        if len(set(columns[name].values)) < 2:
            raise InputError(
                f"{path}: the column {name} is always {table[name].cells[0]!r}; vary it in the pilot, or leave it out "
                f"with --ignore {name}"
            )
    space = space or _space(columns, names, ranges or Ranges())
    told: dict[str, Sequence[Any]] = {"person": people, **{name: column.values for name, column in columns.items()}}
    for name in names:
        if isinstance(space.parameters[name], Integer):
            told[name] = [int(value) if value == round(value) else value for value in told[name]]
    if when is not None:
        told[when] = [day_of(cell) or cell for cell in table[when].filled]
    rows = Table(told, table["person"].lines)
    with said_of(path):
        pilot = Pilot.from_table(rows, space=space, direction=direction, protected=protected, round_column=when)
    whole = tuple(name for name in names if _looks_whole(space.parameters[name], columns[name], table[name]))
    said = [_said(name, space.parameters[name], columns[name], name in whole) for name in names]
    said += [f"{when}: when each row was tried; add --parameter {when} if it is decided"] if when else []
    said += _said_of_others(table, columns, [*names, when or ""])
    known = tuple(dict.fromkeys(people))
    return PilotTable(pilot, space, (*said, *table.notes), known, table["person"].lines, whole)


def read_answers(
    path: Path,
    decisions: Decisions,
    private: bool = False,
    strata: bool = False,
    measure: str = "reward",
    blocks: bool = False,
) -> list[dict[str, Any]]:
    """Read the answers to one wave as records for `Study.tell`: the columns person, reward and the parameters.

    In a study with strata there is a column stratum as well, and for a wave in blocks a column block. Other columns do
    not matter. Which parameters are numbers, the decisions say. In a private study no reward is refused for its value:
    one that is empty or missing is NaN, and may be infinite.
    """
    example: Mapping[str, Any] = decisions[0]
    groups = [name for name, wanted in ((STRATUM, strata), (BLOCK, blocks)) if wanted]
    unique = {name.lower(): name for name in (*example, *groups)}
    table = read_table(path, {**unique, **SYNONYMS, measure: "reward"})
    table.require("person", "reward", *unique.values())
    people = table["person"].filled
    numeric = [name for name, value in example.items() if isinstance(value, int | float)]
    words = [name for name in example if name not in numeric]
    columns = read_columns(table, ["reward", *numeric], words, missing=["reward"] if private else ())
    tried = zip(*(columns[name].values for name in example), strict=True)
    labels = [dict(zip(example, values, strict=True)) for values in tried]
    told = {"person": people, "decision": labels, "average": columns["reward"].values}
    told |= {name: table[name].filled for name in groups}
    return [dict(zip(told, record, strict=True)) for record in zip(*told.values(), strict=True)]


def read_people(path: Path, wanted: Collection[str]) -> tuple[tuple[str, ...], dict[str, tuple[Any, ...]]]:
    """Read what is known of people, a row for each: the names of all columns, and the wanted ones among them.

    A wanted column holds numbers or words; `person` holds names, and is read if it is there. Others do not matter.
    """
    table = read_table(path, SYNONYMS)
    either = [name for name in table.names if name in wanted and name != "person"]
    found: dict[str, tuple[Any, ...]] = {
        name: column.values for name, column in read_columns(table, either=either).items()
    }
    return table.names, found | ({"person": table["person"].filled} if "person" in table.names else {})


def _space(columns: Mapping[str, Numbers | Words], names: list[str], ranges: Ranges) -> Space:
    """Make the parameters: numbers over their range, and choices of the words."""
    numbers = {name: column.values for name in names if isinstance(column := columns[name], Numbers)}
    known = ranges.of(numbers, names)
    return Space(
        {
            name: known.parameter(name, numbers[name])
            if name in numbers
            else Choice(tuple(sorted(set(map(str, columns[name].values)))))
            for name in names
        }
    )


def _looks_whole(parameter: Parameter, column: Numbers | Words, cells: Column) -> bool:
    """Return True if a parameter that was read as a number may be meant as a whole number."""
    if not isinstance(parameter, Float) or not isinstance(column, Numbers):
        return False
    values = sorted(set(column.values))
    consecutive = values == [values[0] + step for step in range(len(values))]
    return consecutive and all(whole_number(cell) is not None for cell in cells.cells)


def _said(name: str, parameter: Parameter, column: Numbers | Words, looks_whole: bool) -> str:
    """Say what was made of a parameter's column."""
    if isinstance(parameter, Choice):
        options = [str(option) for option in parameter.options]
        more = f" and {len(options) - SHOWN} more" if len(options) > SHOWN else ""
        return f"{name}: choice of {', '.join(options[:SHOWN])}{more}"
    assert isinstance(column, Numbers)
    kind = "whole number" if isinstance(parameter, Integer) else "number"
    tried = f"{min(column.values):.6g} to {max(column.values):.6g}"
    said = f"{name}: {kind} from {parameter.low:.6g} to {parameter.high:.6g}"
    if (parameter.low, parameter.high) != (min(column.values), max(column.values)):
        said += f" (the pilot tried {tried})"
    if isinstance(parameter, Float) and parameter.log:
        said += ", on a logarithmic scale"
    said += column.reading
    if looks_whole:
        said += f"; if only whole numbers make sense, add --integer {name}"
    return said


def _said_of_others(table: TextTable, columns: Mapping[str, Numbers | Words], names: list[str]) -> list[str]:
    """Say how rewards and rounds were read, by an example (protected answers have none), and what was left out."""
    said = []
    for name in ("reward", "rounds"):
        column = columns.get(name)
        if isinstance(column, Numbers) and column.example:
            same = "; write later answers in percent, too" if column.unit == PERCENT else ""
            said.append(f"{name}: number{column.reading}{same}")
    if "rounds" not in columns:
        said.append("rounds: 1 behind every reward, since there is no column rounds")
    ignored = [name for name in table.names if name not in (*RESERVED, *names)]
    return [*said, f"ignored: {', '.join(ignored)}"] if ignored else said

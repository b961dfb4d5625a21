"""Tables of people's answers: a pilot, and the answers to one wave."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from voxpop.calibration.pilot import Pilot
from voxpop.errors import InputError, all_of, said_of
from voxpop.io.cells import GAPS, PERCENT, kind_of
from voxpop.io.columns import RESERVED, SYNONYMS, Numbers, Roles, Words, read_columns
from voxpop.io.csv_text import TextTable, read_table
from voxpop.io.history import day_of
from voxpop.io.ranges import Ranges
from voxpop.io.wide import answered, long_of
from voxpop.model.decisions import Choice, Decisions, Float, Integer, Parameter, Space
from voxpop.model.direction import Direction
from voxpop.model.menu import Menu
from voxpop.model.words import counted, person_of
from voxpop.runtime.frames import Table

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
    menu: Menu  # the decisions that exist
    metrics: tuple[Pilot, ...] = ()  # what the same people said of guardrails
    row: str = "line"  # what a row is called

    def line(self, record: int) -> str:
        """Say where a record stands."""
        return f"{self.row} {self.lines[record]}"

    def place(self, record: int) -> str:
        """Say whose answer a record is, and where it stands."""
        return f"{self.people[int(self.pilot.people[record])]}, {self.line(record)}"


def read_pilot_table(
    path: Path,
    protected: bool = False,
    roles: Roles | None = None,
    ranges: Ranges | None = None,
    direction: Direction = Direction.MAXIMIZE,
    content: bytes | Table | None = None,
    space: Space | None = None,
) -> PilotTable:
    """Read a pilot from a table with the columns person, reward, rounds (if not 1) and one for each parameter.

    It may be wide, with a row for each person and a column for each decision. Rows of the same person and decision are
    averaged.

    Columns of numbers become float parameters over the range of the pilot, columns of words become choices, unless
    `ranges` and `roles` say otherwise, or the `space` of a study, which says both. In a protected pilot no reward is
    refused for its value. The column reward may also be called cost if less is better. With `content` nothing is read
    from the disk.
    """
    if space is not None:
        choices = [name for name, parameter in space.parameters.items() if isinstance(parameter, Choice)]
        roles = Roles(parameters=tuple(space.parameters), choices=tuple(choices))
    roles, ranges = roles or Roles(), ranges or Ranges()
    table, roles = _read(path, roles, direction.measure, content)
    if "reward" not in table.names and roles.reward is None:
        table = long_of(table, ("person", "rounds", *roles.ignored), roles.wide)
    if "reward" not in table.names and "cost" in map(str.lower, table.names):
        raise InputError(
            f"{path} has a column cost and none called reward; add --minimize if less of it is better, or call it "
            "reward if more is"
        )
    roles.require(table)
    _require_same_people(table, roles.metrics)
    names, when = roles.select(table), roles.round_of(table)
    if not names:
        raise InputError(
            f"{path} has no column for a parameter beside person, reward and rounds; add one, such as price"
        )
    rounds = [name for name in ("rounds",) if name in table.names]
    likely = [name for name in names if name not in roles.odd(table, names)]
    either, missing = [name for name in likely if name not in roles.choices], ["reward"] if protected else ()
    columns: dict[str, Numbers | Words]
    _, people, columns, _ = all_of(
        lambda: roles.refuse_odd(table, names),
        lambda: table["person"].filled,
        lambda: read_columns(table, ["reward", *rounds, *roles.metrics], roles.choices, either, missing, REMEDY),
        lambda: _require_varied(table, likely),
    )
    space = space or _space(columns, names, ranges)
    told: dict[str, Sequence[Any]] = {"person": people, **{name: column.values for name, column in columns.items()}}
    for name in names:
        if isinstance(space.parameters[name], Integer):
            told[name] = [int(value) if value == round(value) else value for value in told[name]]
    if when is not None:
        told[when] = [day_of(cell) or cell for cell in table[when].filled]
    told, first = _averaged(told, names, ("reward", *roles.metrics))
    notes = list(table.notes)
    if merged := len(people) - len(first):
        repeat = f"{merged:,} rows repeat" if merged > 1 else "1 row repeats"
        notes.append(f"{repeat} a person and a decision; the rows of each were averaged, their rounds added")
        told, when = {name: cells for name, cells in told.items() if name != when}, None
    lines = tuple(table["person"].lines[row] for row in first)
    metrics = list[Pilot]()
    with said_of(path):
        rows = Table(told, lines)
        pilot = Pilot.from_table(rows, space=space, direction=direction, protected=protected, round_column=when)
        for name in roles.metrics:
            with said_of(name):
                answers = Table({**told, "reward": told[name]}, lines)
                metrics.append(Pilot.from_table(answers, space=space, round_column=when))
        menu = ranges.menu.fitted(space, pilot.decisions)
        menu.decisions(space)  # refused before anything is computed
    said = [_said(name, space.parameters[name], columns[name]) for name in names]
    said += [f"{when}: when each row was tried; add --parameter {when} if it is decided"] if when else []
    said += [f"{name}: a guardrail" for name in roles.metrics]
    said += _said_of_others(table, columns, [*names, *roles.metrics, when or ""])
    said += _said_of_menu(menu, space) if ranges.menu.points is None else []
    known: dict[str, str] = {}
    for person in people:
        known.setdefault(person_of(person), person)
    return PilotTable(
        pilot, space, (*said, *notes), tuple(known.values()), lines, menu, tuple(metrics), table["person"].row
    )


def _read(
    path: Path, roles: Roles, measure: str, content: bytes | Table | None, unique: Mapping[str, str] | None = None
) -> tuple[TextTable, Roles]:
    """Read a table; if the reward is only called as the roles say, its column is found by its usual names."""
    table = read_table(path, {**(unique or {}), **roles.synonyms(measure)}, content)
    if not roles.perhaps or "reward" in table.names or roles.reward is None:
        return table, roles
    return _read(path, replace(roles, reward=None), measure, content, unique)


def _require_same_people(table: TextTable, metrics: Iterable[str]) -> None:
    """Refuse metrics that were measured for other people than the reward."""
    for name in metrics:
        pairs = enumerate(zip(table["reward"].cells, table[name].cells, strict=True))
        alone = [row for row, (one, other) in pairs if (kind_of(one) in GAPS) != (kind_of(other) in GAPS)]
        if alone:
            more = f", and {counted(len(alone) - 1, 'row')} like it" if len(alone) > 1 else ""
            raise InputError(
                f"{table.path}: {name} and the reward are not both known of {table['person'].said(alone[0])}{more}; a "
                "metric is about the same people as the reward: complete such rows, or leave them out"
            )


def _require_varied(table: TextTable, names: Iterable[str]) -> None:
    """Refuse a parameter that is always the same."""
    for name in names:
        if len(set(table[name].cells)) < 2:
            raise InputError(
                f"{table.path}: the column {name} is always {table[name].cells[0]!r}; vary it in the pilot, or leave "
                f"it out with --ignore {name}"
            )


def _averaged(
    told: dict[str, Sequence[Any]], names: list[str], answered: Sequence[str] = ("reward",)
) -> tuple[dict[str, Sequence[Any]], list[int]]:
    """Average the rows of each person and decision, by their rounds; also return the first row of each."""
    rows: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(map(person_of, told["person"]), *(told[name] for name in names), strict=True)):
        rows.setdefault(key, []).append(row)
    weights = told.get("rounds", [1.0] * len(told["person"]))
    first, found = [each[0] for each in rows.values()], dict(told)
    if len(first) < len(weights):
        found = {name: [cells[row] for row in first] for name, cells in told.items()}
        sums = [[weights[row] for row in each] for each in rows.values()]
        found["rounds"] = list(map(math.fsum, sums))
        for name, values in ((name, told[name]) for name in answered):
            found[name] = [
                math.fsum(values[row] * weights[row] for row in each) / total if len(each) > 1 else values[each[0]]
                for each, total in zip(rows.values(), found["rounds"], strict=True)
            ]
    return found, first


def read_answers(
    path: Path,
    decisions: Decisions,
    private: bool = False,
    strata: bool = False,
    measure: str = "reward",
    blocks: bool = False,
    roles: Roles | None = None,
    metrics: Sequence[str] = (),
    gaps: bool = False,
) -> list[dict[str, Any]]:
    """Read the answers to one wave as records for `Study.tell`: the columns person, reward and the parameters.

    In a study with strata there is a column stratum as well, and for a wave in blocks a column block. Other columns do
    not matter, but for those of the metrics of guardrails. Which parameters are numbers, the decisions say. In a
    private study no reward is refused for its value: one that is empty or missing is NaN, and may be infinite. If
    there may be `gaps`, rows without an answer are left out. The table may be wide.
    """
    example: Mapping[str, Any] = decisions[0]
    groups = [name for name, wanted in ((STRATUM, strata), (BLOCK, blocks)) if wanted]
    unique = {name.lower(): name for name in (*example, *groups)}
    table, roles = _read(path, roles or Roles(), measure, None, unique)
    if "reward" not in table.names and not set(example) <= set(table.names):
        called = next(iter(example)) if len(example) == 1 else None
        table = long_of(table, ("person", "rounds", STRATUM, BLOCK, *roles.ignored), called, gaps=private)
    roles.require(table)
    table.require(*unique.values(), *metrics)
    if gaps and not private:
        table = answered(table, ["reward", *metrics])
    numeric = [name for name, value in example.items() if isinstance(value, int | float)]
    words = [name for name in example if name not in numeric]
    told = ["reward", *metrics]
    people, columns, *members = all_of(
        lambda: table["person"].filled,
        lambda: read_columns(table, [*told, *numeric], words, missing=told if private else ()),
        *(partial(getattr, table[name], "filled") for name in groups),
    )
    tried = zip(*(columns[name].values for name in example), strict=True)
    labels = [dict(zip(example, values, strict=True)) for values in tried]
    found = {"person": people, "decision": labels, "average": columns["reward"].values}
    found |= {name: columns[name].values for name in metrics} | dict(zip(groups, members, strict=True))
    return [dict(zip(found, record, strict=True)) for record in zip(*found.values(), strict=True)]


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


def _said(name: str, parameter: Parameter, column: Numbers | Words) -> str:
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
    return said + column.reading


def _said_of_menu(menu: Menu, space: Space) -> list[str]:
    """Say which values of numeric parameters the study will choose from, and how many decisions that makes."""
    size, listed = len(menu.decisions(space)), []
    for name, parameter in space.parameters.items():
        values = list(menu.values.get(name, ()))
        if values and not isinstance(parameter, Choice):
            some = values if len(values) <= SHOWN else [*values[: SHOWN - 2], "...", values[-1]]
            listed.append(f"{name} is one of {', '.join(f'{v:g}' if isinstance(v, float) else str(v) for v in some)}")
    remedy = "--values, --step, --points, --only or --allowed say otherwise"
    return [f"decisions: {'; '.join([f'{size:,}', *listed])} ({remedy})"]


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

"""Answers in DataFrames and dictionaries, in the forms that `Study.tell` lists, as records or as a matrix.

The column of the answers may be called reward, average or, if that is what people are asked for, cost; that of the
people person or user. A decision is called by the value of its only parameter, 4.7 or "4.7", or else as `describe`
says, "price = 4.7, colour = red", or by the tuple of its values. Other columns of a long table do not matter. What is
missing is NaN. A dictionary by decision is a wide table without names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from voxpop.errors import InputError
from voxpop.journal.question import label_of, parameters_of
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.model.words import describe
from voxpop.runtime.frames import PEOPLE, Table, is_frame, listed

BESIDE = ("rounds", "stratum", "block")  # what a wide table may hold besides people and decisions

Record = dict[str, Any]


class Blocked(NamedTuple):
    """A matrix of answers, and the block that each of its rows is about, as the table has it."""

    matrix: list[list[Any]]
    blocks: list[Any]


def untabled(problem: Problem, plan: Plan, told: object, measure: str = "reward", kept: Sequence[str] = ()) -> object:
    """Return answers in a table or a dictionary as records or as a matrix, and anything else as it is.

    Records have the columns named in `kept` as well.
    """
    if not is_frame(told):
        if not isinstance(told, Mapping) or not told or set(told) & {"mean", "count"}:
            return told
        if all(isinstance(part, Mapping) for part in told.values()):
            arms = {label: _arm(problem, plan, label) for part in told.values() for label in part}
            return [
                {"person": person, "decision": arms[label], "average": _average(value)}
                for person, part in told.items()
                for label, value in part.items()
            ]
        if not all(isinstance(part, Sequence | np.ndarray) and not isinstance(part, str) for part in told.values()):
            return told
    table = Table.of(told)
    if table.answers(measure, parameters_of(problem.decisions[0])) is None:
        return _wide(problem, plan, table, kept)
    return long_records(problem, table, measure, kept)


def long_records(problem: Problem, table: Table, measure: str, kept: Sequence[str]) -> list[Record]:
    """Return one record for each row of a long table."""
    example, people = problem.decisions[0], table.need("person", table.heading(*PEOPLE))
    parameters = parameters_of(example)
    answered = table.need(measure, table.answers(measure, parameters))
    whole = None if all(table.heading(name) is not None for name in parameters) else table.heading("decision")
    headings = {name: table.need(name) for name in parameters} if whole is None else {}
    records = []
    for row in table.rows:
        decision = {name: row[heading] for name, heading in headings.items()} if whole is None else row[whole]
        if whole is None and not isinstance(example, Mapping):
            decision = list(decision.values())
        records.append(_record(table, kept, row, people, decision, row[answered]))
    return records


def _wide(problem: Problem, plan: Plan, table: Table, kept: Sequence[str]) -> object:
    """Return one record for each person and decision or, without names, a matrix in the order of the question.

    If people are not named and strata are wanted, there is a matrix for each stratum.
    """
    people, beside = table.heading(*PEOPLE), [table.heading(name) for name in BESIDE]
    labels = [heading for heading in table.columns if heading != people and heading not in beside]
    try:
        arms = {label: _arm(problem, plan, label) for label in labels}
    except InputError:
        if labels != list(range(len(plan.arms))):
            raise
        arms = dict(zip(labels, plan.arms.tolist(), strict=True))  # a matrix whose columns have no names
    twice = [label for label, arm in arms.items() if list(arms.values()).count(arm) > 1]
    if twice:
        raise InputError(f"the columns {listed(twice)} are about the same decision; give one column for each")
    if people is not None:
        return [_record(table, kept, row, people, arm, row[label]) for row in table.rows for label, arm in arms.items()]
    order = {arm: label for label, arm in arms.items()}
    lacking = [problem.decisions[arm] for arm in plan.arms.tolist() if arm not in order]
    if lacking:
        raise InputError(f"the table of answers has no column about {describe(lacking[0])}; add it, or name the people")
    matrix = [[_average(row[order[arm]]) for arm in plan.arms.tolist()] for row in table.rows]
    strata, blocks = (table.heading(name) if name in kept else None for name in ("stratum", "block"))

    def part(rows: Sequence[int]) -> list[list[Any]] | Blocked:
        some = [matrix[row] for row in rows]
        return some if blocks is None else Blocked(some, [table.columns[blocks][row] for row in rows])

    if strata is None:
        return part(range(len(matrix)))
    members: dict[Any, list[int]] = {}
    for row, stratum in enumerate(table.columns[strata]):
        members.setdefault(stratum, []).append(row)
    return {stratum: part(rows) for stratum, rows in members.items()}


def _record(
    table: Table, kept: Sequence[str], row: Mapping[Any, Any], people: Any, decision: Any, average: Any
) -> Record:
    others = {name: row[table.names[name]] for name in kept if name in table.names}
    return {"person": row[people], "decision": decision, "average": _average(average), **others}


def _arm(problem: Problem, plan: Plan, label: Any) -> int:
    """Return the arm that a label stands for."""
    decisions = {arm: problem.decisions[arm] for arm in plan.arms.tolist()}
    said: list[int] = [
        arm for arm, decision in decisions.items() if describe(decision) == label or label_of(decision) == label
    ]
    if len(said) == 1:
        return said[0]
    first, arm = problem.decisions[0], -1
    values = label if isinstance(label, tuple) else (label,)
    with suppress(InputError, ValueError):
        named = dict(zip(parameters_of(first), values, strict=True))
        arm = problem.decisions.find(named if isinstance(first, Mapping) else list(named.values()))
    if arm not in decisions:
        asked = listed(label_of(decision) for decision in decisions.values())
        raise InputError(f"{label!r} is not a decision of wave {plan.wave}; the question's are {asked}")
    return arm


def _average(value: Any) -> Any:
    return math.nan if value is None else value

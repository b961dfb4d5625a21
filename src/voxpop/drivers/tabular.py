"""Answers in DataFrames and dictionaries, as records or as a matrix.

| form | what it looks like |
|---|---|
| long | one row a person and decision: person, one column for each parameter (or one called decision), and reward |
| wide | one row a person: person, if people are named, and one column for each decision |
| by person | {"ann": {4.7: 1.2, 5.1: 0.9}, "ben": ...} |
| by decision | {4.7: [1.2, ...], 5.1: [0.9, ...]}, in the same order of people: a wide table without names |

The column of the answers may be called reward, average or, if that is what people are asked for, cost; that of the
people person or user. A decision is called by the value of its only parameter, 4.7 or "4.7", or else as `describe`
says, "price = 4.7, colour = red", or by the tuple of its values. A column `stratum` is handed on; other columns of a
long table do not matter. What is missing is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from voxpop.core.errors import InputError
from voxpop.core.frames import Columns, columns_of, is_frame, rows_of
from voxpop.core.phases import Plan
from voxpop.core.problem import Problem
from voxpop.core.words import describe
from voxpop.drivers.question import label_of, parameters_of

PEOPLE = ("person", "user")
AVERAGES = ("reward", "average")
BESIDE = ("rounds", "stratum")  # what a table may hold besides people, decisions and answers


def untabled(problem: Problem, plan: Plan, told: object, measure: str = "reward") -> object:
    """Return answers in a table or a dictionary as records or as a matrix, and anything else as it is."""
    if is_frame(told):
        return _of_columns(problem, plan, columns_of(told), measure)
    if not isinstance(told, Mapping) or not told or set(told) & {"mean", "count"}:
        return told
    if all(isinstance(part, Mapping) for part in told.values()):
        arms = {label: _arm(problem, plan, label) for part in told.values() for label in part}
        return [
            {"person": person, "decision": arms[label], "average": _average(value)}
            for person, part in told.items()
            for label, value in part.items()
        ]
    if all(isinstance(part, Sequence | np.ndarray) and not isinstance(part, str) for part in told.values()):
        return _of_columns(problem, plan, {label: list(values) for label, values in told.items()}, measure)
    return told


def _of_columns(problem: Problem, plan: Plan, columns: Columns, measure: str) -> object:
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise InputError(f"a table of answers needs columns of one length, got {_listed(columns)} of {sorted(lengths)}")
    names = {_name(label): label for label in columns}
    people = next((names[name] for name in PEOPLE if name in names), None)
    answers = next((names[name] for name in (*AVERAGES, measure) if name in names), None)
    if answers is None and "cost" in names:
        raise InputError(
            "the table has a column cost, and this study looks for the largest reward; begin it with "
            'direction="minimize", or call the column reward if more of it is better'
        )
    if answers is None:
        return _wide(problem, plan, columns, people)
    if people is None:
        raise InputError(f"a table of answers needs a column person; it has {_listed(columns)}")
    return _long(problem, columns, people, answers)


def _long(problem: Problem, columns: Columns, people: Any, answers: Any) -> list[dict[str, Any]]:
    """Return one record for each row; columns that are no parameters do not matter."""
    example, names = problem.decisions[0], {_name(label): label for label in columns}
    wanted = parameters_of(example)
    found = {
        name: next((label for label in (name, names.get(name.lower())) if label in columns), None) for name in wanted
    }
    whole = names.get("decision") if None in found.values() else None
    lacks = [name for name, label in found.items() if label is None]
    if lacks and whole is None:
        raise InputError(
            f"the table of answers has no column {lacks[0]!r}; it has {_listed(columns)}, and the study's parameters "
            f"are {_listed(wanted)}"
        )
    stratum, records = names.get("stratum"), []
    for row in rows_of(columns):
        decision = row[whole] if whole is not None else {name: row[label] for name, label in found.items()}
        if whole is None and not isinstance(example, Mapping):
            decision = list(decision.values())
        record = {"person": _person(row[people]), "decision": decision, "average": _average(row[answers])}
        records.append(record if stratum is None else {**record, "stratum": row[stratum]})
    return records


def _wide(problem: Problem, plan: Plan, columns: Columns, people: Any) -> object:
    """Return one record for each person and decision or, without names, a matrix in the order of the question."""
    names = {_name(label): label for label in columns}
    beside = {name: names[name] for name in BESIDE if name in names}
    labels = [label for label in columns if label != people and label not in beside.values()]
    if labels == list(range(len(plan.arms))) and not _known(problem, plan, labels):
        arms = dict(zip(labels, plan.arms.tolist(), strict=True))  # a matrix whose columns have no names
    else:
        arms = {label: _arm(problem, plan, label) for label in labels}
    twice = [label for label, arm in arms.items() if list(arms.values()).count(arm) > 1]
    if twice:
        raise InputError(f"the columns {_listed(twice)} are about the same decision; give one column for each")
    rows = rows_of(columns)
    if people is not None:
        return [
            {"person": _person(row[people]), "decision": arms[label], "average": _average(row[label])}
            | ({"stratum": row[beside["stratum"]]} if "stratum" in beside else {})
            for row in rows
            for label in labels
        ]
    lacking = [problem.decisions[arm] for arm in plan.arms.tolist() if arm not in arms.values()]
    if lacking:
        raise InputError(f"the table of answers has no column about {describe(lacking[0])}; add it, or name the people")
    order = {arm: label for label, arm in arms.items()}
    return [[_average(row[order[arm]]) for arm in plan.arms.tolist()] for row in rows]


def _known(problem: Problem, plan: Plan, labels: Iterable[Any]) -> bool:
    """Return True if every label is one of the question's decisions."""
    try:
        return all(_arm(problem, plan, label) is not None for label in labels)
    except InputError:
        return False


def _arm(problem: Problem, plan: Plan, label: Any) -> int:
    """Return the arm that a label stands for."""
    decisions = {arm: problem.decisions[arm] for arm in plan.arms.tolist()}
    said: list[int] = [
        arm for arm, decision in decisions.items() if describe(decision) == label or label_of(decision) == label
    ]
    if len(said) == 1:
        return said[0]
    first = problem.decisions[0]
    values = label if isinstance(label, tuple) else (label,)
    arm = -1
    with suppress(InputError, ValueError):
        named = dict(zip(parameters_of(first), values, strict=True))
        arm = problem.decisions.find(named if isinstance(first, Mapping) else list(named.values()))
    if arm not in decisions:
        asked = _listed(label_of(decision) for decision in decisions.values())
        raise InputError(f"{label!r} is not a decision of phase {plan.phase}; the question's are {asked}")
    return arm


def _person(value: Any) -> Any:
    """Return who answered; whole numbers that a table made floats of are whole numbers again."""
    if value is None:
        raise InputError("a row of the table of answers has no person; fill in who answered")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _average(value: Any) -> Any:
    if isinstance(value, str):
        raise InputError(f"every answer must be a number, got {value!r}; leave out or complete this person")
    return math.nan if value is None else value


def _name(label: Any) -> Any:
    """Return the name of a column in lower case; pandas calls the first of several headings ("person", "")."""
    while isinstance(label, tuple) and label and all(part == "" for part in label[1:]):
        label = label[0]
    return label.strip().lower() if isinstance(label, str) else label


def _listed(names: Iterable[Any]) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")

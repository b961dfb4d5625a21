"""Answers in DataFrames and dictionaries, in the forms that `Study.tell` lists, as records or as a matrix.

The column of the answers may be called reward, average or, if that is what people are asked for, cost; that of the
people person or user. A decision is called by the value of its only parameter, 4.7 or "4.7", or else as `describe`
says, "price = 4.7, colour = red", or by the tuple of its values. Other columns of a long table do not matter. What is
missing is NaN. A dictionary by decision is a wide table without names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from voxpop.errors import InputError
from voxpop.journal.question import label_of, parameters_of
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.model.words import describe
from voxpop.runtime.frames import Columns, columns_of, headings_of, is_frame, rows_of

PEOPLE = ("person", "user")
AVERAGES = ("reward", "average")
BESIDE = ("rounds", "stratum")  # what a wide table may hold besides people and decisions
SHOWN = 8  # names in a list of many

Record = dict[str, Any]


def untabled(problem: Problem, plan: Plan, told: object, measure: str = "reward", kept: Sequence[str] = ()) -> object:
    """Return answers in a table or a dictionary as records or as a matrix, and anything else as it is.

    Records have the columns named in `kept` as well.
    """
    if is_frame(told):
        return _Table(columns_of(told), measure, kept).answers(problem, plan)
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
        return _Table({label: list(cells) for label, cells in told.items()}, measure, kept).answers(problem, plan)
    return told


def long_records(problem: Problem, frame: object, measure: str, kept: Sequence[str]) -> list[Record]:
    """Return the rows of a long table as records."""
    return _Table(columns_of(frame), measure, kept).long(problem)


@dataclass(frozen=True)
class _Table:
    """Columns by their headings, what people were asked for, and which other columns are wanted."""

    columns: Columns
    measure: str
    kept: Sequence[str]

    @cached_property
    def names(self) -> dict[Any, Any]:
        """The headings by their names in lower case."""
        return headings_of(self.columns)

    def answered(self, problem: Problem) -> Any:
        """Return the heading of the answers, which is no parameter; None if there is none, and refuse two."""
        parameters = {str(name).lower() for name in parameters_of(problem.decisions[0])}
        found = [name for name in dict.fromkeys((self.measure, *AVERAGES)) if name in self.names]
        found = [name for name in found if name not in parameters]
        if len(found) > 1:
            raise InputError(f"the table has the columns {found[0]} and {found[1]}; keep the one that people answered")
        return self.names[found[0]] if found else None

    def heading(self, names: Iterable[str]) -> Any:
        """Return the heading of the first of some names that is there; None if there is none."""
        return next((self.names[name] for name in names if name in self.names), None)

    def answers(self, problem: Problem, plan: Plan) -> object:
        """Return the answers of a long or a wide table."""
        lengths = sorted({len(cells) for cells in self.columns.values()})
        if len(lengths) != 1 or lengths == [0]:
            raise InputError(f"a table of answers needs columns of one length, got {_listed(lengths) or 'none'}")
        if self.answered(problem) is not None:
            return self.long(problem)
        if "cost" in self.names and "cost" not in parameters_of(problem.decisions[0]):
            raise InputError(
                "the table has a column cost, and this study looks for the largest reward; begin it with "
                'direction="minimize", or call the column reward if more of it is better'
            )
        return self.wide(problem, plan)

    def long(self, problem: Problem) -> list[Record]:
        """Return one record for each row."""
        people, answers = self.heading(PEOPLE), self.answered(problem)
        if people is None or answers is None:
            lacking = "person" if people is None else self.measure
            raise InputError(f"a table of answers needs a column {lacking}; it has {_listed(self.columns)}")
        example = problem.decisions[0]
        headings = {name: self._parameter(name) for name in parameters_of(example)}
        whole = None if all(heading is not None for heading in headings.values()) else self.heading(["decision"])
        lacks = [name for name, heading in headings.items() if heading is None]
        if lacks and whole is None:
            raise InputError(
                f"the table of answers has no column {lacks[0]!r}; it has {_listed(self.columns)}, and the study's "
                f"parameters are {_listed(headings)}"
            )
        records = []
        for row in rows_of(self.columns):
            decision = row[whole] if whole is not None else {name: row[heading] for name, heading in headings.items()}
            if whole is None and not isinstance(example, Mapping):
                decision = list(decision.values())
            records.append(self._record(row, people, decision, row[answers]))
        return records

    def wide(self, problem: Problem, plan: Plan) -> object:
        """Return one record for each person and decision or, without names, a matrix in the order of the question.

        If people are not named and strata are wanted, there is a matrix for each stratum.
        """
        people, beside = self.heading(PEOPLE), {self.names.get(name) for name in BESIDE}
        labels = [heading for heading in self.columns if heading != people and heading not in beside]
        if labels == list(range(len(plan.arms))) and not _known(problem, plan, labels):
            arms = dict(zip(labels, plan.arms.tolist(), strict=True))  # a matrix whose columns have no names
        else:
            arms = {label: _arm(problem, plan, label) for label in labels}
        twice = [label for label, arm in arms.items() if list(arms.values()).count(arm) > 1]
        if twice:
            raise InputError(f"the columns {_listed(twice)} are about the same decision; give one column for each")
        rows = rows_of(self.columns)
        if people is not None:
            return [self._record(row, people, arm, row[label]) for row in rows for label, arm in arms.items()]
        lacking = [problem.decisions[arm] for arm in plan.arms.tolist() if arm not in arms.values()]
        if lacking:
            raise InputError(
                f"the table of answers has no column about {describe(lacking[0])}; add it, or name the people"
            )
        order = {arm: label for label, arm in arms.items()}
        matrix = [[_average(row[order[arm]]) for arm in plan.arms.tolist()] for row in rows]
        stratum = self.heading(["stratum"]) if "stratum" in self.kept else None
        return matrix if stratum is None else _parts(self.columns[stratum], matrix)

    def _parameter(self, name: str) -> Any:
        """Return the heading of a parameter's column, in upper or lower case; None if there is none."""
        return name if name in self.columns else self.names.get(name.lower())

    def _record(self, row: Mapping[Any, Any], people: Any, decision: Any, average: Any) -> Record:
        others = {name: row[self.names[name]] for name in self.kept if name in self.names}
        return {"person": _person(row[people]), "decision": decision, "average": _average(average), **others}


def _parts(strata: Iterable[Any], matrix: Iterable[list[Any]]) -> dict[Any, list[list[Any]]]:
    """Split the rows of a matrix by the strata of their people."""
    parts: dict[Any, list[list[Any]]] = {}
    for stratum, answers in zip(strata, matrix, strict=True):
        parts.setdefault(stratum, []).append(answers)
    return parts


def _known(problem: Problem, plan: Plan, labels: Iterable[Any]) -> bool:
    """Return True if every label is one of the question's decisions."""
    with suppress(InputError):
        return all(_arm(problem, plan, label) is not None for label in labels)
    return False


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
        asked = _listed(label_of(decision) for decision in decisions.values())
        raise InputError(f"{label!r} is not a decision of wave {plan.wave}; the question's are {asked}")
    return arm


def _person(value: Any) -> Any:
    """Return who answered; whole numbers that a table made floats of are whole numbers again."""
    if value is None or value != value:  # NaN
        raise InputError("a row of the table of answers has no person; fill in who answered")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _average(value: Any) -> Any:
    return math.nan if value is None else value


def _listed(names: Iterable[Any]) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:SHOWN]) + (f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else "")

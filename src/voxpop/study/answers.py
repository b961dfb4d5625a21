"""What people answered, as `Study.tell` takes it: a matrix, records, a table, a dictionary or an aggregate.

Where people are promised privacy, nothing is refused for its value: a refusal would reveal something about it. NaN,
words and answers that are missing count as the centre of the ball that answers are clipped to, and infinities are
clipped like any other answer. What is refused does not depend on one person's answer: a wrong shape, an unknown
decision, answers of which none is a number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError, all_finite
from voxpop.model.direction import Direction
from voxpop.model.problem import Problem
from voxpop.model.strata import Sample
from voxpop.model.waves import Feedback, Plan, changed, check_scale
from voxpop.study.tabular import untabled


@dataclass(frozen=True, eq=False)
class Answers:
    """One row per person and one column per arm of the plan, and the people's names, if they are known."""

    matrix: Array  # (people, arms)
    names: tuple[str, ...] = ()
    sample: Sample | None = None  # who is of which stratum, if there are strata

    @property
    def count(self) -> int:
        """The number of people."""
        return len(self.matrix)

    @property
    def effective(self) -> float:
        """The number of people whose plain average is as noisy."""
        return self.count if self.sample is None else self.sample.effective


def read(problem: Problem, plan: Plan, told: object, private: bool, measure: str = "reward") -> Answers | Feedback:
    """Return what was told as answers, or as an average that was computed elsewhere."""
    told = untabled(problem, plan, told, measure)
    if isinstance(told, Feedback | Mapping):
        if private:  # before anything is said of its values
            raise InputError("an aggregate cannot be made private afterwards; tell the answers one by one")
        feedback = told if isinstance(told, Feedback) else _aggregate(told)
        feedback.check(plan)
        check_scale(float(np.abs(feedback.mean).max()), problem.grid_step)
        return feedback
    names: tuple[str, ...] = ()
    if isinstance(told, Sequence) and any(isinstance(record, Mapping) for record in told):
        told, names = _rows(problem, plan, told, private)
    matrix = _numbers(told, private)
    if matrix.ndim != 2 or matrix.shape[1] != len(plan.arms) or not len(matrix):
        raise InputError(f"wave {plan.wave} takes a matrix of shape (people, {len(plan.arms)}), got {matrix.shape}")
    if not private and not all_finite(matrix):
        person, column = map(int, np.argwhere(~np.isfinite(matrix))[0])
        who = repr(names[person]) if names else f"row {person}"
        raise InputError(
            f"feedback must be finite, got {matrix[person, column]} of {who} about "
            f"{problem.decisions[int(plan.arms[column])]!r}; leave out or complete this person"
        )
    return Answers(matrix, names)


def turned(told: Answers | Feedback, direction: Direction) -> Answers | Feedback:
    """Turn what people told, rewards or costs, into what the study maximises."""
    if isinstance(told, Feedback):
        return direction.feedback(told)
    return changed(told, matrix=direction.turn(told.matrix))


def _aggregate(told: Mapping[Any, Any]) -> Feedback:
    if set(told) != {"mean", "count"}:
        raise InputError(f"an aggregate has the keys mean and count, got {sorted(map(str, told))}")
    return Feedback(told["mean"], told["count"])


def _numbers(values: object, private: bool) -> Array:
    """Return the values as a float array, NaN and infinities included; what is not a number is refused, or NaN."""
    try:
        array = np.array(values)
    except (TypeError, ValueError):
        raise InputError(f"feedback must be an array of numbers of one shape, got {type(values).__name__}") from None
    if array.dtype.kind in "biuf":
        return array.astype(float)
    array = np.array(values, dtype=object)  # whole numbers beyond 64 bits are here, and what is missing
    cells = [_number(value, private) for value in array.ravel().tolist()]
    if not any(isinstance(value, Real | Decimal) for value in array.ravel().tolist()):
        raise InputError(f"none of the answers is a number, got {type(values).__name__}; check what holds them")
    return np.array(cells, dtype=float).reshape(array.shape)


def _number(value: Any, private: bool) -> float:
    if not isinstance(value, Real | Decimal):
        if private:
            return math.nan
        raise InputError(f"every answer must be a number, got {value!r}; leave out or complete this person")
    try:
        return float(value)
    except OverflowError:
        return math.inf if operator.gt(value, 0) else -math.inf


def _rows(
    problem: Problem, plan: Plan, records: Iterable[object], private: bool
) -> tuple[list[list[Any]], tuple[str, ...]]:
    """Turn records into rows and the people of each; refuse repeated answers and, without privacy, missing ones."""
    columns = {arm: column for column, arm in enumerate(plan.arms.tolist())}
    rows: dict[str, dict[int, Any]] = {}
    for number, record in enumerate(records, start=1):
        if not isinstance(record, Mapping) or set(record) != {"person", "decision", "average"}:
            raise InputError(f"record {number} must have the keys person, decision and average, got {record!r}")
        arm = problem.decisions.find(record["decision"])
        if arm not in columns:
            raise InputError(f"record {number} is about {record['decision']!r}, which wave {plan.wave} did not ask")
        answers = rows.setdefault(str(record["person"]), {})
        if columns[arm] in answers:
            raise InputError(
                f"person {record['person']!r} answered twice about {record['decision']!r}; give one average"
            )
        answers[columns[arm]] = record["average"]
    for person, answers in rows.items():
        missing = [problem.decisions[arm] for arm, column in columns.items() if column not in answers]
        if missing and not private:
            raise InputError(f"person {person!r} has no answer about {missing[0]!r}; leave out or complete this person")
    return [[answers.get(column, math.nan) for column in range(len(columns))] for answers in rows.values()], tuple(rows)


def too_few(plan: Plan, count: int, ratio: float) -> str:
    """Say what it costs to close a wave with fewer people than were asked."""
    return (
        f"wave {plan.wave} asked {plan.people:,} people and {count:,} answered, so that the errors of its averages "
        f"would be about {ratio:.1f} times as large as planned; wait for the others, or close the wave with these: "
        "--partial (partial=True)"
    )

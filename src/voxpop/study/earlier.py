"""Answers that people gave before the study, in another survey say, as evidence like a pilot's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from voxpop.errors import InputError, require_array, require_integer, require_number
from voxpop.model.problem import Evidence, Problem
from voxpop.model.strata import Strata
from voxpop.model.waves import Tally
from voxpop.study.weighting import split

FORMS = (
    "records with the keys person, decision, average and, if not 1, rounds; an aggregate with the keys decisions, "
    "mean, count and, if not 1, rounds; or Evidence"
)

Design = tuple[tuple[int, float], ...]  # the arms that a person tried, with their rounds


def evidence_of(problem: Problem, told: object, strata: Strata | None = None) -> tuple[Evidence, ...]:
    """Return earlier answers, with one group for all people who tried the same decisions for the same rounds."""
    if isinstance(told, Evidence):
        return (told,)
    if isinstance(told, Mapping):
        return (_aggregate(problem, told, strata),)
    if isinstance(told, Sequence) and told and not isinstance(told, str):
        if all(isinstance(group, Evidence) for group in told):
            return tuple(told)
        if all(isinstance(record, Mapping) for record in told):
            return _groups(problem, told, strata)
    raise InputError(f"earlier answers are {FORMS}; got {type(told).__name__}")


def _aggregate(problem: Problem, told: Mapping[Any, Any], strata: Strata | None) -> Evidence:
    if set(told) | {"rounds"} != {"decisions", "mean", "count", "rounds"}:
        raise InputError(f"earlier answers are {FORMS}; got the keys {', '.join(sorted(map(str, told)))}")
    if strata is not None:
        raise InputError(
            "the study has strata, and an average of all earlier people does not say who is of which; attach records "
            "with the key stratum"
        )
    arms = [_find(problem, decision) for decision in told["decisions"]]
    rounds = require_array("the rounds of the earlier answers", told.get("rounds", 1))
    rounds = np.broadcast_to(rounds, (len(arms),)) if rounds.ndim == 0 else rounds
    return Evidence(problem.decisions.points[arms], rounds, told["count"], told["mean"])


def _groups(problem: Problem, records: Sequence[Mapping[Any, Any]], strata: Strata | None) -> tuple[Evidence, ...]:
    belongs: Mapping[str, str] = {}
    if strata is not None:
        records, belongs = split(records, strata)
    people: dict[str, dict[int, tuple[float, float]]] = {}  # the average and the rounds of each arm
    for number, record in enumerate(records, start=1):
        if set(record) | {"rounds"} != {"person", "decision", "average", "rounds"}:
            raise InputError(f"earlier answers are {FORMS}; record {number} is {record!r}")
        name, arm = f"record {number}'s", _find(problem, record["decision"])
        answered = people.setdefault(str(record["person"]), {})
        if arm in answered:
            raise InputError(
                f"person {record['person']!r} answered twice about {record['decision']!r}; give one average"
            )
        rounds = require_integer(f"{name} rounds", record.get("rounds", 1), least=1)
        answered[arm] = require_number(f"{name} average", record["average"]), float(rounds)
    alike: dict[Design, dict[str, list[list[float]]]] = {}  # people by what they tried, then by stratum
    for person, answered in people.items():
        design = tuple((arm, answered[arm][1]) for arm in sorted(answered))
        rows = alike.setdefault(design, {}).setdefault(belongs.get(person, ""), [])
        rows.append([answered[arm][0] for arm, _ in design])
    return tuple(_group(problem, design, parts, strata) for design, parts in alike.items())


def _group(problem: Problem, design: Design, parts: Mapping[str, Iterable[object]], strata: Strata | None) -> Evidence:
    averages = {name: Tally.of(rows, problem.grid_step).feedback() for name, rows in parts.items()}
    feedback = averages[""] if strata is None else strata.average(averages)
    arms, rounds = np.array(design).T
    points = problem.decisions.points[arms.astype(np.intp)]
    return Evidence(points, rounds, math.floor(feedback.effective), feedback.mean)


def _find(problem: Problem, decision: object) -> int:
    try:
        return problem.decisions.find(decision)
    except InputError:
        raise InputError(
            f"{decision!r} is not in the decision set; leave out answers about it, or attach them as Evidence, whose "
            "points may be any of the kernel's space"
        ) from None

"""The tables of a study file for a study that is only known as it is stored: the inverse of `studyfile.py`.

A stored study has its decisions as points of the kernel's space, with a label for each. The parameters follow from
both; where they do not, because a parameter never varies, the study is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.io import schema as wire
from voxpop.io.studyfile import PARAMETERS
from voxpop.model.decisions import Choice, Decisions, Float, Integer, Parameter, Space
from voxpop.model.direction import Direction, metrics_of
from voxpop.model.noise import ASSUMED
from voxpop.model.problem import Evidence, Problem
from voxpop.policies import policy_options
from voxpop.privacy import NoPrivacy
from voxpop.privacy.models import Private

CLOSE = 1e-9  # by which a point may differ from what a parameter makes of its label
MODEL = ("noise_std", "bias_std", "norm_bound", "prior_mean", "ridge")


def tables_of(study: wire.Definition) -> dict[str, Any]:
    """Return the tables of a study file that makes this study.

    >>> from voxpop.io.studyfile import study_of
    >>> from voxpop import Space, SquaredExponential
    >>> from voxpop.policies import make_policy
    >>> space = Space(price=Float(1, 3), plan=Choice(("plus", "basic")))
    >>> problem = Problem(space.grid(5), SquaredExponential(0.3), 0.2, 0.1, norm_bound=2.0, horizon=500)
    >>> tables = tables_of(wire.Definition(problem, make_policy("waves", tolerance=0.5)))
    >>> tables["parameters"]["plan"], tables["policy"]
    ({'type': 'choice', 'options': ['plus', 'basic']}, {'name': 'waves', 'tolerance': 0.5})
    >>> wire.encode(study_of("a study", tables)[0]) == wire.encode(problem)
    True
    """
    problem, decisions = study.direction.problem(study.problem), study.problem.decisions
    space = space_of(decisions)
    labels: Sequence[Mapping[str, Any]] = list(decisions)
    columns = {
        name: list(each.options) if isinstance(each, Choice) else sorted({label[name] for label in labels})
        for name, each in space.parameters.items()
    }
    whole = [dict(zip(columns, row, strict=True)) for row in product(*columns.values())] == labels
    made: dict[str, Any] = {"name": study.name, "horizon": problem.horizon, "reward": study.reward}
    if study.direction is not Direction.MAXIMIZE:
        made["direction"] = str(study.direction)
    kinds = {made: kind for kind, made in PARAMETERS.items()}
    made["parameters"] = {
        name: {"type": kinds[type(each)], **_plain(asdict(each))}
        | ({"values": columns[name]} if whole and not isinstance(each, Choice) else {})
        for name, each in space.parameters.items()
    }
    if not whole:
        made["decisions"] = {"allowed": [dict(label) for label in labels]}
    made |= _of_metric(problem, space) | {"policy": _policy(study)}
    made["today"] = {} if problem.today is None else dict(labels[problem.today])
    further = zip(study.problem.guardrails, metrics_of(study.problem, study.direction)[1:], strict=True)
    made["guardrail"] = [
        {"rule": one.rule.text, **_of_metric(towards.problem(metric), space), "correlations": list(one.correlations)}
        for one, (_, towards, metric) in further
    ]
    if study.privacy.model != NoPrivacy.model:
        usual = {name: part.default for name, part in Private.__dataclass_fields__.items()}
        changed = {name: value for name, value in study.privacy.settings().items() if value != usual.get(name)}
        made["privacy"] = _plain(changed) | {"model": study.privacy.model}
    for name, part in (("calendar", study.calendar), ("money", study.money)):
        made[name] = {} if part is None else _plain(asdict(part))
    made["strata"] = {} if study.strata is None else dict(study.strata.shares)
    return {name: value for name, value in made.items() if value not in ({}, [])}


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what says nothing, and write tuples as lists."""
    found = {name: list(value) if isinstance(value, tuple) else value for name, value in table.items()}
    return {name: value for name, value in found.items() if value is not None and value != []}


def space_of(decisions: Decisions) -> Space:
    """Find the parameters of which labels make these points; refuse what does not tell."""
    labels, at, found = decisions.labels or (), 0, dict[str, Parameter]()
    if not labels or not all(isinstance(label, Mapping) for label in labels):
        raise InputError("the study's decisions have no named parameters, so there is no study file of it")
    for name in labels[0]:
        values = [label[name] for label in labels]
        made = _parameter(values, decisions.points[:, at:])
        if made is None:
            raise InputError(f"{name} is the same in all decisions, so there is no study file of this study")
        found[name], at = made, at + made.width
    return Space(found)


def _parameter(values: list[Any], points: Array) -> Parameter | None:
    """Find the parameter that makes the first of these columns of points of its values."""
    for made in _candidates(values, points):
        if points.shape[1] >= made.width and all(
            np.allclose(made.scale(value), row[: made.width], atol=CLOSE)
            for value, row in zip(values, points, strict=True)
        ):
            return made
    return None


def _candidates(values: list[Any], points: Array) -> list[Parameter]:
    places, found = points[:, 0] if points.shape[1] else points, list[Parameter]()
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if numeric and np.ptp(places) > 0:
        first, last = int(np.argmin(places)), int(np.argmax(places))
        for log in (False, True) if min(values) > 0 else (False,):
            ends = [math.log(values[at]) if log else values[at] for at in (first, last)]
            slope = (ends[1] - ends[0]) / (places[last] - places[first])
            low = ends[0] - slope * places[first]
            limits = [float(f"{math.exp(end) if log else end:.12g}") for end in (low, low + slope)]
            low, high = min(limits[0], *values), max(limits[1], *values)  # the last digit of a sum is not the value's
            if low < high and not log and all(isinstance(value, int) for value in values):
                found.append(Integer(round(low), round(high)))
            found += [Float(low, high, log)] if low < high else []
    options = list(dict.fromkeys(values))
    if len(options) > 1 and points.shape[1] >= len(options):
        corners = {value: int(np.argmax(row[: len(options)])) for value, row in zip(values, points, strict=True)}
        found.append(Choice(tuple(sorted(options, key=corners.__getitem__))))
    return found


def label_of(space: Space, point: Sequence[float]) -> dict[str, Any]:
    """Return the decision for which a point stands."""
    found, at = dict[str, Any](), 0
    for name, each in space.parameters.items():
        if isinstance(each, Choice):
            found[name] = each.options[int(np.argmax(point[at : at + each.width]))]
        elif isinstance(each, Integer):
            found[name] = each.low + round(float(point[at]) * (each.high - each.low))
        else:
            found[name] = min(max(float(f"{each.at(float(point[at])):.12g}"), each.low), each.high)
        at += each.width
    return found


def _of_metric(problem: Problem, space: Space) -> dict[str, Any]:
    """Return the tables of a metric: of the objective or of a guardrail."""
    pilot = [_group(group, space) for group in problem.pilot]
    made = {"kernel": wire.encode(problem.kernel), "model": _model(problem)}
    return made | ({"pilot": pilot} if pilot else {})


def _model(problem: Problem) -> dict[str, Any]:
    made = {name: wire.encode(getattr(problem, name)) for name in MODEL}
    if not math.isclose(problem.beta, min(1 / (problem.size * problem.horizon), 0.5)):
        made["beta"] = problem.beta
    if problem.reward_range != ":":
        made["reward_range"] = problem.reward_range
    if problem.shock_freedom != ASSUMED or not math.isclose(problem.shock_std, problem.bias_std / 100):
        made |= {"shock_std": problem.shock_std, "shock_freedom": problem.shock_freedom}
    return made


def _policy(study: wire.Definition) -> dict[str, Any]:
    """Return what the policy was told, without what it knows of the study's money."""
    name = study.policy.name
    usual = {one.name: one.default for one in policy_options(name)}
    given = {key: value for key, value in study.policy.settings().items() if key == "name" or value != usual.get(key)}
    told = {} if study.money is None else study.money.settings(usual, {})
    return {"name": name} | _plain({key: value for key, value in given.items() if told.get(key) != value})


def _group(group: Evidence, space: Space) -> dict[str, Any]:
    made: dict[str, Any] = {"people": group.people, "at": [label_of(space, point) for point in group.points]}
    made |= {"rounds": group.rounds.tolist(), "averages": group.mean.tolist()}
    if group.variances is not None:
        made["variances"] = group.variances.tolist()
    if group.answers is not None and group.covariance is not None:
        made["answers"] = [int(count) for count in group.answers]
        made["covariance"] = [row[:place] for place, row in enumerate(group.covariance.tolist(), start=1)]
    if group.epsilon is not None:
        made |= {"noise_std": group.noise_std, "epsilon": group.epsilon, "delta": group.delta}
    return made

"""JSON codecs for the public constants of a release, which a coordinator keeps and tells every device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from voxpop.core.errors import InputError
from voxpop.core.phases import Plan
from voxpop.core.problem import Problem
from voxpop.privacy import Release
from voxpop.privacy.models import release_type_of


def release_to_dict(release: Release) -> dict[str, Any]:
    """Write a release as plain data.

    >>> from voxpop.privacy.none import PlainRelease
    >>> release_to_dict(PlainRelease(0.5, 3))
    {'model': 'none', 'step': 0.5, 'arms': 3}
    """
    return {"model": release.model, **release.to_dict()}


def release_from_dict(data: Mapping[str, Any]) -> Release:
    """Read what `release_to_dict` wrote; raise an `InputError` for anything else."""
    try:
        return release_type_of(data["model"]).from_dict(data)
    except InputError as error:
        raise InputError(f"this is not a release: {error}; it must be what release_to_dict writes") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__} {error}".strip()
        raise InputError(f"this is not a release ({problem:.200}); it must be what release_to_dict writes") from None


def for_devices(data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the largest part, which devices do not need: the tail by which the agent accounts for clipping."""
    if "ball" not in data:
        return dict(data)
    return {**data, "ball": {**data["ball"], "tail": [[], []]}}


def phase_for_devices(problem: Problem, plan: Plan, release: Mapping[str, Any]) -> dict[str, Any]:
    """Write what devices are told of a phase, as plain data: what was played, and how to make a report of it."""
    arms = plan.arms.tolist()
    return {
        "phase": plan.phase,
        "arms": arms,
        "decisions": [problem.decisions[arm] for arm in arms],
        "rounds": plan.pulls.tolist(),
        "release": for_devices(release),
    }

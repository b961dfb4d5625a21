"""JSON codecs for the public constants of a release: what a coordinator keeps, and what every device is told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from voxpop.errors import InputError
from voxpop.privacy import Release
from voxpop.privacy.additive import Central, Local
from voxpop.privacy.ball import Ball
from voxpop.privacy.release import Clipped, PlainRelease
from voxpop.privacy.shuffle import Encoding, Shuffled
from voxpop.wire import entry_from_dict


def release_to_dict(release: Release) -> dict[str, Any]:
    """A release as plain data.

    >>> release_to_dict(PlainRelease(0.5, 3))
    {'model': 'none', 'step': 0.5, 'arms': 3}
    """
    if isinstance(release, PlainRelease):
        return {"model": "none", "step": release.step, "arms": release.arms}
    if not isinstance(release, Clipped):
        raise InputError(f"a release of type {type(release).__name__} cannot be sent; use the models of voxpop")
    common = {"ball": _ball_to_dict(release.ball), "beta": release.beta, "cost": release.cost.as_dict()}
    if isinstance(release, Shuffled):
        return {"model": "shuffle", **common, "encoding": asdict(release.encoding)}
    assert isinstance(release, Central | Local)
    model = "central" if isinstance(release, Central) else "local"
    return {"model": model, **common, "step": release.step, "std": release.std}


def release_from_dict(data: Mapping[str, Any]) -> Release:
    """The release that `release_to_dict` described."""
    if data["model"] == "none":
        return PlainRelease(data["step"], data["arms"])
    common = _ball_from_dict(data["ball"]), data["beta"], entry_from_dict(data["cost"])
    if data["model"] == "shuffle":
        return Shuffled(*common, Encoding(**data["encoding"]))
    noise = data["step"], data["std"]
    return Central(*common, *noise) if data["model"] == "central" else Local(*common, *noise)


def for_devices(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a device needs of a release: not how the agent accounts for clipping, which is much the largest part."""
    if data["model"] == "none":
        return dict(data)
    return {**data, "ball": {**data["ball"], "tail": [[], []]}}


def _ball_to_dict(ball: Ball) -> dict[str, Any]:
    return {
        "metric": ball.metric,
        "centre": ball.centre.tolist(),
        "root": ball.root.tolist(),
        "radius": None if math.isinf(ball.radius) else ball.radius,  # JSON knows no infinity
        "tail": [part.tolist() for part in ball.tail],
    }


def _ball_from_dict(data: Mapping[str, Any]) -> Ball:
    radius = math.inf if data["radius"] is None else data["radius"]
    excess, chance = (np.array(part, dtype=float) for part in data["tail"])
    return Ball(data["metric"], np.array(data["centre"]), np.array(data["root"]), radius, (excess, chance))

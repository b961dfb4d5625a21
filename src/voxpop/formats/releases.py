"""JSON codecs for the public constants of a release: what a coordinator keeps, and what every device is told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from voxpop.core.errors import InputError, require_array, require_choice, require_integer, require_number
from voxpop.formats.wire import entry_from_dict
from voxpop.privacy import Release
from voxpop.privacy.additive import Central, Local
from voxpop.privacy.ball import HUGE, Ball
from voxpop.privacy.release import PlainRelease
from voxpop.privacy.shuffle import Encoding, Shuffled

MOST_COUNT = 10**15  # of people, bits or arms; all of them are exact as floats


def release_to_dict(release: Release) -> dict[str, Any]:
    """A release as plain data.

    >>> release_to_dict(PlainRelease(0.5, 3))
    {'model': 'none', 'step': 0.5, 'arms': 3}
    """
    if isinstance(release, PlainRelease):
        return {"model": "none", "step": release.step, "arms": release.arms}
    if not isinstance(release, Central | Local | Shuffled):
        raise InputError(f"a release of type {type(release).__name__} cannot be sent; use the models of voxpop")
    common = {"ball": _ball_to_dict(release.ball), "beta": release.beta, "cost": release.cost.as_dict()}
    if isinstance(release, Shuffled):
        return {"model": "shuffle", **common, "encoding": asdict(release.encoding)}
    model = "central" if isinstance(release, Central) else "local"
    return {"model": model, **common, "step": release.step, "std": release.std}


def release_from_dict(data: Mapping[str, Any]) -> Release:
    """The release that `release_to_dict` described, or an `InputError`, whatever else is given.

    What comes back adds the noise that its numbers say: no sign, type or NaN turns a bound around.
    """
    try:
        return _release(data)
    except InputError as error:
        raise InputError(f"this is not a release: {error}; ask for what release_to_dict writes") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__} {error}".strip()
        raise InputError(f"this is not a release ({problem:.200}); ask for what release_to_dict writes") from None


def _release(data: Mapping[str, Any]) -> Release:
    model = require_choice("model", data["model"], ("none", "central", "local", "shuffle"))
    if model == "none":
        return PlainRelease(require_number("step", data["step"], above=0), _whole("arms", data["arms"]))
    beta = require_number("beta", data["beta"], above=0, most=1)
    common = _ball_from_dict(data["ball"]), beta, entry_from_dict(data["cost"])
    if model == "shuffle":
        return Shuffled(*common, _encoding_from_dict(data["encoding"]))
    step = require_number("step", data["step"], above=0)
    if model == "central":
        return Central(*common, step, require_number("std", data["std"], least=0))
    return Local(*common, step, require_number("std", data["std"], above=0))


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
    metric, radius = str(data["metric"]), data["radius"]
    radius = math.inf if radius is None else require_number("radius", radius, least=1 / HUGE, most=HUGE)
    centre, root = require_array("centre", data["centre"]), require_array("root", data["root"])
    if centre.ndim != 1 or not len(centre):
        raise InputError(f"centre must be a list of numbers, got the shape {centre.shape}")
    if root.shape != (len(centre), len(centre)):
        raise InputError(f"root must be a square of {len(centre)} rows, as centre is long, got the shape {root.shape}")
    if np.triu(root, 1).any() or not (root.diagonal() > 0).all():
        raise InputError("root must be lower triangular with a positive diagonal")
    excess, chance = (require_array("tail", part) for part in data["tail"])
    if excess.ndim != 1 or excess.shape != chance.shape:
        raise InputError(f"tail must be two lists of one length, got the shapes {excess.shape} and {chance.shape}")
    return Ball(metric, centre, root, radius, (excess, chance))


def _encoding_from_dict(data: Mapping[str, Any]) -> Encoding:
    extra = set(data) - {field.name for field in fields(Encoding)}
    if extra:
        raise InputError(f"encoding must hold nothing else, got {sorted(extra)}")
    levels, trials, users = (_whole(name, data[name]) for name in ("levels", "trials", "users"))
    return Encoding(levels, trials, require_number("chance", data["chance"], above=0, below=1), users)


def _whole(name: str, value: object) -> int:
    if isinstance(value, float):  # 3.0 is no count
        raise InputError(f"{name} must be a whole number, got {value!r}")
    return require_integer(name, value, least=1, most=MOST_COUNT)

"""JSON codecs for the public constants of a release, which a coordinator keeps and tells every device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from voxpop.core.errors import InputError
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

"""The policies by name, and what a policy is."""

from collections.abc import Callable
from functools import partial
from typing import Any

from voxpop.errors import InputError, require_choice
from voxpop.policies import dpbe
from voxpop.policies.protocol import Policy

__all__ = ["POLICIES", "Policy", "make_policy"]

POLICIES: dict[str, Callable[..., Policy]] = {"dpbe": dpbe.DPBE, "dpbe-paper": partial(dpbe.DPBE, **dpbe.PRINTED)}


def make_policy(name: str = "dpbe", **settings: Any) -> Policy:
    """The policy of that name.

    >>> make_policy("dpbe", alpha=0.5).name
    'dpbe'
    """
    require_choice("policy", name, POLICIES)
    try:
        return POLICIES[name](**settings)
    except TypeError:
        raise InputError(f"policy {name!r} does not take all of the settings {sorted(settings)}") from None

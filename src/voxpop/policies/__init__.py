"""The policies by name, and what a policy is."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from voxpop.core.errors import InputError, require_choice
from voxpop.policies import bbkb, bpe, dpbe, gp_ucb, peers, thompson, waves
from voxpop.policies.protocol import Policy

__all__ = ["POLICIES", "Policy", "make_policy", "settings_of"]

POLICIES: dict[str, Callable[..., Policy]] = {
    "waves": waves.Waves,
    "dpbe": dpbe.DPBE,
    "dpbe-paper": partial(dpbe.DPBE, **dpbe.PRINTED),
    "dpbe-fixed": dpbe.fixed,
    "dpbe-nobatching": partial(dpbe.DPBE, **dpbe.NO_BATCHING),
    "gp-ucb": gp_ucb.gp_ucb,
    "mini-gp-opt": gp_ucb.mini_gp_opt,
    "bpe": bpe.BPE,
    "bbkb": bbkb.BBKB,
    "pilot-only": peers.PilotOnly,
    "equal-split": peers.EqualSplit,
    "halving": peers.Halving,
    "thompson": thompson.Thompson,
}


def make_policy(name: str = "dpbe", **settings: Any) -> Policy:
    """Make the policy of that name.

    >>> make_policy("dpbe", alpha=0.5).name
    'dpbe'
    """
    require_choice("policy", name, POLICIES)
    try:
        return POLICIES[name](**settings)
    except TypeError:
        raise InputError(
            f"policy {name!r} takes {', '.join(settings_of(name)) or 'no settings'}, got {sorted(settings)}"
        ) from None


def settings_of(name: str) -> list[str]:
    """List the names of the settings that a policy takes."""
    return list(signature(POLICIES[require_choice("policy", name, POLICIES)]).parameters)

"""The policies by name, and what a policy is."""

from collections.abc import Callable, Iterable
from functools import partial
from inspect import signature
from typing import Any

from voxpop.errors import InputError, one_of, require_choice
from voxpop.policies import bbkb, bpe, dpbe, gp_ucb, peers, waves
from voxpop.policies import peers as thompson
from voxpop.policies.protocol import Policy

__all__ = ["DEFAULT", "POLICIES", "Policy", "make_policy", "settings_of"]

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
DEFAULT = "waves"


def make_policy(name: str = DEFAULT, **settings: Any) -> Policy:
    """Make the policy of that name.

    >>> make_policy().name
    'waves'
    >>> make_policy("dpbe", alpha=0.5).settings()["alpha"]
    0.5
    """
    require_choice("policy", name, POLICIES)
    try:
        return POLICIES[name](**settings)
    except TypeError:
        raise InputError(_misfit(name, settings)) from None


def settings_of(name: str) -> list[str]:
    """List the names of the settings that a policy takes."""
    return list(signature(POLICIES[require_choice("policy", name, POLICIES)]).parameters)


def _misfit(name: str, settings: Iterable[str]) -> str:
    """Say which settings the policy does not take, and which policies do; or what it needs, if none is unknown."""
    known = settings_of(name)
    unknown = sorted(set(settings) - set(known))
    if not unknown:
        return f"policy {name!r} takes {', '.join(known)}, got {sorted(settings)}"
    others = [other for other in POLICIES if set(unknown) <= set(settings_of(other))]
    takes = f"it takes {', '.join(known) or 'no settings'}"
    remedy = f"leave it out, or choose the policy {one_of(others)}" if others else takes
    return f"policy {name!r} does not take {', '.join(unknown)}; {remedy}"

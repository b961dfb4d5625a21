"""The policies by name, and what a policy is."""

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass, replace
from functools import partial
from inspect import signature
from typing import Any

from voxpop.errors import InputError, one_of
from voxpop.model.options import Option, options_of
from voxpop.policies import bbkb, botorch, bpe, dbcare, dpbe, gp_ucb, peers, rho, waves
from voxpop.policies.protocol import Policy
from voxpop.runtime.extensions import find

__all__ = ["DEFAULT", "POLICIES", "Policy", "make_policy", "policy_options", "settings_of"]

POLICIES: dict[str, Callable[..., Policy]] = {
    "waves": waves.Waves,
    "dpbe": dpbe.DPBE,
    "dpbe-paper": partial(dpbe.DPBE, **dpbe.PRINTED),
    "dpbe-fixed": partial(dpbe.DPBE, **dpbe.FIXED),
    "dpbe-nobatching": partial(dpbe.DPBE, **dpbe.NO_BATCHING),
    "gp-ucb": gp_ucb.GPUCB,
    "mini-gp-opt": gp_ucb.MiniGPOpt,
    "bpe": bpe.BPE,
    "bbkb": bbkb.BBKB,
    "pilot-only": peers.PilotOnly,
    "equal-split": peers.EqualSplit,
    "halving": peers.Halving,
    "thompson": peers.Thompson,
    "dbcare": dbcare.DBCARE,
    "rho": rho.RHO,
    "botorch": botorch.BoTorch,
}
DEFAULT = "waves"


def make_policy(name: str = DEFAULT, **settings: Any) -> Policy:
    """Make the policy of that name: one of `POLICIES`, or an entry point of the group voxpop.policies.

    >>> make_policy().name
    'waves'
    >>> make_policy("dpbe", alpha=0.5).settings()["alpha"]
    0.5
    """
    made, known = find("policy", name, POLICIES), policy_options(name)
    needed = {one.name for one in known if one.required}
    if not needed <= set(settings) <= {one.name for one in known}:
        raise InputError(_misfit(name, settings))
    return made(**settings)


def policy_options(name: str) -> tuple[Option, ...]:
    """List the options of a policy, with its own defaults.

    >>> [one.name for one in policy_options("halving")]
    ['people', 'arms']
    """
    made = find("policy", name, POLICIES)
    chosen = made.keywords if isinstance(made, partial) else {}
    kind = made.func if isinstance(made, partial) else made
    if not is_dataclass(kind):
        return tuple(Option(part.name, part.default) for part in signature(kind).parameters.values())
    return tuple(replace(one, default=chosen.get(one.name, one.default)) for one in options_of(kind))


def settings_of(name: str) -> list[str]:
    """List the names of the settings that a policy takes."""
    return [one.name for one in policy_options(name)]


def _misfit(name: str, settings: Iterable[str]) -> str:
    """Say which settings the policy does not take, and which policies do; or what it needs, if none is unknown."""
    known = [one.name for one in sorted(policy_options(name), key=lambda one: not one.required)]
    unknown = sorted(set(settings) - set(known))
    if not unknown:
        return f"policy {name!r} takes {', '.join(known)}, got {sorted(settings)}"
    others = [other for other in POLICIES if set(unknown) <= set(settings_of(other))]
    takes = f"it takes {', '.join(known) or 'no settings'}"
    remedy = f"leave it out, or choose the policy {one_of(others)}" if others else takes
    return f"policy {name!r} does not take {', '.join(unknown)}; {remedy}"

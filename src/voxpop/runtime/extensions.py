"""Policies, kernels, trust models and populations of other packages, found through their entry points.

A package names what it adds in its pyproject.toml, in the groups below; nothing of it is imported before its name is
asked for, and a built-in name is never looked up.
"""

from collections.abc import MutableMapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from voxpop.errors import InputError, require_choice

GROUPS = {  # of entry points, by what their names stand for
    "policy": "voxpop.policies",
    "kernel": "voxpop.kernels",
    "privacy model": "voxpop.privacy",
    "study": "voxpop.populations",
}
NEEDED = {  # what a class of each must have
    "policy": ("settings", "init", "plan", "advance", "best"),
    "kernel": ("diagonal",),
    "privacy model": ("make", "cost_of", "variance", "randomize", "tally", "analyze"),
}
Made = TypeVar("Made")


def find(kind: str, name: Any, known: MutableMapping[str, Made]) -> Made:
    """Return what has this name: built in, or of an installed package, which is added to what is known.

    >>> find("policy", "none", {"waves": 1})
    Traceback (most recent call last):
    ...
    voxpop.errors.InputError: unknown policy 'none'; known: waves
    """
    if not isinstance(name, str) or name not in known:
        offered = {entry.name: entry for entry in entry_points(group=GROUPS[kind])}
        known[name] = _load(kind, offered[require_choice(kind, name, [*known, *offered])])
    return known[name]


def name_of(kind: str, made: Any, known: MutableMapping[str, Any]) -> str | None:
    """Return the name of something built in or of an installed package; None if it has none."""
    found = next((name for name, one in known.items() if one is made), None)
    if found is None:
        named = made.__module__, made.__qualname__  # compared as text: nothing is imported to find out
        found = next((one.name for one in entry_points(group=GROUPS[kind]) if (one.module, one.attr) == named), None)
        if found is not None:
            known[found] = made
    return found


def _load(kind: str, entry: EntryPoint) -> Any:
    """Import what an entry point names; refuse one that cannot be imported, in one sentence."""
    package = entry.dist.name if entry.dist else "an installed package"
    try:
        made = entry.load()
    except Exception as error:
        raise InputError(
            f"the {kind} {entry.name!r} of {package} cannot be loaded from {entry.value} ({type(error).__name__}: "
            f"{error}); repair or remove that package"
        ) from None
    lacks = [name for name in NEEDED.get(kind, ()) if not hasattr(made, name)]
    if lacks or not callable(made):
        why = f"has no {', '.join(lacks)}" if lacks else "is no class or function"
        raise InputError(f"the {kind} {entry.name!r} of {package} {why}; correct {entry.value} there")
    return made

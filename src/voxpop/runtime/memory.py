"""How much memory a computation may take: one that does not fit is refused, and told what size would fit."""

from __future__ import annotations

import os
from functools import cache

from voxpop.core.errors import InputError

SHARE = 0.8  # of the machine's memory
SETTING = "VOXPOP_MEMORY"  # gigabytes, instead of the machine's own


@cache
def memory_limit() -> int:
    """Return the number of bytes that one computation may take."""
    given = os.environ.get(SETTING)
    if given is not None:
        try:
            return int(float(given) * 1e9)
        except ValueError:
            raise InputError(f"{SETTING} must be a number of gigabytes, got {given!r}") from None
    try:
        return int(SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):  # not known on this system
        return int(8e9)


def require_room(needed: float, actions: int, purpose: str, power: int = 1) -> None:
    """Refuse a computation that does not fit; its memory grows with this power of the number of actions."""
    limit = memory_limit()
    if needed > limit:
        fits = int(actions * (limit / needed) ** (1 / power))
        raise InputError(
            f"{actions:,} actions with {purpose} take {needed / 1e9:.3g} GB of memory and the limit is "
            f"{limit / 1e9:.3g} GB; at most {fits:,} actions fit (or raise {SETTING})"
        )


def statement(actions: int) -> str:
    """Say how much memory a selection among `actions` actions takes, before it is made."""
    each, limit = 8 * actions, memory_limit()
    return (
        f"{actions:,} actions: at most {each / 1e6:.3g} MB of memory for each batch of a phase; "
        f"the limit of {limit / 1e9:.3g} GB holds at least {limit // each:,} batches"
    )

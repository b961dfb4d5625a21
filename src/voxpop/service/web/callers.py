"""Who counts as one caller."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network


def caller_of(address: str) -> str:
    """Return the name under which limits count an address: IPv6 addresses are counted by network.

    A household or a rented machine usually has a whole network of 2^64 of them.
    """
    if ":" not in address:
        return address
    try:
        found = IPv6Address(address.partition("%")[0])
    except ValueError:  # a proxy may forward anything
        return address
    return str(found.ipv4_mapped or IPv6Network((found, 64), strict=False))

"""Addresses of servers, compared by where they lead and not as text."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import unquote

import httpx

from voxpop.errors import InputError

# How addresses of IPv6 begin that hold one of IPv4: mapped, compatible, translated, and of gateways (NAT64).
EMBEDDING = [IPv6Address(start).packed[:12] for start in ("::ffff:0:0", "::", "::ffff:0:0:0", "64:ff9b::")]


@dataclass(frozen=True)
class Origin:
    """The server that an address leads to.

    >>> origin_of("the helper", "HTTP://0x7f.1:80/v2") == origin_of("the helper", "http://[::ffff:127.0.0.1]")
    True
    """

    scheme: str
    host: str
    port: int

    @property
    def local(self) -> bool:
        """True on the device's own machine, where demonstrations and tests run their servers."""
        try:
            found = ip_address(self.host)
            return found.is_loopback or found.is_unspecified  # which leads here, too
        except ValueError:
            return f".{self.host}".endswith(".localhost")

    def same_machine(self, other: Origin) -> bool:
        """Return True for the same host at any port; on the device's own machine ports are compared instead."""
        return self.port == other.port if self.local and other.local else self.host == other.host


def origin_of(name: str, url: object) -> Origin:
    """Return where an address leads, or refuse it."""
    try:
        if not isinstance(url, str):
            raise ValueError
        parts = httpx.URL(url)
        host, usual = _host(unquote(parts.raw_host.decode("ascii"))), {"http": 80, "https": 443}
        if not host or parts.scheme not in usual or parts.userinfo:
            raise ValueError
    except (ValueError, httpx.InvalidURL):
        raise InputError(f"{name} must be an address, such as https://study.example, got {url!r:.100}") from None
    return Origin(parts.scheme, host, parts.port or usual[parts.scheme])


def _host(written: str) -> str:
    """Write a host in one way: without the dot of the root, and numbers (127.1, 0x7f.1, ::ffff:7f00:1) as one."""
    host = written.lower().rstrip(".")
    try:
        number = ip_address(host)
    except ValueError:
        try:
            number = ip_address(socket.inet_aton(host))
        except (OSError, ValueError):
            return host
    return str(embedded(number))


def embedded(number: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the address of IPv4 that one of IPv6 holds, or the address itself."""
    inner = int.from_bytes(number.packed[-4:])
    return IPv4Address(inner) if number.packed[:-4] in EMBEDDING and inner > 1 else number

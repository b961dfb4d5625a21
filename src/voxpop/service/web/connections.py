"""How many connections there may be, in all and from one caller, and which one gives way when there are too many."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from typing import Protocol

from voxpop.service.web.callers import caller_of

MOST_CONNECTIONS = 4000
MOST_SPARE = 256  # on top of these, for callers who ask whether the service is healthy
OWN_FILES = 256  # descriptors for everything else: the database, the log, requests to the shuffler
STALLED = 20.0  # seconds in which a caller must take at least a part of a reply


class Connection(Protocol):
    """What this module needs to know of a connection."""

    transport: asyncio.Transport
    address: str
    groups: tuple[Group, ...]  # in which it is counted; empty if it is a spare one
    unsent: int  # bytes that waited to be sent at the last look


class Group:
    """Connections that are counted together."""

    def __init__(self, name: str, most: float) -> None:
        self.name, self.most = name, most
        self.members: set[Connection] = set()
        self.idle: dict[Connection, None] = {}  # those between two requests, the one idle for longest first


class Connections:
    """All connections of a server; `most_of_one` is the limit of one caller, and 0 means none.

    All callers behind a trusted proxy share its address: only the limit for the whole server applies to that one.
    """

    def __init__(
        self, most_of_one: int, is_proxy: Callable[[str], bool] = lambda _: False, most: int = MOST_CONNECTIONS
    ) -> None:
        self.note_refusal: Callable[[], None] = lambda: None  # called for every connection beyond the limits
        self._most_of_one, self._is_proxy = most_of_one or float("inf"), is_proxy
        self._all = Group("", most)
        self._of_caller: dict[str, Group] = {}
        self._spare: dict[Connection, None] = {}  # the oldest first

    def admit(self, connection: Connection) -> bool:
        """Count a new connection and return True; if there are too many, make it a spare one and return False."""
        own = self._group_of(connection.address)
        if not (self._has_room(own) and self._has_room(self._all)):
            self._add_spare(connection)
            self.note_refusal()
            return False
        self._of_caller[own.name] = own
        connection.groups = own, self._all
        for group in connection.groups:
            group.members.add(connection)
        return True

    def rest(self, connection: Connection) -> None:
        """Note that a connection waits for its next request: it may be closed if another one needs its place."""
        for group in connection.groups:
            group.idle[connection] = None

    def wake(self, connection: Connection) -> None:
        """Note that a request arrives on a connection."""
        for group in connection.groups:
            group.idle.pop(connection, None)

    def forget(self, connection: Connection) -> None:
        """Stop counting a connection."""
        self._spare.pop(connection, None)
        self.wake(connection)
        for group in connection.groups:
            group.members.discard(connection)
        if connection.groups and not connection.groups[0].members:
            del self._of_caller[connection.groups[0].name]
        connection.groups = ()

    async def end_stalled(self) -> None:
        """End the connections whose callers have taken nothing of their replies since the last look."""
        for connection in [*self._all.members, *self._spare]:
            unsent = connection.transport.get_write_buffer_size()
            if unsent and unsent == connection.unsent:
                self._end(connection)
            connection.unsent = unsent

    def _group_of(self, address: str) -> Group:
        trusted = self._is_proxy(address)
        name = address if trusted else caller_of(address)
        return self._of_caller.get(name) or Group(name, float("inf") if trusted else self._most_of_one)

    def _has_room(self, group: Group) -> bool:
        if len(group.members) >= group.most and group.idle:
            longest = next(iter(group.idle))
            self.forget(longest)
            self._add_spare(longest)  # until its last reply is sent
            longest.transport.close()
        return len(group.members) < group.most

    def _add_spare(self, connection: Connection) -> None:
        if len(self._spare) >= MOST_SPARE:
            self._end(next(iter(self._spare)))
        self._spare[connection] = None

    def _end(self, connection: Connection) -> None:
        self.forget(connection)
        connection.transport.abort()


def affordable_connections() -> int:
    """Allow the process enough open files for all connections; return how many there can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + MOST_SPARE + OWN_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MOST_CONNECTIONS
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(soft - MOST_SPARE - OWN_FILES, soft // 4)

"""Too many connections: which ones give way, which ones are refused and how, and that health is answered anyway."""

import asyncio
import json
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from tests.helpers_waiting import HANGING, until
from tests.service.served import served
from tests.service.test_exhaustion import connections
from voxpop.errors import InputError
from voxpop.service import serve
from voxpop.service.serve import Settings, settings_of
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.web import connections as module
from voxpop.service.web.connections import Connections, affordable_connections
from voxpop.service.web.guard import Guard
from voxpop.service.web.limits import RateLimit, caller_of
from voxpop.service.web.metrics import Telemetry
from voxpop.service.web.shuffler_app import ShufflerApp

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
METRICS = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize(
    ("address", "caller"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", ""),
        ("no:address", "no:address"),
    ],
)
def test_addresses_of_one_network_are_one_caller(address: str, caller: str) -> None:
    assert caller_of(address) == caller


def test_the_rate_limit_counts_an_ipv6_network_as_one() -> None:
    async def empty(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def ask(guard: Guard, address: str) -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "client": (address, 1), "path": "/", "method": "GET", "headers": []}
        await guard(scope, Mock(), send)
        return int(sent[0]["status"])

    guard = Guard(empty, Telemetry(), RateLimit(0.001, 1))
    asked = ("2001:db8::1", 204), ("2001:db8::2", 429), ("2001:db8:0:1::1", 204), ("192.0.2.1", 204), ("192.0.2.2", 204)
    assert [asyncio.run(ask(guard, address)) for address, _ in asked] == [status for _, status in asked]


def test_a_server_looks_after_stalled_replies() -> None:
    limits = Connections(0)
    config = module.server_config(Mock(), limits)
    assert config.callback_notify == limits.end_stalled
    assert config.timeout_notify > 0


def connection(address: str = "192.0.2.1", unsent: int = 0) -> Any:
    made = Mock(address=address, unsent=0)
    made.transport.get_write_buffer_size.return_value = unsent
    return made


def test_a_caller_at_its_limit_does_not_hinder_others() -> None:
    limits = Connections(2)
    mine = [connection() for _ in range(3)]
    assert [limits.admit(one) for one in mine] == [True, True, False]
    assert limits.admit(connection("192.0.2.2"))
    limits.forget(mine[0])
    assert limits.admit(connection())


def test_the_connection_that_is_idle_for_longest_gives_way() -> None:
    limits = Connections(3)
    mine = [connection() for _ in range(3)]
    for one in mine:
        assert limits.admit(one)
    for one in (mine[2], mine[0], mine[1]):
        limits.rest(one)
    limits.wake(mine[2])  # a request arrives on the one that was idle for longest
    assert limits.admit(connection())
    assert [one.transport.close.called for one in mine] == [True, False, False]


def test_at_the_limit_of_all_any_idle_connection_gives_way() -> None:
    limits = Connections(0, most=2)
    first, second = connection("192.0.2.1"), connection("192.0.2.2")
    assert limits.admit(first)
    assert limits.admit(second)
    assert not limits.admit(connection("192.0.2.3"))
    limits.rest(second)
    assert limits.admit(connection("192.0.2.3"))
    assert second.transport.close.called


def test_a_trusted_proxy_has_no_limit_of_its_own() -> None:
    limits = Connections(1, lambda address: address == "192.0.2.1", most=5)
    assert [limits.admit(connection()) for _ in range(6)] == [True] * 5 + [False]


def test_the_oldest_spare_connection_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SPARE", 2)
    limits = Connections(0, most=0)
    spare = [connection() for _ in range(3)]
    assert [limits.admit(one) for one in spare] == [False] * 3
    assert [one.transport.abort.called for one in spare] == [True, False, False]


def test_nothing_is_left_of_connections_that_ended() -> None:
    limits = Connections(2, most=4)
    made = [connection(f"192.0.2.{n % 3}") for n in range(9)]
    for one in made:
        limits.admit(one)
    limits.rest(made[0])
    for one in made:
        limits.forget(one)
    assert not limits._of_caller
    assert not limits._spare
    assert not limits._callers
    assert not limits._idle


def test_only_replies_that_do_not_move_are_given_up() -> None:
    limits = Connections(0)
    done, moving, stuck = connection(), connection(unsent=100), connection(unsent=100)
    for one in (done, moving, stuck):
        limits.admit(one)
    asyncio.run(limits.end_stalled())
    moving.transport.get_write_buffer_size.return_value = 50
    asyncio.run(limits.end_stalled())
    assert [one.transport.abort.called for one in (done, moving, stuck)] == [False, False, True]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ((1024, 1024), (1024, 1024), 512),
        ((1024, 10**6), (4512, 10**6), 4000),
        ((64, 64), (64, 64), 16),
        ((10**6, 10**6), None, 4000),
        ((-1, -1), None, 4000),
        ((1024, -1), (4512, -1), 4000),
    ],
)
def test_connections_leave_files_for_the_rest(
    before: tuple[int, int], after: object, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: before)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert affordable_connections() == found
    assert asked == ([] if after is None else [after])


def test_trusted_proxies_are_those_of_the_settings(tmp_path: Path) -> None:
    limits = serve._limits(None, settings_of(connections=1, trusted_proxies="192.0.2.1, 198.51.100.0/24"))
    for address, free in (("192.0.2.1", True), ("198.51.100.7", True), ("192.0.2.2", False)):
        assert [limits.admit(connection(address)) for _ in range(2)] == [True, free]
    assert Settings().connections > 0
    with pytest.raises(InputError, match="connections must be"):
        serve.run(Mock(), settings_of(connections=-1, port=0))


class Door:
    """A service on a real port, with these limits, and a way to talk to it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.place = str(parts.hostname), parts.port or 0

    def call(self, said: bytes, address: str = "127.0.0.1") -> socket.socket:
        there = socket.create_connection(self.place, timeout=HANGING, source_address=(address, 0))
        there.sendall(said)
        return there


def reply(there: socket.socket) -> tuple[int, dict[str, str], Any]:
    """Read one reply: its status, its headers and its JSON."""
    with there.makefile("rb") as stream:
        status = int(stream.readline().split()[1])
        headers = dict(line.decode().rstrip().split(": ", 1) for line in iter(stream.readline, b"\r\n"))
        return status, headers, json.loads(stream.read(int(headers["content-length"])))


def ended(there: socket.socket) -> bool:
    try:
        return there.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def shuffler(folder: Path, stack: ExitStack) -> Any:
    database = open_store(str(folder / "s.db"), "shuffler")
    stack.callback(database.close)
    return ShufflerApp(Shuffler(database, Mock()), "http://127.0.0.1:1", b"k" * 40).guarded(RateLimit(0, 1), 4096)


def door(folder: Path, stack: ExitStack, limits: Connections) -> Door:
    return Door(stack.enter_context(served(shuffler(folder, stack), limits=limits)))


def hold(found: Door, stack: ExitStack, number: int, made: list[Any]) -> None:
    """Hold connections on which nothing comes."""
    before = len(made)
    for _ in range(number):
        stack.enter_context(found.call(b""))
    until(lambda: len(made) == before + number, "connections")


def test_beyond_the_limit_health_is_answered_and_the_rest_refused(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = connections(monkeypatch)
    found = door(tmp_path, stack, Connections(3))
    hold(found, stack, 3, made)
    for said, status in ((HEALTH, 200), (HEALTH.replace(b"health", b"ready"), 200), (METRICS, 503), (b"\0", 400)):
        with found.call(said) as there:
            seen, headers, body = reply(there)
            assert (seen, headers["connection"]) == (status, "close")
            assert set(body) == ({"status"} if status == 200 else {"error"})
            assert (headers.get("retry-after") == "2") == (status == 503)
            assert ended(there)
    with found.call(METRICS, "127.0.0.2") as there:
        assert b" 200 OK" in there.recv(100)


def test_an_idle_connection_makes_room_for_another(tmp_path: Path, stack: ExitStack) -> None:
    found = door(tmp_path, stack, Connections(2))
    first, second = (stack.enter_context(found.call(HEALTH)) for _ in range(2))
    for there in (first, second):
        assert reply(there)[0] == 200
    first.sendall(HEALTH)
    assert reply(first)[0] == 200  # so that the second is idle for longer
    with found.call(HEALTH) as third:
        status, headers, _ = reply(third)
        assert (status, headers.get("connection")) == (200, None)
        assert ended(second)


def test_a_spare_connection_is_not_waited_for(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPARE_SECONDS", 0.1)
    made = connections(monkeypatch)
    found = door(tmp_path, stack, Connections(0, most=1))
    hold(found, stack, 1, made)
    with found.call(b"GET /healthz HT") as there:
        assert ended(there)


def test_requests_ahead_of_their_turn_are_not_kept(tmp_path: Path, stack: ExitStack) -> None:
    """The first is answered, and the reply says that the connection ends: a client sends the others again."""
    found = door(tmp_path, stack, Connections(0))
    with found.call(HEALTH * 1000) as there:
        status, headers, _ = reply(there)
        assert (status, headers["connection"]) == (200, "close")
        assert ended(there)


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("more", [b"\r\n" * (module.MOST_FRUITLESS // 2 + 1), b"\0", b"\r\n\0", HEALTH * 10])
def test_what_follows_a_request_does_not_spoil_its_reply(
    more: bytes, started: bool, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal of it must not be written into the reply that is being made."""
    made, failed = connections(monkeypatch), list[Exception]()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
        if started:
            await send(head)
        await asyncio.to_thread(until, lambda: made[0]._over, "a decision about the rest")
        try:
            if not started:
                await send(head)
            await send({"type": "http.response.body", "body": b"{}"})
        except Exception as error:
            failed.append(error)

    found = Door(stack.enter_context(served(slow, limits=Connections(0))))
    with found.call(HEALTH) as there:
        until(lambda: made and made[0]._answering(), "a request")
        there.sendall(more)
        status, headers, body = reply(there)
        assert (status, body) == (200, {})
        assert headers.get("connection") == (None if started else "close")
        assert ended(there)
    assert failed == []


def test_a_reply_that_is_not_read_is_given_up(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x" * 10**6, "more_body": True})

    made, limits = connections(monkeypatch), Connections(0)
    found = Door(stack.enter_context(served(endless, limits=limits)))
    with found.call(HEALTH):
        until(lambda: made and made[0].flow is not None and made[0].flow.write_paused, "a full buffer")
        assert limits._callers

        def gone() -> bool:
            asyncio.run_coroutine_threadsafe(limits.end_stalled(), made[0].loop).result()
            return not limits._callers

        until(gone, "an end")


def test_a_connection_that_broke_is_forgotten_at_once(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timer of uvicorn would keep it for 75 seconds."""
    made, limits = connections(monkeypatch), Connections(0)
    found = door(tmp_path, stack, limits)
    with found.call(HEALTH) as there:
        assert reply(there)[0] == 200
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # the end is a reset
    until(lambda: not limits._callers, "an end")
    assert made[0].timeout_keep_alive_task is None
    assert made[0]._timer is None


def test_limits_hold_during_and_after_a_handshake(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, limits = connections(monkeypatch), Connections(2)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(Path(__file__).with_name("tls.pem"))
    url = stack.enter_context(served(shuffler(tmp_path, stack), limits=limits, tls=context))
    found, https = Door(url), url.replace("http:", "https:")
    with httpx.Client(base_url=https, verify=False, timeout=HANGING) as client:
        for path, status in (("/healthz", 200), ("/metrics", 200), ("/" + "x" * 9000, 414), ("/healthz", 200)):
            assert client.get(path).status_code == status
    until(lambda: not limits._callers, "an end")
    made.clear()
    hold(found, stack, 2, made)
    with httpx.Client(base_url=https, verify=False, timeout=HANGING) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/metrics").status_code == 503

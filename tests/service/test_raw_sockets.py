"""Hostile bytes on real sockets to both services: every reply is one of ours, and nobody else is hindered."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import strategies as st

from tests.helpers_fuzzing import fuzz
from tests.helpers_waiting import HANGING
from tests.service.chaos import Victim, free_port
from tests.service.world import STUDY

EXAMPLES = 40
MEGABYTE = 2**20
KEY = b"k" * 43
GET = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n"
REPORT = {
    "serve": b"PUT /v2/studies/%s/waves/1/report HTTP/1.1\r\nhost: x\r\n" % STUDY.encode(),
    "shuffler": b"PUT /v2/batches/%s/report HTTP/1.1\r\nhost: x\r\n" % (b"b" * 43),
}
KNOWN = b"authorization: Bearer %s\r\ncontent-type: application/json\r\n" % KEY
CHUNKED = KNOWN + b"transfer-encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module", params=["serve", "shuffler"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """A real process of each service, with its usual limits on connections."""
    folder = tmp_path_factory.mktemp("raw")
    arguments = ["--database", str(folder / "c.db")]
    if request.param == "shuffler":
        arguments += ["--coordinator-url", "http://127.0.0.1:1"]
    made = Victim(folder, request.param, arguments, free_port(), VOXPOP_SHUFFLER_KEY="k" * 40)
    yield made
    made.close()


def connect(service: Victim, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=HANGING, source_address=(address, 0))


def report(service: Victim) -> bytes:
    """Return the first lines of an upload."""
    return REPORT[service.target[0][0]]


def converse(service: Victim, *parts: bytes, patience: float = HANGING) -> tuple[bytes, bool]:
    """Send these bytes; return what comes back until the connection ends or patience does, and whether it ended."""
    got = b""
    with connect(service) as there:
        try:
            for part in parts:
                there.sendall(part)
        except OSError:
            pass  # the reply may have come before
        there.settimeout(patience)
        try:
            while data := there.recv(65536):
                got += data
        except TimeoutError:
            return got, False
        except OSError:
            pass
    return got, True


def replies(got: bytes, ended: bool = True) -> list[tuple[int, Any]]:
    """Take apart what came back: replies, one after the other; return their statuses and JSON (None for a page)."""
    found = []
    while got:
        head, end, got = got.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        if first == b"HTTP/1.1 100 Continue":
            continue
        headers = dict(line.split(b": ", 1) for line in lines)
        size = int(headers.get(b"content-length", -1))
        if not end or not 0 <= size <= len(got):
            assert not ended, "the last reply is not whole"
            break
        status, page = int(first.split()[1]), headers[b"content-type"].startswith(b"text/html")
        found.append((status, None if page and status == 200 else json.loads(got[:size])))
        got = got[size:]
    return found


def check(service: Victim, got: bytes, ended: bool = True) -> list[int]:
    """Check that every reply is one of ours, and that the service is still there; return the statuses."""
    found = replies(got, ended)
    for status, body in found:
        assert status < 500 or status == 503
        assert status < 400 or (set(body) == {"error"} and body["error"] and "\n" not in body["error"])
    assert httpx.get(f"{service.url}/healthz", timeout=HANGING, verify=False).json() == {"status": "alive"}
    return [status for status, _ in found]


def last_words(service: Victim, *parts: bytes) -> list[int]:
    """Return the statuses of the replies to these bytes, after which the service must end the connection."""
    got, ended = converse(service, *parts)
    assert ended, "the connection is still open"
    return check(service, got)


HEADS = {
    "an endless header": (GET + b"a: " + b"x" * MEGABYTE, 431),
    "an endless name": (GET + b"x" * MEGABYTE, 431),
    "an endless address": (b"GET /" + b"x" * MEGABYTE, 414),
    "an endless method": (b"X" * MEGABYTE, 400),
    "endless headers": (GET + b"a: b\r\n" * MEGABYTE, 431),
    "endless empty lines": (b"\r\n" * MEGABYTE, 431),
    "a long header": (GET + b"a: " + b"x" * 17_000 + b"\r\n\r\n", 431),
    "many headers": (GET + b"a: b\r\n" * 100 + b"\r\n", 431),
    "a long address": (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
    "no HTTP": (b"\0" * 1000, 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "another host": (b"CONNECT x:80 HTTP/1.1\r\n\r\n", 400),
    "a broken address": (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
    "an address beyond ASCII": (b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n", 400),
    "a zero byte in a header": (GET + b"a: \0\r\n\r\n", 400),
    "a zero byte in an address": (b"GET /\0 HTTP/1.1\r\n\r\n", 400),
    "a header without a name": (GET + b": x\r\n\r\n", 400),
    "a folded header": (GET + b"a: b\r\n c\r\nconnection: close\r\n\r\n", 400),
    "two lengths": (GET + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab", 400),
    "a length and chunks": (GET + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
    "a length beyond numbers": (GET + b"content-length: 99999999999999999999\r\n\r\n", 400),
    "a negative length": (GET + b"content-length: -1\r\n\r\n", 400),
    "an unknown coding": (GET + b"transfer-encoding: x\r\n\r\n", 400),
    "a great length": (GET + b"content-length: 999999999999999999\r\n\r\n", 413),
    "an old version": (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    "requests ahead": ((b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n") * 10_000, 200),
    "bytes after a request": (b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n\0\0\0", 200),
    "another protocol": (b"GET /healthz HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nabc", 200),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_hostile_head_gets_one_reply_and_the_connection_ends(service: Victim, name: str) -> None:
    said, status = HEADS[name]
    assert last_words(service, said) == [status]


@pytest.mark.parametrize("size", [1, 7, 1000, 30_000])
def test_a_long_head_is_refused_however_it_arrives(service: Victim, size: int) -> None:
    said = GET + b"a: " + b"x" * 17_000 + b"\r\n\r\n"
    parts = [said[start : start + size] for start in range(0, len(said), size)]
    assert last_words(service, *parts) == [431]


def test_a_head_just_within_the_limits_is_read(service: Victim) -> None:
    address = b"/openapi.json?" + b"x" * 8100
    head = b"GET %s HTTP/1.1\r\nconnection: close\r\n%sb: %s\r\n\r\n" % (address, b"a: b\r\n" * 98, b"x" * 16_000)
    assert check(service, *converse(service, *(head[start : start + 999] for start in range(0, len(head), 999)))) == [
        200
    ]


BODIES = {
    "no number": (b"zz\r\n", 400),
    "a chunk beyond numbers": (b"fffffffffffffffffff\r\n", 400),
    "a negative chunk": (b"-1\r\n", 400),
    "no end of a chunk": (b"1\r\nxyz", 400),
    "an endless number": (b"0" * MEGABYTE, 400),
    "an endless extension": (b"1;" + b"x" * MEGABYTE, 400),
    "an endless trailer": (b"2\r\n{}\r\n0\r\na: " + b"x" * MEGABYTE, 400),
    "endless trailers": (b"2\r\n{}\r\n0\r\n" + b"a: b\r\n" * MEGABYTE, 400),
    "an endless body": (b"10000\r\n%s\r\n" % (b" " * 0x10000) * 50, 413),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_hostile_body_gets_one_reply_and_the_connection_ends(service: Victim, name: str) -> None:
    said, status = BODIES[name]
    assert last_words(service, report(service) + CHUNKED, said) == [status]


def test_trailers_are_no_headers(service: Victim) -> None:
    """A key after the body is not looked at: who may send a body is decided before it is read."""
    head = report(service) + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    assert last_words(service, head + b"2\r\n{}\r\n0\r\n" + KNOWN + b"\r\n") == [401]


def peak(service: Victim) -> float:
    """Return the most memory that the process ever had, in MiB."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


FLOODS = {
    "a header": (GET + b"a: ", b"x" * MEGABYTE),
    "headers": (GET, b"a: b\r\n" * 170_000),
    "an address": (b"GET /", b"x" * MEGABYTE),
    "requests": (b"", b"GET /openapi.json HTTP/1.1\r\n\r\n" * 30_000),
    "a trailer": (CHUNKED + b"2\r\n{}\r\n0\r\na: ", b"x" * MEGABYTE),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 170_000),
    "a body": (KNOWN + b"content-length: 99999999\r\n\r\n", b" " * MEGABYTE),
}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_does_not_take_memory(service: Victim, name: str) -> None:
    first, more = FLOODS[name]
    before = peak(service)
    for _ in range(3):
        with connect(service) as there, suppress(OSError):
            there.sendall((report(service) if first.startswith(b"auth") else b"") + first)
            for _ in range(60):
                there.sendall(more)
    check(service, b"")
    assert peak(service) - before < 50


HELD = (b"", b"GET /healthz HT", GET + b"a: ", KNOWN + b"content-length: 9\r\n\r\n{", CHUNKED + b"1;")


def test_connections_that_are_held_hinder_nobody(service: Victim) -> None:
    """All connections that one address may have, and more, wait in the middle of a request."""
    with ExitStack() as stack:
        for number in range(250):
            there = stack.enter_context(connect(service))
            said = HELD[number % len(HELD)]
            with suppress(OSError):
                there.sendall((report(service) if said.startswith(b"auth") else b"") + said)
        check(service, b"")
        assert last_words(service, GET + b"\r\n") == [503]
        with connect(service, "127.0.0.2") as other:
            other.sendall(GET + b"connection: close\r\n\r\n")
            assert other.recv(12) == b"HTTP/1.1 200"


LINES = st.sampled_from(
    [GET, b"GET / HTTP/1.1\r\n", b"PUT /healthz HTTP/1.0\r\n", b"POST * HTTP/1.1\r\n", *REPORT.values()]
)
HEADERS = st.sampled_from(
    [
        KNOWN,
        b"content-length: 2\r\n",
        b"content-length: 5\r\n",
        b"content-length: 1e9\r\n",
        b"transfer-encoding: chunked\r\n",
        b"expect: 100-continue\r\n",
        b"connection: close\r\n",
        b"connection: upgrade\r\nupgrade: h2c\r\n",
        b"x-voxpop-signature: v1=0\r\n",
        b"x-forwarded-for: \xff\r\n",
    ]
)
CONTENTS = st.sampled_from([b"{}", b'{"report": [1e999]}', b"5\r\n[0.5]\r\n", b"0\r\n\r\n", b"[" * 3000, b"\0", b""])
REQUEST = st.builds(
    lambda line, headers, content: line + b"".join(headers) + b"\r\n" + content, LINES, st.lists(HEADERS), CONTENTS
)


@st.composite
def spoiled(draw: st.DrawFn) -> list[bytes]:
    """Draw requests, some with a part cut out, doubled or replaced, and the pieces in which they arrive."""
    said = b"".join(draw(st.lists(REQUEST, min_size=1, max_size=3)))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(said)))
        end = start + draw(st.integers(0, 20))
        said = said[:start] + draw(st.one_of(st.binary(max_size=20), st.just(said[start:end] * 2))) + said[end:]
    cuts = sorted(draw(st.lists(st.integers(0, len(said)), max_size=4)))
    return [said[start:end] for start, end in zip([0, *cuts], [*cuts, len(said)], strict=True)]


def test_whatever_is_sent_the_replies_are_ours(service: Victim) -> None:
    def run(parts: list[bytes]) -> None:
        check(service, *converse(service, *parts, patience=0.02))  # a reply that comes later is not looked at

    fuzz(run, spoiled(), EXAMPLES)


def test_replies_are_taken_apart() -> None:
    """Guards the tests above."""
    one = b'HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{"error":"x"}'
    assert replies(one * 2) == [(400, {"error": "x"})] * 2
    for broken in (one[:-1], one + b"Invalid HTTP request received."):
        with pytest.raises((AssertionError, ValueError)):
            replies(broken)


def test_fuzzing_goes_on_for_its_time() -> None:
    seen: list[int] = []
    for seconds in (0.0, 0.05):
        seen.clear()
        fuzz(lambda number: seen.append(number), st.integers(), 3, seconds)
        assert (len(seen) > 3) == (seconds > 0)

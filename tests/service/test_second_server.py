"""What a coordinator takes from a second server that is hostile, or from whoever answers in its place."""

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep

import httpx
import pytest

from tests.service.served import served
from tests.service.test_helper_lies import KEYS, signed
from tests.service.world import definition, own_shuffler, private, world
from voxpop.errors import InputError
from voxpop.privacy.release import Batch
from voxpop.service.keys import Keyring
from voxpop.service.shuffler import signed_http
from voxpop.service.shuffler.batches import BatchProgress
from voxpop.service.shuffler.signed_http import HttpShuffler, require_private_url, send
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.shuffler_app import ShufflerApp

BATCH = Batch(2, 3, 4, 6, 0.5)
NAME = "b" * 43
PROGRESS = b'{"count":0,"withdrawn":[],"answered":[]}'
Reply = Callable[[httpx.Request], httpx.Response]


def link(reply: Reply) -> HttpShuffler:
    return HttpShuffler("https://helper", KEYS, "https://helper", httpx.Client(transport=httpx.MockTransport(reply)))


def announce(reply: Reply) -> BatchProgress:
    return link(reply).announce(NAME, BATCH, [b"1" * 32], [])


def test_a_reply_is_asked_for_as_it_is_and_taken_if_it_is_signed() -> None:
    asked: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return signed(request, 200, PROGRESS)

    assert announce(reply) == BatchProgress(0, [], [])
    assert asked[0].headers["accept-encoding"] == "identity"


def test_a_compressed_reply_is_refused_before_it_is_unpacked() -> None:
    packed = gzip.compress(PROGRESS + b" " * 10**7)

    def reply(request: httpx.Request) -> httpx.Response:
        made = signed(request, 200, packed)
        made.headers["content-encoding"] = "gzip"
        return made

    with pytest.raises(httpx.DecodingError, match="compresses its reply"):
        announce(reply)


class Endless(httpx.SyncByteStream):
    """A body without an end, which counts what was taken of it."""

    taken = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.taken += 2**16
            yield b" " * 2**16


def test_of_a_reply_without_an_end_no_more_is_read_than_such_a_reply_can_have() -> None:
    body = Endless()
    with pytest.raises(httpx.DecodingError, match="longer than any such reply"):
        announce(lambda request: httpx.Response(200, stream=body))
    assert body.taken <= signed_http.REPLY_BYTES + 2**17


def test_a_reply_that_misses_everybody_is_taken_however_many_they_are() -> None:
    tokens = [bytes([index % 256]) * 30 + index.to_bytes(2) for index in range(60_000)]
    missing = b",".join(b'"' + token.hex().encode() + b'"' for token in tokens)
    sealed = link(lambda request: signed(request, 200, b'{"total":[],"missing":[' + missing + b"]}"))
    assert len(sealed.seal(NAME, tokens).missing) == 60_000


@pytest.mark.parametrize("status", [200, 404, 409, 410, 422])
def test_a_reply_without_the_signature_of_this_request_and_this_status_is_none(status: int) -> None:
    def unsigned(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, stream=httpx.ByteStream(PROGRESS))

    def of_another_key(request: httpx.Request) -> httpx.Response:
        kind = signed_http.reply_kind(status, request.headers["x-voxpop-signature"])
        signature = Keyring.of(b"x" * 32).sign(kind, request.url.path, PROGRESS)
        return httpx.Response(status, stream=httpx.ByteStream(PROGRESS), headers={"x-voxpop-signature": signature})

    def of_another_status(request: httpx.Request) -> httpx.Response:
        made = signed(request, 201, PROGRESS)
        return httpx.Response(status, stream=httpx.ByteStream(PROGRESS), headers=made.headers)

    def of_another_request(request: httpx.Request) -> httpx.Response:
        other = httpx.Request("PUT", request.url, headers={"x-voxpop-signature": "v1=" + "0" * 64})
        return signed(other, status, PROGRESS)

    def of_another_body(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, stream=httpx.ByteStream(PROGRESS), headers=signed(request, status, b"{}").headers)

    for reply in (unsigned, of_another_key, of_another_status, of_another_request, of_another_body):
        with pytest.raises(httpx.DecodingError, match="is not signed with the key"):
            announce(reply)


@contextmanager
def dripping(head: bytes, cut: list[bool]) -> Iterator[str]:
    """Serve a reply that goes on after `head` for half a minute, a byte at a time; say whether it was cut before."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(head)
                for _ in range(3000):
                    sleep(0.01)
                    connection.sendall(b"x")
                cut.append(False)
            except OSError:
                cut.append(True)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join()
        listener.close()


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n"])
def test_a_reply_that_comes_a_byte_at_a_time_is_cut_off(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_http, "REPLY_SECONDS", 0.3)
    monkeypatch.setattr(signed_http, "READY_SECONDS", 0.3)
    cut: list[bool] = []
    with httpx.Client() as client:
        with dripping(head, cut) as url, pytest.raises(httpx.TransportError):
            HttpShuffler(url, KEYS, url, client).announce(NAME, BATCH, [], [])
        if head.endswith(b"x: "):
            with dripping(head, cut) as url:
                assert "does not answer" in str(HttpShuffler(url, KEYS, url, client).problem())
    assert all(cut)


@pytest.mark.parametrize(
    "url", ["http://10.0.0.3:8001", "http://shuffler:8001", "http://127.0.0.1.example", "http://0"]
)
def test_the_other_server_is_reached_over_https_unless_it_is_on_this_machine(url: str) -> None:
    with pytest.raises(InputError, match="must begin with https://"):
        require_private_url("shuffler_url", url)
    for fine in ("https://shuffler.example/a/", "http://127.0.0.1:8001", "http://[::1]:8001", "http://localhost:8001"):
        assert require_private_url("shuffler_url", fine) == fine.rstrip("/")


def test_both_services_sign_what_they_reply_to_each_other_and_nothing_else(tmp_path: Path) -> None:
    with ExitStack() as stack:
        shuffler = stack.enter_context(own_shuffler(str(tmp_path / "s.db")))
        it = stack.enter_context(world(str(tmp_path / "c.db"), definition(private("shuffle")), 30, shuffler))
        mine, theirs = CoordinatorApp(it.coordinator, KEYS), ShufflerApp(shuffler, "http://127.0.0.1:1", KEYS)
        here, there = (stack.enter_context(served(app.guarded(RateLimit(0, 1), 10**6))) for app in (mine, theirs))
        client = stack.enter_context(httpx.Client())
        said = BATCH.stated() | {"tokens": ["11" * 32], "overdue": []}
        total = {"count": 2, "total": [1, 1, 1], "tokens": ["11" * 32, "22" * 32]}
        path = f"/v2/batches/{NAME}"
        assert send(client, KEYS, there, path, said).status_code == 200
        assert send(client, KEYS, there, path, said | {"levels": 5}).status_code == 409
        assert send(client, KEYS, there, path, {}).status_code == 422
        assert send(client, KEYS, there, path, method="DELETE").status_code == 200
        assert send(client, KEYS, there, path, said).status_code == 410
        assert send(client, KEYS, here, path + "/total", total).status_code == 410
        for url, document in ((there + path, said), (here + path + "/total", total)):
            stranger = client.put(url, json=document, headers={"x-voxpop-signature": "v1=" + "0" * 64})
            assert stranger.status_code in (401, 410)
            assert stranger.status_code == 410 or "x-voxpop-signature" not in stranger.headers
        assert "x-voxpop-signature" not in client.get(there + "/readyz").headers

"""Uploads on a raw connection: in one packet or many, one after the other, and each refusal with its own status."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers_waiting import HANGING
from tests.service.test_http import Site
from tests.service.world import STUDY

LINE = f"PUT /v2/studies/{STUDY}/waves/1/report HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    made.collect()
    yield made
    made.close()


def upload(token: str, body: bytes, *headers: str, kind: str = "application/json") -> bytes:
    known = (f"authorization: Bearer {token}", f"content-type: {kind}", f"content-length: {len(body)}", *headers)
    return (LINE + "\r\n".join(known) + "\r\n\r\n").encode() + body


def report(*numbers: object) -> bytes:
    return json.dumps({"report": numbers}).encode()


def sent(site: Site, *packets: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send these packets, each by itself; return status, headers and body of the reply."""
    with socket.create_connection((site.client.base_url.host, site.client.base_url.port or 0), HANGING) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for packet in packets:
            line.sendall(packet)
        stream = line.makefile("rb")
        status = int(stream.readline().split()[1])
        lines = iter(lambda: stream.readline().decode().strip(), "")
        headers = dict(line.split(": ", 1) for line in lines)
        return status, headers, stream.read(int(headers["content-length"]))


def test_a_whole_upload_is_counted_once(site: Site) -> None:
    request = upload(site.invited()[0]["token"], report(0.5))
    first, again = sent(site, request), sent(site, request)
    assert [first[0], again[0]] == [201, 200]
    assert [json.loads(one[2]) for one in (first, again)] == [{"status": "counted"}, {"status": "counted before"}]
    assert "date" in first[1]
    assert "connection" not in first[1]
    assert site.answered == 1
    assert "voxpop_reports_total 1.0" in site.client.get("/metrics").text


def test_a_body_that_comes_after_its_head_is_waited_for(site: Site) -> None:
    request = upload(site.invited()[0]["token"], report(0.5))
    head, body = request[: -len(report(0.5))], report(0.5)
    assert sent(site, head, body)[0] == 201
    assert sent(site, head[:20], head[20:], body[:3], body[3:])[0] == 200


def test_every_refusal_has_its_status(site: Site) -> None:
    token, other = (invitation["token"] for invitation in site.invited()[:2])
    sent(site, upload(token, report(0.5)))
    wrong = {
        "another report": upload(token, report(0.25)),
        "unknown token": upload("x" * 43, report(0.5)),
        "no token": upload("", report(0.5)),
        "not JSON": upload(other, b"{"),
        "no report": upload(other, b"{}"),
        "two numbers": upload(other, report(0.5, 0.5)),
        "no JSON by its type": upload(other, report(0.5), kind="text/plain"),
        "too long": upload(other, report(0.5) + b" " * 3000),
        "another wave": upload(other, report(0.5)).replace(b"waves/1", b"waves/2"),
        "no wave": upload(other, report(0.5)).replace(b"waves/1", b"waves/x"),
        "another study": upload(other, report(0.5)).replace(STUDY.encode(), b"coffee", 1),
    }
    replies = {name: sent(site, request) for name, request in wrong.items()}
    assert {name: reply[0] for name, reply in replies.items()} == {
        "another report": 409,
        "unknown token": 401,
        "no token": 401,
        "not JSON": 400,
        "no report": 422,
        "two numbers": 422,
        "no JSON by its type": 415,
        "too long": 413,
        "another wave": 403,
        "no wave": 404,
        "another study": 403,
    }
    assert all(set(json.loads(body)) == {"error"} for _, _, body in replies.values())
    assert site.answered == 1


def test_a_caller_who_wants_the_connection_closed_is_told_so_and_it_closes(site: Site) -> None:
    status, headers, _ = sent(site, upload(site.invited()[0]["token"], report(0.5), "connection: close"))
    assert (status, headers["connection"]) == (201, "close")


def test_a_connection_serves_one_upload_after_the_other(site: Site) -> None:
    tokens = [invitation["token"] for invitation in site.invited()[:5]]
    with socket.create_connection((site.client.base_url.host, site.client.base_url.port or 0), HANGING) as line:
        for token in tokens:
            line.sendall(upload(token, report(0.5)))
            assert line.recv(1000).startswith(b"HTTP/1.1 201")
    assert site.answered == 5


def test_the_rate_limit_holds(tmp_path: Path) -> None:
    made = Site(tmp_path, rate=1e-6)
    try:
        made.collect()
        replies = [sent(made, upload("x" * 43, report(0.5)))[0] for _ in range(5)]
    finally:
        made.close()
    assert replies == [401, 401, 401, 429, 429]

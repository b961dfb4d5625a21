"""No caller can use up the memory, the time or the connections that others need."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.helpers_waiting import HANGING
from tests.service.test_http import BATCH, SHUFFLER_KEY, Site, sentence
from tests.service.world import STUDY
from voxpop.service import group_commit
from voxpop.service.group_commit import GroupWriter
from voxpop.service.keys import new_key, sign
from voxpop.service.refusals import Refusal
from voxpop.service.study.log import Snapshot, fold
from voxpop.service.web import connections as module
from voxpop.service.web import limits
from voxpop.service.web.limits import HeldBytes


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def talk(site: Site, head: str, length: int) -> socket.socket:
    """Send a request whose body is announced and never comes."""
    parts = urlsplit(str(site.client.base_url))
    there = socket.create_connection((str(parts.hostname), parts.port or 0), timeout=HANGING)
    there.sendall(f"{head} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n".encode())
    there.sendall(f"content-length: {length}\r\n".encode())
    return there


def status_of(there: socket.socket) -> int:
    return int(there.recv(4096).split(b" ")[1])


@pytest.mark.parametrize(("signature", "status"), [("", 401), ("v1=no", 401), ("v1=" + "0" * 64, 410)])
def test_a_stranger_to_the_shuffler_is_refused_before_the_body(site: Site, signature: str, status: int) -> None:
    with talk(site, f"PUT /v2/batches/{BATCH}/total", 30 * 2**20) as there:
        there.sendall(f"x-voxpop-signature: {signature}\r\n\r\n".encode())
        assert status_of(there) == status


def test_without_a_shuffler_a_total_is_refused_before_the_body(site: Site) -> None:
    site.service.shuffler_keys = None
    with talk(site, f"PUT /v2/batches/{BATCH}/total", 30 * 2**20) as there:
        there.sendall(f"x-voxpop-signature: {sign(SHUFFLER_KEY, 'PUT', '/', b'')}\r\n\r\n".encode())
        assert status_of(there) == 401


def test_a_report_longer_than_any_of_its_study_is_refused_before_the_body(site: Site) -> None:
    site.collect()
    for study, length in ((STUDY, 1100), ("coffee", 1100)):
        with talk(site, f"PUT /v2/studies/{study}/waves/1/report", length) as there:
            there.sendall(f"authorization: Bearer {new_key()}\r\n\r\n".encode())
            assert status_of(there) == 413


def test_a_report_of_a_wave_that_another_coordinator_opened_fits(site: Site) -> None:
    """The snapshot at hand is out of date: it is brought up to date before anything is refused."""
    site.collect()
    site.coordinator.snapshots._snapshots.clear()
    token = site.invited()[0]["token"]
    site.coordinator.snapshots._snapshots[STUDY] = _young(site)
    padded = b'{"report": [0.5]' + b" " * 1030 + b"}"
    assert site.put(token, padded).status_code == 201


def _young(site: Site) -> Snapshot:
    return fold(site.coordinator.log(STUDY)[:1])


def test_a_body_that_takes_too_long_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BODY_SECONDS", 0.2)
    site.collect()
    with talk(site, f"PUT /v2/studies/{STUDY}/waves/1/report", 17) as there:
        there.sendall(f"authorization: Bearer {new_key()}\r\n\r\n".encode())
        there.sendall(b"{")
        assert status_of(there) == 503


def test_bodies_in_flight_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_HELD_OF_ONE", 1000)
    site.collect()
    token = site.invited()[0]["token"]
    full = site.put(token, b'{"report": [0.5]' + b" " * 1000 + b"}")
    assert full.status_code == 503
    assert full.headers["retry-after"] == "1"
    sentence(full)
    assert site.put(token, {"report": [0.5]}).status_code == 201  # what was refused is not held any longer


def test_held_bytes_are_given_back() -> None:
    held = HeldBytes()
    held.take("a", limits.MOST_HELD_OF_ONE)
    with pytest.raises(Refusal):
        held.take("a", 1)
    held.take("b", 5)
    held.give("a", limits.MOST_HELD_OF_ONE)
    held.take("a", 1)
    assert held.total == 6


def test_what_waits_to_be_stored_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MOST_BYTES", 100)

    async def run() -> list[object]:
        writer: GroupWriter[int, int] = GroupWriter(lambda items: items)
        answers = await asyncio.gather(*(writer.put(n, 40) for n in range(3)), return_exceptions=True)
        answers.append(await writer.put(3, 100))
        await writer.close()
        return list(answers)

    first, second, third, later = asyncio.run(run())
    assert (first, second, later) == (0, 1, 3)
    assert isinstance(third, Refusal)


def connections(monkeypatch: pytest.MonkeyPatch, **settings: float) -> list[Any]:
    """Collect the server's side of the connections that are made from now on, with these settings of uvicorn."""
    made: list[Any] = []
    really = module.BoundedProtocol.connection_made

    def connection_made(self: Any, transport: Any) -> None:
        vars(self).update(settings)
        made.append(self)
        really(self, transport)

    monkeypatch.setattr(module.BoundedProtocol, "connection_made", connection_made)
    return made


@pytest.mark.parametrize("said", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /"])
def test_a_request_that_does_not_come_is_not_waited_for(
    site: Site, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.2)
    connections(monkeypatch, timeout_keep_alive=0.2)
    parts = urlsplit(str(site.client.base_url))
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=HANGING) as there:
        there.sendall(said)
        while there.recv(4096):
            pass  # an answer, if there was a request; then the end


def test_a_kept_connection_may_be_idle(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reply and before the next request, no timer runs that could end the connection."""
    made = connections(monkeypatch)
    parts = urlsplit(str(site.client.base_url))
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=HANGING) as there:
        for _ in range(2):
            there.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert status_of(there) == 200
            assert [one._timer for one in made] == [None]

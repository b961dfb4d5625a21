"""How a device treats replies, among them those of proxies, portals and dead addresses."""

import time
from email.utils import formatdate
from typing import Any

import httpx
import pytest

from tests.client.test_device import Server, release, told
from tests.helpers_privacy import promised
from tests.service.world import STUDY
from voxpop.client import Device, Outcome, Promise
from voxpop.client.retries import MOST_PAUSE, seconds_of
from voxpop.errors import InputError

PORTAL = httpx.Response(200, html="<html>Welcome to our hotel</html>")
CENTRAL = Promise("central", 5.0, participations=2)


class Scripted(Server):
    """A coordinator whose answers to some requests are replaced."""

    def __init__(self, **answers: httpx.Response | None) -> None:
        super().__init__(told(release("central")))
        self.answers, self.asked = answers, list[str]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        last = request.url.path.rsplit("/", 1)[1]
        kind = last if last in ("participant", "checkin", "decision") else "upload"
        self.asked.append(kind)
        if kind in self.answers:
            answer = self.answers[kind]
            if answer is None:
                raise httpx.ConnectError("nobody there")
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        return super().__call__(request)


def waiting(status: str = "waiting") -> httpx.Response:
    return httpx.Response(200, json={"invited": False, "status": status})


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 507, 511, 520, 524, 599])
def test_requests_answered_not_now_are_repeated_and_nothing_is_forgotten(status: int) -> None:
    for body in (b"", b"<html>", b'{"error": "busy"}'):
        server = Scripted(upload=httpx.Response(status, content=body))
        device = server.device(CENTRAL, attempts=3)
        assert device.check_in() is Outcome.OFFLINE
        assert server.asked.count("upload") == 3
        kept = device.memory.outgoing()
        assert kept is not None
        del server.answers["upload"]
        assert device.check_in() is Outcome.ANSWERED
        assert server.got == [kept.body]
        for kind in ("participant", "checkin"):
            busy = Scripted(**{kind: httpx.Response(status, content=body)})
            assert busy.device(CENTRAL, attempts=3).check_in() is Outcome.OFFLINE
            assert busy.asked.count(kind) == 3


@pytest.mark.parametrize(
    "answer",
    [
        PORTAL,
        httpx.Response(201, json={}),
        httpx.Response(200, json={"status": "ok"}),
        httpx.Response(200, json=["counted"]),
        httpx.Response(200, content=b"\xff\xfe"),
        httpx.Response(200, content=b"[" * 100_000),
        httpx.Response(204),
        httpx.Response(302, headers={"location": "http://portal/"}),
        httpx.Response(403, html="<html>pay first</html>"),
        httpx.Response(404, text="no such page"),
        httpx.Response(407),
    ],
    ids=lambda answer: f"{answer.status_code} {answer.text[:20]}",
)
def test_replies_that_voxpop_cannot_have_sent_are_not_believed(answer: httpx.Response) -> None:
    server = Scripted(upload=answer)
    device = server.device(CENTRAL)
    assert device.check_in() is Outcome.OFFLINE
    assert device.memory.outgoing() is not None
    del server.answers["upload"]
    assert device.check_in() is Outcome.ANSWERED
    for kind in ("participant", "checkin"):
        server = Scripted(**{kind: answer})
        device = server.device(CENTRAL)
        if answer.status_code < 400:
            assert device.check_in() is Outcome.OFFLINE
        else:  # a wrong address looks like this
            with pytest.raises(InputError, match="is that a voxpop coordinator"):
                device.check_in()
        assert device.memory.registered == (kind == "checkin")
        assert server.got == []


def test_a_portal_s_page_is_not_taken_for_a_decision() -> None:
    with pytest.raises(httpx.TransportError, match="not as a voxpop coordinator"):
        Scripted(decision=PORTAL).device(CENTRAL).decision()


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(409, Outcome.ANOTHER), (410, Outcome.TOO_LATE), (422, Outcome.REFUSED), (401, Outcome.REFUSED)],
)
def test_refusals_say_what_happened(status: int, outcome: Outcome) -> None:
    server = Scripted(upload=httpx.Response(status, json={"error": "one sentence"}))
    device = server.device(CENTRAL)
    assert device.check_in() is outcome
    assert device.memory.outgoing() is None
    assert "another report was counted" in Outcome.ANOTHER.value


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("2", 2, 2),
        ("0.5", 0.5, 0.5),
        ("86400", MOST_PAUSE, MOST_PAUSE),
        ("1e400", MOST_PAUSE, MOST_PAUSE),
        ("-5", 0, 0),
        ("nan", 0, 0),
        ("soon", 0, 0),
        ("", 0, 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Wed, 21 Oct 9999 07:28:00 GMT", MOST_PAUSE, MOST_PAUSE),
        ("Wed, 99 Oct 2015 07:28:00 GMT", 0, 0),
    ],
)
def test_a_pause_is_as_long_as_asked_within_reason(header: str, least: float, most: float) -> None:
    assert least <= seconds_of(header) <= most
    slept = list[float]()
    server = Scripted(checkin=httpx.Response(503, headers={"retry-after": header}))
    device = Device(
        "http://coordinator",
        STUDY,
        CENTRAL,
        http=httpx.Client(transport=httpx.MockTransport(server)),
        sleep=slept.append,
        attempts=3,
    )
    assert device.check_in() is Outcome.OFFLINE
    assert len(slept) == 2
    assert all(least <= pause <= max(most, 1.0) for pause in slept)


def test_a_date_in_retry_after_is_converted_to_seconds_from_now() -> None:
    assert 10 <= seconds_of(formatdate(time.time() + 30, usegmt=True)) <= 30


def stuck(**answers: Any) -> tuple[Scripted, Device]:
    """A device with a report for wave 1 that nobody takes."""
    server = Scripted(upload=None)
    device = server.device(CENTRAL, attempts=2)
    assert device.check_in() is Outcome.OFFLINE
    server.answers.update(answers)
    return server, device


def test_a_report_is_kept_while_its_wave_is_open() -> None:
    _, device = stuck()
    assert device.check_in() is Outcome.OFFLINE
    assert device.memory.outgoing() is not None


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("waiting", Outcome.WAITING), ("finished", Outcome.FINISHED), ("answered", Outcome.ANSWERED)],
)
def test_a_dead_address_blocks_no_longer_than_its_wave(status: str, outcome: Outcome) -> None:
    _, device = stuck(checkin=waiting(status))
    assert device.check_in() is outcome
    assert device.memory.outgoing() is None
    assert device.memory.reports == 1  # somebody may have seen it


def test_after_a_dead_address_comes_the_next_wave() -> None:
    server, device = stuck()
    for arm in range(4):
        device.record(2, arm, 0.5)
    server.invitation["wave"]["wave"] = 2
    assert device.check_in() is Outcome.OFFLINE  # wave 2's report; the address is still dead
    kept = device.memory.outgoing()
    assert kept is not None
    assert kept.wave == 2
    del server.answers["upload"]
    assert device.check_in() is Outcome.ANSWERED


@pytest.mark.parametrize(
    "change",
    [
        {"wave": None},
        {"wave": {"wave": "1"}},
        {"wave": {"wave": 10**30}},
        {"wave": {"wave": 1, "arms": [0]}},
        {"token": None},
        {"token": "a\r\nb"},
        {"token": "é"},
        {"upload": None},
        {"upload": "http://[1"},
        {"upload": "http://coordinator:port/"},
        {"upload": "mailto:me"},
        {"upload": "file:///v2/x"},
    ],
    ids=str,
)
def test_invitations_without_content_are_refused(change: dict[str, Any]) -> None:
    server = Server({**told(release("central")), **change})
    if change == {"upload": None}:
        server.invitation.pop("upload")
    device = server.device(CENTRAL)
    with pytest.raises(InputError):
        device.check_in()
    assert server.got == []
    assert device.memory.reports == 0


def test_nothing_goes_out_in_the_clear_that_was_asked_for_under_tls() -> None:
    server = Server(told(release("shuffle"), "http://shuffler/v2/x"))
    http = httpx.Client(transport=httpx.MockTransport(server))
    device = Device("https://coordinator", STUDY, promised("shuffle", 5.0), http=http, sleep=lambda _: None)
    with pytest.raises(InputError, match="over http"):
        device.check_in()

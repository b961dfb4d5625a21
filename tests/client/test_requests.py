"""What a device's requests carry, and where they go: whatever client an app gives, and whatever a server replies."""

import zlib
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.client.test_device import release, told
from tests.service.world import STUDY
from voxpop.client import Device, Outcome, Promise


class Portal:
    """A coordinator that sets cookies and redirects what it is told to."""

    def __init__(
        self, redirected: str = "", status: int = 307, reply: Callable[[], httpx.Response] | None = None
    ) -> None:
        self.redirected, self.status, self.asked = redirected, status, list[httpx.Request]()
        self.reply = reply  # to everything, if there is one

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if self.reply is not None:
            return self.reply()
        name = request.url.path.rsplit("/", 1)[-1]
        headers = {"set-cookie": "who=you; Path=/", "location": f"https://elsewhere.example/{name}"}
        if name == self.redirected:
            return httpx.Response(self.status, headers=headers)
        if request.method == "GET":
            return httpx.Response(200, headers=headers, json=told(release("central"), "/v2/report"))
        status = "registered" if name == "participant" else "counted"
        return httpx.Response(201, headers=headers, json={"status": status})

    def device(self) -> Device:
        """Make a device with a client that would follow redirects, send cookies and give passwords away."""
        http = httpx.Client(
            transport=httpx.MockTransport(self),
            follow_redirects=True,
            auth=("me", "password"),
            cookies={"earlier": "1"},
        )
        promise = Promise("central", 5.0)
        return Device("https://coordinator.example", STUDY, promise, http=http, attempts=1, sleep=lambda _: None)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("redirected", ["participant", "checkin", "report"])
def test_a_redirect_takes_neither_key_nor_report_nor_token_elsewhere(redirected: str, status: int) -> None:
    portal = Portal(redirected, status)
    device = portal.device()
    assert device.check_in() is Outcome.OFFLINE
    assert {request.url.host for request in portal.asked} == {"coordinator.example"}
    assert (device.memory.outgoing() is not None) == (redirected == "report")


def test_no_request_carries_a_cookie_or_a_password() -> None:
    portal = Portal()
    device = portal.device()
    assert device.check_in() is Outcome.ANSWERED
    device.withdraw()
    assert len(portal.asked) == 4
    for request in portal.asked:
        assert "cookie" not in request.headers
        assert request.headers["authorization"].startswith("Bearer ")


@pytest.mark.parametrize("packed", [True, False])
def test_a_reply_that_is_endless_or_unpacks_into_gigabytes_is_no_answer(
    packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxpop.client.retries.REPLY_BYTES", 2**20)
    read, packer = [], zlib.compressobj()

    def parts() -> Iterator[bytes]:
        for place in range(60):
            read.append(place)
            zeros = bytes(2**17)
            yield packer.compress(zeros) + packer.flush(zlib.Z_SYNC_FLUSH) if packed else zeros

    portal = Portal(
        reply=lambda: httpx.Response(200, headers={"content-encoding": "deflate"} if packed else {}, content=parts())
    )
    assert portal.device().check_in() is Outcome.OFFLINE
    assert len(read) <= 10


def test_a_reply_that_takes_for_ever_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxpop.client.retries.REPLY_SECONDS", -1.0)
    assert Portal().device().check_in() is Outcome.OFFLINE

"""The length of what a device sends depends on public constants only: TLS hides what is said, not its length."""

import json
import math

import httpx
import pytest

from tests.client.test_device import Server, release, told
from tests.client.test_shares import COUNTED, Pair
from tests.helpers_privacy import promised
from tests.service.world import STUDY
from voxpop.client import Device, Outcome, Promise
from voxpop.client.retries import body_of
from voxpop.privacy.none import PlainRelease

LIVES = [
    [],
    [0.0],
    [0.1, 0.2, 0.3, 0.7],
    [1e308, -1e308, 1e-320, -5e-324],
    [-2.2250738585072014e-308, -1.2345678901234567e-300, 1 / 3, -2 / 3],
    [1.0, -1.0, 1.0, -1.0],
    [1e100, 1e16, 123456789012345680000.0, -1e-7],
]


def lengths(server: Server, promise: Promise, gained: list[float]) -> list[int]:
    """Return how long the messages are that a device sends of what its owner gained."""
    device = server.device(promise)
    device.memory.forget(1)
    for arm, reward in enumerate(gained):
        device.record(1, arm, reward, rounds=1 + arm)
    assert device.check_in() is Outcome.ANSWERED
    sent = [body for _, body in server.sent] if isinstance(server, Pair) else server.got
    return [len(body) for body in sent]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("model", ["none", "central", "local", "shuffle", "aggregate"])
def test_all_answers_are_equally_long(model: str, direction: str) -> None:
    made = PlainRelease(2.0**-40, 4) if model == "none" else release(model)
    found = set()
    for gained in LIVES[2:] if model == "none" else LIVES:
        if model == "aggregate":
            server: Server = Pair([COUNTED], [COUNTED])
        else:
            server = Server(told(made, "http://shuffler/v2/x" if model == "shuffle" else "/v2/x"))
        server.invitation["wave"]["direction"] = direction
        found.add(tuple(lengths(server, promised(model, 5.0), gained)))
    assert len(found) == 1


@pytest.mark.parametrize("numbers", [1, 3, 200])
def test_every_number_of_json_has_its_room(numbers: int) -> None:
    written = [0.0, -0.0, math.pi, -2.2250738585072014e-308, -1.7976931348623157e308, 10**15, -(2**53), 5e-324]
    assert len({len(body_of({"report": [value] * numbers, "chance": 0.25})) for value in written}) == 1


def test_nobody_hears_by_its_length_of_which_stratum_a_person_is() -> None:
    for stratum in ("a", "a town of some size, by the sea", "Bürger, die jünger als dreißig sind"):
        heard = list[bytes]()

        def registers(request: httpx.Request, heard: list[bytes] = heard) -> httpx.Response:
            heard.append(request.content)
            return httpx.Response(201, json={"status": "registered"})

        http = httpx.Client(transport=httpx.MockTransport(registers))
        Device("http://coordinator", STUDY, Promise(), http=http, stratum=stratum).register()
        assert [len(body) for body in heard] == [256]
        assert json.loads(heard[0]) == {"stratum": stratum}

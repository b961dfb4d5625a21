"""A device of the aggregate model: half a report to the helper, and once it is there, the rest to the coordinator."""

import json
import os
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import numpy as np
import pytest

from tests.client.test_device import Server, release, told
from tests.helpers_privacy import promised
from tests.helpers_randomness import assert_from_the_operating_system
from tests.service.world import STUDY
from voxpop.client import Device, Memory, Outcome
from voxpop.errors import InputError
from voxpop.privacy.encoded import Encoded

HELPER, COORDINATOR = "http://helper/v2/batches/b/report", "http://coordinator/v2/x"
MADE: Encoded = release("aggregate")
PROMISE = promised("aggregate", 5.0)
COUNTED = httpx.Response(201, json={"status": "counted"})
AGAIN = httpx.Response(200, json={"status": "counted before"})


class Pair(Server):
    """A coordinator and a helper whose verdicts are scripted; None is a reply that is lost."""

    def __init__(self, helper: list[httpx.Response | None], coordinator: list[httpx.Response | None]) -> None:
        super().__init__(told(MADE))
        self.verdicts = {HELPER: helper, COORDINATOR: coordinator}
        self.sent: list[tuple[str, bytes]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if str(request.url) not in self.verdicts:
            return super().__call__(request)
        assert request.headers["authorization"] == "Bearer " + "t" * 43
        kind = "octet-stream" if str(request.url) == COORDINATOR else "json"
        assert request.headers["content-type"] == f"application/{kind}"
        self.sent.append((str(request.url), request.content))
        verdict = self.verdicts[str(request.url)].pop(0)
        if verdict is None:
            raise httpx.ReadError("cut")
        return httpx.Response(verdict.status_code, headers=verdict.headers, content=verdict.content)

    @property
    def addresses(self) -> list[str]:
        return [address for address, _ in self.sent]

    def body(self, address: str) -> bytes:
        """Return what was sent there, which must always be the same."""
        (body,) = {content for to, content in self.sent if to == address}
        return body

    @property
    def halves(self) -> tuple[bytes, bytes]:
        """The coordinator's share and the helper's."""
        return self.body(COORDINATOR), b64decode(json.loads(self.body(HELPER))["report"])


def refusal(status: int) -> httpx.Response:
    return httpx.Response(status, json={"error": "no"})


def kept(memory: Memory) -> tuple[int, int]:
    """Count what waits to be sent: the coordinator's halves, and the helper's."""
    rows = [memory._file.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("outbox", "twins")]
    return rows[0], rows[1]


def test_the_halves_add_up_to_the_report_and_the_helper_hears_what_the_noise_was_made_for() -> None:
    server, code = Pair([COUNTED], [COUNTED]), MADE.encoding
    assert server.device(PROMISE).check_in() is Outcome.ANSWERED
    assert server.addresses == [HELPER, COORDINATOR]
    theirs = json.loads(server.body(HELPER))
    assert len(theirs.pop("report")) == 192
    prio3 = MADE.batch.prio3
    both = [prio3.outputs(holder, [half])[0].tolist() for holder, half in enumerate(server.halves)]
    report = np.array([(a + b) % MADE.batch.modulus for a, b in zip(*both, strict=True)])
    checks = [prio3.verify(bytes(32), holder, [half]) for holder, half in enumerate(server.halves)]
    (message,) = prio3.messages(*(check.verifiers for check in checks))
    assert all(check.seeds[0] == message for check in checks)
    assert theirs == {
        "size": 40,
        "coordinates": 4,
        "levels": code.levels,
        "trials": code.trials,
        "chance": 0.5,
        "shared": True,
    }
    scaled = (MADE.clipped(np.full((1, 4), 0.5))[0] + MADE.ball.radius) / MADE.unit + code.trials / 2
    assert np.abs(report - scaled).max() < 1 + 4 * np.sqrt(code.trials)  # eight deviations of the coins


@pytest.mark.parametrize("lost", [(7, 0), (0, 7), (3, 4), (1, 1)])
def test_both_halves_are_sent_until_both_are_acknowledged(lost: tuple[int, int]) -> None:
    server = Pair([None] * lost[0] + [COUNTED] + [AGAIN] * 9, [None] * lost[1] + [AGAIN])
    device = server.device(PROMISE, attempts=5)
    outcomes = [device.check_in()]
    while outcomes[-1] is Outcome.OFFLINE:
        assert kept(device.memory) == (1, 1)
        outcomes.append(device.check_in())
    assert outcomes[-1] is Outcome.ANSWERED
    assert kept(device.memory) == (0, 0)
    assert server.addresses[: lost[0] + 1] == [HELPER] * (lost[0] + 1)  # nothing is at the coordinator alone
    assert server.addresses[-1] == COORDINATOR
    assert server.body(HELPER) != server.body(COORDINATOR)  # each the same as at first
    assert device.memory.reports == 1


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (401, Outcome.REFUSED),
        (403, Outcome.REFUSED),
        (409, Outcome.ANOTHER),
        (410, Outcome.TOO_LATE),
        (422, Outcome.REFUSED),
    ],
)
def test_what_the_helper_refuses_is_not_sent_to_the_coordinator(status: int, outcome: Outcome) -> None:
    server = Pair([refusal(status)], [])
    device = server.device(PROMISE)
    assert device.check_in() is outcome
    assert server.addresses == [HELPER]
    assert (kept(device.memory), device.memory.reports) == ((0, 0), 1)  # the helper has seen its half
    assert device.check_in() is Outcome.SPENT
    late = Pair([COUNTED], [refusal(status)])
    device = late.device(PROMISE)
    assert device.check_in() is outcome
    assert (kept(device.memory), late.addresses) == ((0, 0), [HELPER, COORDINATOR])


@pytest.mark.parametrize("strange", [httpx.Response(200, html="<p>"), httpx.Response(404), httpx.Response(503)])
def test_a_stranger_at_the_helper_s_address_acknowledges_nothing(strange: httpx.Response) -> None:
    server = Pair([strange] * 4, [])
    device = server.device(PROMISE, attempts=2)
    assert device.check_in() is Outcome.OFFLINE
    assert (set(server.addresses), kept(device.memory)) == ({HELPER}, (1, 1))


def test_a_device_that_is_killed_between_its_uploads_sends_the_same_halves(tmp_path: Path) -> None:
    server = Pair([COUNTED, AGAIN], [COUNTED])

    class Killed(BaseException):
        pass

    def dying(request: httpx.Request) -> httpx.Response:
        if str(request.url) == COORDINATOR:
            raise Killed
        return server(request)

    http = httpx.Client(transport=httpx.MockTransport(dying))
    with closing(Device("http://coordinator", STUDY, PROMISE, tmp_path / "d.db", http=http)) as device:
        with pytest.raises(Killed):
            device.check_in()
        assert kept(device.memory) == (1, 1)
    with closing(server.device(PROMISE, path=tmp_path / "d.db")) as again:
        assert again.check_in() is Outcome.ANSWERED
        assert (again.memory.reports, kept(again.memory)) == (1, (0, 0))
    assert server.addresses == [HELPER, HELPER, COORDINATOR]
    on_disk = b"".join(path.read_bytes() for path in tmp_path.glob("d.db*"))
    assert not [body for body in (server.body(HELPER), server.body(COORDINATOR)) if body in on_disk]


def test_a_device_that_withdraws_keeps_neither_half() -> None:
    server = Pair([COUNTED], [None])
    device = server.device(PROMISE, attempts=1)
    assert device.check_in() is Outcome.OFFLINE
    assert kept(device.memory) == (1, 1)
    device.withdraw()
    assert kept(device.memory) == (0, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"helper": None},
        {"helper": 7},
        {"helper": ""},
        {"helper": "/v2/batches/b/report"},
        {"helper": COORDINATOR},
        {"helper": "http://COORDINATOR:80/v2/batches/b/report"},
        {"helper": "ftp://helper/v2/x"},
        {"helper": "http://[1"},
        {"upload": "http://helper/v2/x"},
        {"upload": "http://spy/v2/x"},
        {"upload": HELPER},
        {"upload": HELPER, "helper": COORDINATOR},
        {"token": "a\r\nb"},
    ],
    ids=str,
)
def test_the_two_halves_go_to_two_servers_or_nowhere(change: dict[str, Any]) -> None:
    server = Pair([], [])
    server.invitation.update(change)
    device = server.device(PROMISE)
    with pytest.raises(InputError, match="nothing is sent"):
        device.check_in()
    assert (server.sent, server.got, device.memory.reports) == ([], [], 0)
    del server.invitation["helper"]
    with pytest.raises(InputError, match="nothing is sent"):
        device.check_in()


def test_a_half_goes_to_the_promised_helper_only() -> None:
    for helper in ("http://helper.evil", "http://helper:81", "https://helper", "http://other"):
        server = Pair([], [])
        with pytest.raises(InputError, match=r"the helper .* was promised, but the coordinator names"):
            server.device(promised("aggregate", 5.0, helper=helper)).check_in()
        assert (server.sent, server.got) == ([], [])
    server = Pair([COUNTED], [COUNTED])
    assert server.device(promised("aggregate", 5.0, helper="http://helper:80/")).check_in() is Outcome.ANSWERED
    for model in ("local", "shuffle"):
        with pytest.raises(InputError, match=f"the {model} model has no helper"):
            promised(model, 5.0, helper="https://helper.example")


def test_no_half_goes_out_in_the_clear_that_was_asked_for_under_tls() -> None:
    server = Pair([], [])
    http = httpx.Client(transport=httpx.MockTransport(server))
    device = Device("https://coordinator", STUDY, PROMISE, http=http, sleep=lambda _: None)
    with pytest.raises(InputError, match="over http"):
        device.check_in()


def test_shares_are_made_of_the_operating_system_s_last_bytes() -> None:
    """The nonce and all seeds, whatever the answer is; and everything else follows from the bytes before them."""
    given: list[bytes] = []
    real = os.urandom

    def noted(size: int) -> bytes:
        given.append(real(size))
        return given[-1]

    server = Pair([COUNTED], [COUNTED])
    device = server.device(PROMISE)
    _ = device.memory.key
    with patch.object(os, "urandom", noted):
        assert device.check_in() is Outcome.ANSWERED
    trials, stream = MADE.encoding.trials, b"".join(given)
    assert len(stream) == 4 * (8 + -(-trials // 8)) + 16 + 4 * 32
    last = stream[-144:]
    ours, theirs = server.halves
    assert ours[:16] == theirs[:16] == last[:16]
    assert theirs[-64:] == last[16:80]
    assert ours[-32:] == last[80:112]
    coins = [stream[32 + arm * -(-trials // 8) :][: -(-trials // 8)] for arm in range(4)]
    noise = [(int.from_bytes(some, "little") & (2**trials - 1)).bit_count() for some in coins]
    words = np.frombuffer(stream[:32], dtype="<u8")
    scaled = np.clip((MADE.clipped(np.full((1, 4), 0.5))[0] + MADE.ball.radius) / MADE.unit, 0, MADE.encoding.levels)
    up = (words >> np.uint64(11)).astype(float) * 2.0**-53 < scaled - np.floor(scaled)
    report = np.floor(scaled).astype(int) + up + noise
    assert list(server.halves) == MADE.batch.prio3.shard(report.tolist(), last)


def test_a_shared_report_follows_from_the_operating_system_s_bits() -> None:
    server = Pair([COUNTED] * 9, [COUNTED] * 9)
    devices = iter([server.device(PROMISE) for _ in range(3)])

    def report() -> list[tuple[str, bytes]]:
        assert next(devices).check_in() is Outcome.ANSWERED
        return server.sent[-2:]

    assert_from_the_operating_system(report, bits=4 * (64 + MADE.encoding.trials) + 8 * 144)

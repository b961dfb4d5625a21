"""The device: what it keeps, what it repeats, and what it refuses to send."""

import json
import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.helpers_privacy import Silent, first_wave, promised
from tests.service.test_http import Site
from tests.service.world import STUDY, definition, private
from voxpop.client import Device, Memory, Outcome, Promise, StudyOverError
from voxpop.client.storage import Outgoing
from voxpop.errors import InputError
from voxpop.io.schema import decode_release, encode, for_devices
from voxpop.policies import make_policy
from voxpop.privacy import Private
from voxpop.privacy.none import PlainRelease
from voxpop.privacy.release import HELPER


def test_a_device_answers_over_http_and_forgets(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.people = []
    url = str(site.client.base_url)
    devices = [Device(url, STUDY, Promise("central", 5.0), tmp_path / f"{number}.db") for number in range(14)]
    site.coordinator.create(STUDY, definition(private("central")))
    for device in devices:
        assert device.check_in() is Outcome.WAITING
        device.record(1, 0, 0.25, rounds=3)
        device.record(1, 0, 0.75, rounds=1)
        device.record(1, 0, 100.0, block=0)  # a round that does not count
    site.collect()
    outcomes = [device.check_in() for device in devices]
    assert sorted(outcome.name for outcome in outcomes) == ["ANSWERED"] * 12 + ["WAITING"] * 2
    site.step()
    answered = devices[outcomes.index(Outcome.ANSWERED)]
    assert math.isnan(answered.memory.averages(1, [0])[0])
    assert answered.memory.outgoing() is None
    assert site.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12
    for device in devices:
        device.close()
    site.close()


def test_a_device_that_comes_too_late_to_register_hears_that_the_study_is_over(tmp_path: Path) -> None:
    with closing(Site(tmp_path)) as site:
        site.coordinator.create(STUDY, definition(policy=make_policy("pilot-only")))
        site.step()
        with closing(Device(str(site.client.base_url), STUDY, Promise())) as device:
            assert device.check_in() is Outcome.FINISHED
            with pytest.raises(StudyOverError, match="is over"):
                device.register()


def test_the_memory_is_persistent_and_averages_rewards(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    memory = Memory(path)
    key = memory.key
    memory.record(3, 7, 1.0)
    memory.record(3, 7, 4.0, rounds=2)
    memory.keep(Outgoing(3, "http://x", "token", b"first"))
    memory.keep(Outgoing(3, "http://x", "token", b"second"))
    memory.close()
    again = Memory(path)
    assert again.key == key
    assert again.averages(3, [7]) == [3.0]
    assert again.averages(3, [7, 8]) == [3.0, pytest.approx(math.nan, nan_ok=True)]
    kept = again.outgoing()
    assert kept is not None
    assert kept.body == b"first"  # noise is drawn once
    assert path.stat().st_mode & 0o077 == 0
    again.close()


def told(release: Any, upload: str = "/v2/x") -> dict[str, Any]:
    wave = {"wave": 1, "arms": [0, 1, 2, 3], "release": for_devices(encode(release))}
    helper = {"helper": "http://helper/v2/batches/b/report"} if release.second == HELPER else {}
    return {"invited": True, "token": "t" * 43, "upload": upload, **helper, "wave": wave}


class Server:
    """A coordinator that replies, or fails, as the test demands."""

    def __init__(self, invitation: dict[str, Any], failures: int = 0) -> None:
        self.invitation, self.failures, self.got = invitation, failures, list[bytes]()
        self.verdict = httpx.Response(201, json={"status": "counted"})

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT" and request.url.path.endswith("participant"):
            return httpx.Response(201, json={"status": "registered"})
        if request.method == "GET":
            return httpx.Response(200, json=self.invitation)
        self.got.append(request.content)
        if len(self.got) <= self.failures:
            raise httpx.ReadError("cut")
        return self.verdict

    def device(self, promise: Promise, **named: Any) -> Device:
        http = httpx.Client(transport=httpx.MockTransport(self))
        made = Device("http://coordinator", STUDY, promise, http=http, sleep=lambda _: None, **named)
        for arm in range(4):
            made.record(1, arm, 0.5)
        return made


def release(model: str, epsilon: float = 5.0, people: int = 40) -> Any:
    return first_wave(people).release(Private(model, epsilon))


@pytest.mark.parametrize("model", ["central", "local", "shuffle"])
def test_the_same_report_is_sent_until_it_is_acknowledged(model: str) -> None:
    address = "http://shuffler/v2/x" if model == "shuffle" else "/v2/x"
    server = Server(told(release(model), address), failures=7)
    device = server.device(promised(model, 5.0), attempts=5)
    assert device.check_in() is Outcome.OFFLINE
    assert device.check_in() is Outcome.ANSWERED
    assert len(server.got) == 8
    assert len(set(server.got)) == 1
    report = json.loads(server.got[0])["report"]
    assert (report == [0.5] * 4) == (model == "central")


@pytest.mark.parametrize("model", ["none", "central"])
def test_a_device_of_a_study_that_minimises_turns_its_costs(model: str) -> None:
    made, promise = release(model) if model == "central" else PlainRelease(0.5, 4), promised(model, 5.0)
    server = Server(told(made))
    server.invitation["wave"]["direction"] = "minimize"
    assert server.device(promise).check_in() is Outcome.ANSWERED
    assert json.loads(server.got[0])["report"] == [-0.5] * 4
    server.invitation["wave"]["direction"] = "less"
    with pytest.raises(InputError, match="unknown direction 'less'"):
        server.device(promise).check_in()


@pytest.mark.parametrize(
    ("promise", "made", "sentence"),
    [
        (Promise("local", 5.0), release("central"), "the local model was promised"),
        (promised("shuffle", 5.0), release("local"), "the shuffle model was promised"),
        (Promise("local", 4.0), release("local"), "less noise than epsilon 4"),
        (promised("shuffle", 4.0), release("shuffle"), "less noise than epsilon 4"),
        (promised("aggregate", 5.0), release("shuffle"), "the aggregate model was promised"),
        (promised("shuffle", 5.0), release("aggregate"), "the shuffle model was promised"),
        (promised("aggregate", 4.0), release("aggregate"), "less noise than epsilon 4"),
        (Promise("local", 5.0, 1e-9), release("local"), "less noise"),
    ],
)
def test_nothing_is_sent_that_the_promise_does_not_allow(promise: Promise, made: Any, sentence: str) -> None:
    server = Server(told(made, "http://shuffler/v2/x" if promise.model == "shuffle" else "/v2/x"))
    with pytest.raises(InputError, match=sentence):
        server.device(promise).check_in()
    assert server.got == []


@pytest.mark.parametrize(("took", "ticks"), [(0.0, 1), (1e-4, 1), (0.3, 1), (0.99, 1), (1.1, 2), (2.5, 3)])
@pytest.mark.parametrize("model", ["local", "shuffle", "aggregate"])
def test_when_a_report_is_sent_does_not_depend_on_how_long_its_noise_took(model: str, took: float, ticks: int) -> None:
    now, sent = 1000.0, list[float]()

    class Slow(Silent):
        def binomial(self, *given: Any) -> Any:
            nonlocal now
            now += took
            return super().binomial(*given)

        def gaussian(self, *given: Any) -> Any:
            nonlocal now
            now += took
            return super().gaussian(*given)

    def sleep(seconds: float) -> None:
        nonlocal now
        assert seconds >= 0
        now += seconds

    class Timed(Server):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith(("/x", "/report")):
                sent.append(now)
            return super().__call__(request)

    server = Timed(told(release(model), "http://shuffler/v2/x" if model == "shuffle" else "/v2/x"))
    http = httpx.Client(transport=httpx.MockTransport(server))
    device = Device(
        "http://coordinator", STUDY, promised(model, 5.0), http=http, source=Slow(), sleep=sleep, clock=lambda: now
    )
    assert device.check_in() is Outcome.ANSWERED
    assert sent == [pytest.approx(1000.0 + ticks, abs=1e-6)] * len(sent)
    assert len(sent) == (2 if model == "aggregate" else 1)


def test_noise_for_more_people_than_there_are_is_noticed() -> None:
    made = release("shuffle")
    weaker = replace(made, encoding=replace(made.encoding, trials=made.encoding.trials // 2))
    with pytest.raises(InputError, match="less noise"):
        promised("shuffle", 5.0).check(weaker)


def test_a_shuffled_report_says_what_it_was_calibrated_for() -> None:
    made = release("shuffle")
    server = Server(told(made, "http://shuffler/v2/x"))
    assert server.device(promised("shuffle", 5.0)).check_in() is Outcome.ANSWERED
    (body,) = map(json.loads, server.got)
    code = made.encoding
    assert len(body.pop("report")) == 4
    assert body == {
        "size": 40,
        "coordinates": 4,
        "levels": code.levels,
        "trials": code.trials,
        "chance": code.chance,
    }
    assert [type(value) for value in body.values()] == [int, int, int, int, float]


@pytest.mark.parametrize("model", ["central", "local"])
def test_other_reports_are_numbers_and_nothing_else(model: str) -> None:
    server = Server(told(release(model)))
    assert server.device(promised(model, 5.0)).check_in() is Outcome.ANSWERED
    assert [set(json.loads(body)) for body in server.got] == [{"report"}]


def test_bits_go_to_the_shuffler_only_and_other_reports_to_the_coordinator_only() -> None:
    for model, address in (
        ("shuffle", "/v2/x"),
        ("shuffle", "http://coordinator/v2/x"),
        ("central", "http://spy/v2/x"),
    ):
        server = Server(told(release(model), address))
        with pytest.raises(InputError, match="nothing is sent"):
            server.device(promised(model, 5.0)).check_in()
        assert server.got == []


def test_a_report_goes_to_the_promised_shuffler_only() -> None:
    promise = promised("shuffle", 5.0, shuffler="https://shuffler.example/")
    for address in ("https://shuffler.example.evil/v2/x", "https://shuffler.example:444/v2/x", "https://other/v2/x"):
        server = Server(told(release("shuffle"), address))
        with pytest.raises(InputError, match="was promised, but the coordinator names"):
            server.device(promise).check_in()
        assert server.got == []
    server = Server(told(release("shuffle"), "https://shuffler.example:443/v2/x"))
    assert server.device(promise).check_in() is Outcome.ANSWERED
    for kept, named in (("https", "http"), ("http", "https")):  # the coordinator's own address is http
        server = Server(told(release("shuffle"), f"{named}://shuffler.example:8444/v2/x"))
        with pytest.raises(InputError, match="was promised, but the coordinator names"):
            server.device(promised("shuffle", 5.0, shuffler=f"{kept}://shuffler.example:8444")).check_in()
        assert server.got == []
    for model in ("local", "aggregate"):
        with pytest.raises(InputError, match=f"the {model} model has no shuffler"):
            promised(model, 5.0, shuffler="https://shuffler.example")


def test_without_privacy_a_device_that_missed_a_decision_sends_nothing() -> None:
    server = Server(told(PlainRelease(2.0**-40, 4)))
    device = server.device(Promise())
    device.memory.forget(1)
    device.record(1, 0, 0.5)
    assert device.check_in() is Outcome.NOTHING_TO_SAY
    assert server.got == []
    assert device.memory.reports == 0


@pytest.mark.parametrize("model", ["central", "local", "shuffle", "aggregate"])
@pytest.mark.parametrize("lived", [[], [0], [1, 3], [0, 1, 2, 3]])
def test_what_a_device_missed_is_answered_with_the_centre_and_spent(model: str, lived: list[int]) -> None:
    """Otherwise silence, which costs nothing, would tell a coordinator which decisions a person lived through."""
    made = release(model)
    server = Server(told(made, "http://shuffler/v2/x" if model == "shuffle" else "/v2/x"))
    device = server.device(promised(model, 5.0), source=Silent())
    device.memory.forget(1)
    for arm in lived:
        device.record(1, arm, 0.7)
    assert device.check_in() is Outcome.ANSWERED
    y = np.array([[0.7 if arm in lived else made.ball.centre[arm] for arm in range(4)]])
    twin = ("", server.got[0]) if model == "aggregate" else None
    assert Outgoing(1, "", "", server.got[-1], twin).report == made.randomize(y, Silent())[0].tolist()
    assert device.memory.reports == 1
    assert device.check_in() is Outcome.SPENT  # asking again does not help


def test_rewards_of_any_size_have_a_finite_average() -> None:
    memory = Memory()
    for reward in [1e308] * 10 + [-1e308] * 3:
        memory.record(1, 0, reward, rounds=10**6)
    for _ in range(3):
        memory.record(1, 1, -1.7e308)
    assert memory.averages(1, [0, 1]) == [pytest.approx(7e100 / 13), pytest.approx(-1e100)]


@pytest.mark.parametrize("model", ["central", "local", "shuffle", "aggregate"])
def test_releases_survive_the_wire(model: str) -> None:
    made = release(model)
    again = decode_release(json.loads(json.dumps(encode(made))))
    assert encode(again) == encode(made)
    np.testing.assert_array_equal(again.ball.root, made.ball.root)  # type: ignore[attr-defined]

"""A device that withdraws: nothing is left on it, and the service is told until it has heard."""

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.service.test_http import Site
from tests.service.world import STUDY, definition, private
from voxpop.client import Device, Memory, Outcome, Promise
from voxpop.client.storage import Outgoing
from voxpop.errors import InputError
from voxpop.service.study.status import status_of


def test_a_device_withdraws_over_http_and_does_nothing_any_more(tmp_path: Path) -> None:
    with closing(Site(tmp_path)) as site:
        site.people = []
        url = str(site.client.base_url)
        devices = [Device(url, STUDY, Promise("central", 5.0), tmp_path / f"{number}.db") for number in range(14)]
        site.coordinator.create(STUDY, definition(private("central")))
        for device in devices:
            device.register()
            device.record(1, 0, 0.25)
        site.collect()
        outcomes = [device.check_in() for device in devices]
        leaver = devices[outcomes.index(Outcome.ANSWERED)]
        assert [leaver.withdraw(), leaver.withdraw(), leaver.check_in()] == [Outcome.WITHDRAWN] * 3
        assert (site.answered, status_of(site.coordinator.context, STUDY).registered) == (11, 13)
        leaver.record(2, 0, 0.5)
        assert np.isnan(leaver.memory.averages(2, [0])).all()
        with pytest.raises(InputError, match="has withdrawn from the study"):
            leaver.register()
        site.step()
        assert Counter(device.check_in().name for device in devices) == {"ANSWERED": 12, "WITHDRAWN": 1, "WAITING": 1}
        site.step()
        assert site.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12
        for device in devices:
            device.close()


def test_withdrawing_deletes_rewards_and_report_from_the_device_s_disk(tmp_path: Path) -> None:
    path, body = tmp_path / "m.db", b'{"report": [0.123456789]}'
    with closing(Memory(path)) as memory:
        memory.record(1, 0, 0.987654321)
        memory.keep(Outgoing(1, "http://x", "token", body))
        assert body in path.read_bytes()
        memory.withdraw()
        stored = path.read_bytes()
        assert body not in stored
        assert np.array(0.987654321, ">f8").tobytes() not in stored
        memory.record(2, 0, 0.5)
        assert memory.keep_within(Outgoing(2, "http://x", "token", body), 5) is None
        assert memory.outgoing() is None
    with closing(Memory(path)) as again:
        assert again.withdrawn


def test_a_service_that_does_not_answer_is_told_at_the_next_check_in() -> None:
    heard: list[str] = []
    answers = [503, 503, 200]

    def handler(request: httpx.Request) -> httpx.Response:
        heard.append(f"{request.method} {request.url.path}")
        status = answers[len(heard) - 1]
        return httpx.Response(status, json={"status": "withdrawn"} if status == 200 else {"error": "not now"})

    http = httpx.Client(transport=httpx.MockTransport(handler))
    device = Device("http://service.test", "tea", Promise(), http=http, attempts=1, sleep=lambda _: None)
    device.record(1, 0, 1.0)
    assert device.withdraw() is Outcome.OFFLINE
    assert np.isnan(device.memory.averages(1, [0])).all()  # at once, whoever answers
    assert [device.check_in() for _ in range(3)] == [Outcome.OFFLINE, Outcome.WITHDRAWN, Outcome.WITHDRAWN]
    assert heard == ["DELETE /v2/studies/tea/participant"] * 3


@pytest.mark.parametrize("answer", [{}, {"status": "registered"}, {"error": "no"}])
def test_only_a_voxpop_service_can_say_that_it_has_forgotten(answer: dict[str, Any]) -> None:
    http = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=answer)))
    device = Device("http://service.test", "tea", Promise(), http=http, attempts=1, sleep=lambda _: None)
    assert device.withdraw() is Outcome.OFFLINE
    assert not device.memory.forgotten


def test_a_key_that_withdrew_on_another_device_is_wiped_here_too() -> None:
    said = {"invited": False, "status": "withdrawn"}
    statuses = {"PUT": {"status": "registered"}, "GET": said}
    http = httpx.Client(
        transport=httpx.MockTransport(lambda request: httpx.Response(200, json=statuses[request.method]))
    )
    device = Device("http://service.test", "tea", Promise(), http=http)
    device.record(1, 0, 1.0)
    assert [device.check_in(), device.check_in()] == [Outcome.WITHDRAWN] * 2
    assert np.isnan(device.memory.averages(1, [0])).all()

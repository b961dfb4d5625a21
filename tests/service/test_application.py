"""The application's side: a key of its own, the decision in force with its ETag, and waiting for another one."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

from tests.service.test_http import KEY, Site, as_
from tests.service.world import STUDY, definition
from voxpop.client import Device, Promise
from voxpop.service import operators
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal
from voxpop.service.study import participants
from voxpop.service.study.life import Wanted, change
from voxpop.service.study.participants import Newcomer

PLACE = f"/v2/studies/{STUDY}"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def begin(site: Site) -> None:
    """Create a study and register its people; the first wave is open."""
    site.coordinator.create(STUDY, definition())
    participants.register(site.coordinator.context, [Newcomer(STUDY, key) for key in site.people])
    site.step()


def application(site: Site, study: str = STUDY) -> dict[str, str]:
    answer = site.client.put("/v2/keys/shop", json={"role": "application", "study": study}, headers=as_(KEY))
    assert answer.status_code == 201, answer.text
    return as_(answer.json()["key"])


def test_an_application_s_key_plays_its_study_and_does_nothing_else(site: Site) -> None:
    begin(site)
    site.coordinator.create("cocoa", definition())
    shop = application(site)
    assert site.client.get(PLACE + "/decision", headers=shop).json()["wave"] == 1
    assert site.client.put(PLACE + "/rounds/a", json={"wave": 1, "rounds": 1}, headers=shop).json()["counted"] == 1
    for other in ("/decision", "/rounds/b"):
        method = "GET" if other == "/decision" else "PUT"
        body = None if method == "GET" else {"wave": 1, "rounds": 1}
        answer = site.client.request(method, f"/v2/studies/cocoa{other}", json=body, headers=shop)
        assert answer.status_code == 403, answer.text
    document = site.client.get("/openapi.json").json()["paths"]
    tried = 0
    for path, methods in document.items():
        for method, said in methods.items():
            if said["x-voxpop-role"] in ("operator", "viewer"):
                address = path.format(study=STUDY, wave=1, key="k", name="someone", number=1, batch="b" * 43)
                answer = site.client.request(method.upper(), address, json={}, headers=shop)
                assert answer.status_code == 403, (method, path, answer.text)
                tried += 1
    assert tried > 15
    assert site.client.get("/metrics", headers=shop).text.count("voxpop_study_wave{") == 0
    with pytest.raises(Refusal, match="application's key, which signs nobody in"):
        operators.sign_in(site.coordinator.database, shop["authorization"].removeprefix("Bearer "), 1.0)


def test_the_decision_is_for_those_with_a_key_unless_it_is_public(site: Site) -> None:
    begin(site)

    def status(headers: dict[str, str]) -> int:
        return site.client.get(PLACE + "/decision", headers=headers).status_code

    viewer = new_key()
    operators.add_key(site.coordinator.database, "ann", viewer, 1.0, "viewer", STUDY)
    known = [as_(KEY), as_(site.people[0]), application(site), as_(viewer)]
    assert [status(one) for one in known] == [200] * 4
    assert [status({}), status(as_(new_key()))] == [401, 401]
    assert "only who has a key" in site.client.get(PLACE + "/decision").json()["error"]
    assert site.client.delete(PLACE + "/participant", headers=as_(site.people[0])).status_code == 200
    assert status(as_(site.people[0])) == 401  # they have withdrawn
    for public, expected in ((True, 200), (False, 401)):
        for _ in range(2):
            answer = site.client.put(PLACE + "/public", json={"public": public}, headers=as_(KEY))
            assert answer.json() == {"public": public}
        assert status({}) == expected
    trail = site.client.get(f"/v2/audit?study={STUDY}", headers=as_(KEY)).json()["entries"]
    assert [entry["action"] for entry in trail][:2] == ["decisions closed", "decisions opened"]


def test_an_etag_says_whether_another_decision_is_in_force(site: Site) -> None:
    begin(site)
    first = site.client.get(PLACE + "/decision", headers=as_(KEY))
    tag = as_(KEY) | {"if-none-match": first.headers["etag"]}
    again = site.client.get(PLACE + "/decision", headers=tag)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    site.coordinator.play(STUDY, 1, "all", 1)
    site.step()
    now = site.client.get(PLACE + "/decision", headers=tag)
    assert (now.status_code, now.json()["stage"], now.json()["block"]) == (200, "collecting", 0)
    assert site.client.get(PLACE + "/decision?wait=soon", headers=tag).status_code == 404


def test_who_waits_is_answered_when_another_decision_is_in_force(site: Site) -> None:
    begin(site)
    client = site.client
    with ThreadPoolExecutor(3) as threads:
        first = client.get(PLACE + "/decision", headers=as_(KEY))
        tag = as_(KEY) | {"if-none-match": first.headers["etag"]}
        short = client.get(PLACE + "/decision?wait=1", headers=tag)
        assert short.status_code == 304  # nothing has changed
        begun = Event()

        def wait() -> httpx.Response:
            begun.set()
            return client.get(PLACE + "/decision?wait=60", headers=tag)

        waiting = [threads.submit(wait) for _ in range(3)]
        begun.wait()
        site.coordinator.play(STUDY, 1, "all", 1)
        site.step()
        answers = [one.result() for one in waiting]
        assert {one.status_code for one in answers} == {200}
        assert {one.json()["stage"] for one in answers} <= {"playing", "collecting"}  # as far as it was then
        change(site.coordinator.context, STUDY, Wanted.ENDED)
        last = answers[0]
        while last.json()["stage"] != "finished":  # each is another one
            last = client.get(PLACE + "/decision?wait=60", headers=as_(KEY) | {"if-none-match": last.headers["etag"]})
            assert last.status_code == 200


def test_a_device_records_only_rounds_that_count(site: Site, tmp_path: Path) -> None:
    """Between waves the best decision so far is in force, and what people get then belongs to no wave."""
    begin(site)
    with httpx.Client() as http:
        path = tmp_path / "device.db"
        device = Device(str(site.client.base_url), STUDY, Promise("none"), str(path), http=http)
        device.register()
        now = device.decision()
        assert (now["block"], now["stage"]) == (1, "open")
        assert device.record(now["wave"], now["index"], 0.5)
        site.coordinator.play(STUDY, 1, "all", 1)
        site.step()
        between = device.decision()
        assert (between["stage"], between["block"], between["rounds"]) == ("collecting", 0, 0)
        for _ in range(3):
            assert not device.record(between["wave"], between["index"], 9.0)  # as the documented loop did
            assert not device.record(between["wave"], between["index"], 9.0, block=between["block"])
        assert device.record(now["wave"], now["index"], 0.7, block=now["block"])  # of the round before, told late
        rows = sqlite3.connect(path).execute("SELECT arm, count, total FROM rewards").fetchall()
        assert rows == [(now["index"], 2, pytest.approx(1.2))]
        device.withdraw()
        assert not device.record(now["wave"], now["index"], 0.5, block=1)
        device.close()

"""How the service answers when something around it is wrong."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.helpers_waiting import HANGING
from tests.service.test_http import KEY, Site, as_, sentence
from tests.service.world import STUDY, check_in_as, definition
from voxpop.service.keys import new_key
from voxpop.service.stores.schema import receipts
from voxpop.service.study import participants
from voxpop.service.study.log import Context, Snapshot
from voxpop.service.study.scheduler import Scheduler
from voxpop.service.study.status import status_of
from voxpop.service.study.steps import Step


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def test_while_the_database_is_gone_requests_are_answered_503(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.collect()
    with site.coordinator.database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE people RENAME TO persons")
    answer = site.client.get(f"/v2/studies/{STUDY}/checkin", headers=as_(new_key()))
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    sentence(answer)
    site.close()


def test_an_address_has_no_second_spelling(site: Site) -> None:
    for address in ("/healthz/", "/healthz%0A"):
        assert site.client.get(address).status_code == 404


@pytest.mark.parametrize(
    "code", ["short", "x" * 129, "grüne-äpfel", "two words", "tab\tbetween", "line\nbetween", "at-the-end\n"]
)
def test_a_code_that_no_device_can_send_is_refused(site: Site, code: str) -> None:
    body = {"definition": definition().encode(), "enrolment_code": code}
    answer = site.client.put(f"/v2/studies/{STUDY}", json=body, headers=as_(KEY))
    assert answer.status_code == 422
    assert "letters without accents, digits and signs, and no spaces; change it" in answer.json()["error"]
    assert site.coordinator.studies() == []


def test_a_study_keeps_its_enrolment_code(site: Site) -> None:
    body = {"definition": definition().encode(), "enrolment_code": "open-sesame"}
    place = f"/v2/studies/{STUDY}"
    assert site.client.put(place, json=body, headers=as_(KEY)).status_code == 201
    assert site.client.put(place, json=body, headers=as_(KEY)).status_code == 200
    for code in ("open-barley", None):
        other = site.client.put(place, json={**body, "enrolment_code": code}, headers=as_(KEY))
        assert other.status_code == 409
        assert "another enrolment code" in sentence(other)


def test_no_answer_mixes_two_waves(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wave closes and the next one opens between reading the study's row and reading its log."""
    site.collect()
    (one, *others) = site.invited()
    key = next(key for key in site.people if json.loads(check_in_as(site.coordinator, STUDY, key))["invited"])
    snapshots = site.coordinator.snapshots
    stale = snapshots.known(STUDY)
    assert stale is not None
    for other in (one, *others):
        assert site.put(other["token"], {"report": [0.5]}).status_code == 201

    def overtaken(study: str, seq: int) -> Snapshot:
        return snapshots.current(study)

    real = participants._studies

    def early(connection: sa.Connection, names: list[str]) -> dict[str, Any]:
        rows = real(connection, names)
        return {
            name: SimpleNamespace(**{**row._mapping, "seq": stale.seq, "wave": 1, "stage": "collecting"})
            for name, row in rows.items()
        }

    site.step()
    assert status_of(site.coordinator.context, STUDY).wave == 2
    monkeypatch.setattr(participants, "_studies", early)
    monkeypatch.setattr(snapshots, "at", overtaken)
    with site.coordinator.database.write() as connection:  # as it was when the row was read
        connection.execute(sa.delete(receipts))
    assert json.loads(check_in_as(site.coordinator, STUDY, key))["status"] == "waiting"


def test_a_study_that_hangs_holds_up_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.coordinator.create("first", definition())
    site.coordinator.create("second", definition())
    hang, stepped = Event(), Event()

    def step(context: Context, study: str) -> Step:
        if study == "first":
            hang.wait()
        else:
            stepped.set()
        return Step()

    monkeypatch.setattr("voxpop.service.study.scheduler.step", step)

    async def run() -> bool:
        async with Scheduler(site.coordinator):
            done = await asyncio.to_thread(stepped.wait, HANGING)
            hang.set()
        return done

    assert asyncio.run(run())

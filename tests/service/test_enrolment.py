"""Who can register: codes for all or for one person, as many as there are people, and so many from an address."""

from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.service.test_http import KEY, Site, as_
from tests.service.world import STUDY, definition, enrol, world
from voxpop.policies import make_policy
from voxpop.service.keys import hash_key, new_key
from voxpop.service.refusals import Refusal
from voxpop.service.stores.schema import codes, people
from voxpop.service.study import participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.participants import Newcomer

ONCE = ["once-upon-a-time", "twice-upon-a-time"]


def refused(coordinator: Coordinator, code: str | None, status: int = 403) -> None:
    with pytest.raises(Refusal) as call:
        enrol(coordinator, STUDY, new_key(), code)
    assert call.value.status == status


def test_a_code_for_one_person_registers_one_and_their_device_may_ask_again(address: str) -> None:
    with world(address, definition()) as it:
        context = it.coordinator.context
        assert participants.add_codes(context, STUDY, ONCE, "me") == participants.CodesAdded(2, 2)
        assert participants.add_codes(context, STUDY, ONCE, "me") == participants.CodesAdded(0, 2)
        for code in (None, "", "nonsense-code", ONCE[0][:-1]):
            refused(it.coordinator, code)
        key = new_key()
        assert enrol(it.coordinator, STUDY, key, ONCE[0]) is True
        assert enrol(it.coordinator, STUDY, key, ONCE[0]) is False  # its reply was lost
        refused(it.coordinator, ONCE[0])
        assert participants.add_codes(context, STUDY, ONCE, "me") == participants.CodesAdded(0, 1)  # used once is used
        both = participants.register(context, [Newcomer(STUDY, new_key(), ONCE[1]) for _ in range(2)])  # at once
        assert both[0] is True
        assert isinstance(both[1], Refusal)
        with it.coordinator.database.read() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(people)).scalar_one() == 2
            assert connection.execute(sa.select(codes.c.used)).scalars().all() == [True, True]


def test_a_shared_code_still_admits_and_one_for_one_person_does_not_admit_to_another_study(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition()) as it:
        context = it.coordinator.context
        it.coordinator.create("shared", definition(), "open-sesame")
        participants.add_codes(context, "shared", ONCE, "me")
        for code in ("open-sesame", "open-sesame", ONCE[0]):
            assert enrol(it.coordinator, "shared", new_key(), code) is True
        it.coordinator.create("other", definition())
        participants.add_codes(context, "other", ["another-code"], "me")
        with pytest.raises(Refusal):
            enrol(it.coordinator, "other", new_key(), ONCE[1])
        assert it.coordinator.create("other", definition()) is False  # repeating it changes nothing
        with pytest.raises(Refusal):
            enrol(it.coordinator, "other", new_key(), "open-sesame")


def test_no_more_people_register_than_there_are(address: str) -> None:
    with world(address, definition(policy=make_policy("waves", population=5))) as it:
        context = it.coordinator.context
        participants.add_codes(context, STUDY, [*ONCE, *(f"number-{place}" for place in range(9))], "me")
        keys = [new_key() for _ in range(3)]
        first = [Newcomer(STUDY, key, f"number-{place}") for place, key in enumerate(keys)]
        assert participants.register(context, first) == [True] * 3
        more = participants.register(context, [Newcomer(STUDY, new_key(), f"number-{place}") for place in (3, 4, 5)])
        assert [answer is True for answer in more] == [True, True, False]
        refused(it.coordinator, ONCE[0], 409)
        assert enrol(it.coordinator, STUDY, keys[0], "number-0") is False
        participants.withdraw(context, STUDY, keys[1])
        assert enrol(it.coordinator, STUDY, new_key(), ONCE[0]) is True  # whose code was not spent on a refusal
        refused(it.coordinator, ONCE[1], 409)


def test_who_took_part_and_withdrew_does_not_come_back_as_somebody_else(address: str) -> None:
    with world(address, definition(policy=make_policy("waves", population=5))) as it:
        context, keys = it.coordinator.context, [new_key() for _ in range(5)]
        assert participants.register(context, [Newcomer(STUDY, key) for key in keys]) == [True] * 5
        with context.database.write() as connection:
            took_part = people.c.key_hash.in_([hash_key(key) for key in keys[:2]])
            connection.execute(sa.update(people).where(took_part).values(participations=1))
        for key in keys[:3]:
            participants.withdraw(context, STUDY, key)
        assert enrol(it.coordinator, STUDY, new_key()) is True  # instead of the one who was never asked
        refused(it.coordinator, None, 409)


def test_so_many_people_an_hour_register_from_one_address(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.service.newcomers.rate, site.service.newcomers.burst = 3 / 3600, 3.0
    with closing(site):
        site.coordinator.create(STUDY, definition())
        client, path, key = site.client, f"/v2/studies/{STUDY}/participant", new_key()
        for _ in range(9):
            assert client.put(path, headers=as_(key)).status_code in (200, 201)  # one device that asks again
        replies = [client.put(path, headers=as_(new_key())) for _ in range(3)]
        assert [reply.status_code for reply in replies] == [201, 201, 429]
        assert int(replies[-1].headers["retry-after"]) > 60


def test_codes_come_from_operators_and_are_checked(tmp_path: Path) -> None:
    site, mine = Site(tmp_path), as_(KEY)
    with closing(site):
        site.coordinator.create(STUDY, definition())
        client, path = site.client, f"/v2/studies/{STUDY}/codes"
        assert client.put(path, json={"codes": ONCE}, headers=as_(new_key())).status_code == 401
        assert client.put(path, json={"codes": ["short"]}, headers=mine).status_code == 422
        assert client.put(path, json={"codes": ONCE}, headers=mine).json() == {"added": 2, "unused": 2}
        absent = client.put("/v2/studies/nothing/codes", json={"codes": ONCE}, headers=mine)
        assert absent.status_code == 404

"""Keys of operators and viewers, the sessions of their browsers, and the audit trail."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from tests.service.test_http import KEY, Site, as_
from tests.service.world import STUDY, definition
from voxpop.errors import InputError
from voxpop.service import audit, operators
from voxpop.service.audit import Action
from voxpop.service.keys import hash_key, new_key
from voxpop.service.operators import IDLE_SECONDS, LONGEST_SECONDS, Principal
from voxpop.service.refusals import Refusal
from voxpop.service.stores.database import Database
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.status import status_of


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def database(address: str) -> Iterator[Database]:
    opened = open_store(address, "coordinator")
    yield opened
    opened.close()


def test_a_key_is_known_until_it_is_revoked_or_replaced(database: Database) -> None:
    first, second = new_key(), new_key()
    operators.add_key(database, "ann", first, 1.0)
    assert operators.principal_of(database, first) == Principal("ann")
    operators.add_key(database, "ann", second, 2.0)
    assert operators.principal_of(database, first) is None
    assert operators.revoke_key(database, "ann", 3.0, "ben", last=True)
    assert not operators.revoke_key(database, "ann", 4.0)
    with pytest.raises(Refusal, match="was revoked; ask another operator"):
        operators.principal_of(database, second)
    assert [(key.name, key.created_at, key.revoked_at) for key in operators.list_keys(database)] == [("ann", 2.0, 3.0)]
    said = [(entry.at, entry.actor, entry.action, entry.detail) for entry in audit.trail(database)]
    assert said == [
        (3.0, "ben", "key revoked", "ann"),
        (2.0, "command line", "key added", "ann (operator)"),
        (1.0, "command line", "key added", "ann (operator)"),
    ]


@pytest.mark.parametrize("name", ["", " ann", "a\nb", "x" * 65])
def test_unusable_names_are_refused(database: Database, name: str) -> None:
    with pytest.raises(InputError, match="1 to 64 printable characters"):
        operators.add_key(database, name, new_key(), 0.0)


@pytest.mark.parametrize("name", ["nobody", "\x00", "a\x00b"])
def test_a_key_that_is_none_cannot_be_revoked(database: Database, name: str) -> None:
    with pytest.raises(Refusal, match="there is no key"):
        operators.revoke_key(database, name, 0.0)


def test_viewers_are_viewers_of_a_study_that_exists(database: Database) -> None:
    with pytest.raises(InputError, match="the role viewer is for some studies; name them"):
        operators.add_key(database, "ann", new_key(), 0.0, "viewer")
    with pytest.raises(InputError, match="the role operator is for all studies; name none"):
        operators.add_key(database, "ann", new_key(), 0.0, "operator", STUDY)
    for study in ("nothing", "\x00", "a/b"):
        with pytest.raises(Refusal, match="there is no study"):
            operators.add_key(database, "ann", new_key(), 0.0, "viewer", study)
    assert operators.list_keys(database) == []


def test_a_session_ends_when_it_is_idle_old_signed_out_or_its_key_is_gone(database: Database) -> None:
    key = new_key()

    def begun(at: float) -> str:
        operators.add_key(database, "ann", key, at)
        session = operators.sign_in(database, key, at)
        assert session is not None
        return session.cookie

    def known(cookie: str, at: float, live: bool = False) -> bool:
        return operators.session_of(database, cookie, at, live) is not None

    assert operators.sign_in(database, new_key(), 0.0) is None
    cookie = begun(0.0)
    assert known(cookie, IDLE_SECONDS - 1)  # this counts as use
    assert known(cookie, 2 * IDLE_SECONDS - 2, live=True)  # and this does not
    assert not known(cookie, 2 * IDLE_SECONDS)
    cookie = begun(0.0)
    for at in range(0, round(LONGEST_SECONDS), 3600):
        assert known(cookie, at)
    assert not known(cookie, LONGEST_SECONDS + 1)
    cookie = begun(0.0)
    session = operators.session_of(database, cookie, 1.0)
    assert session is not None
    operators.sign_out(database, session, 2.0)
    assert not known(cookie, 3.0)
    cookie = begun(0.0)
    operators.revoke_key(database, "ann", 1.0, last=True)
    assert not known(cookie, 2.0)
    cookie = begun(0.0)
    operators.add_key(database, "ann", new_key(), 1.0)
    assert not known(cookie, 2.0)
    assert not known(new_key(), 0.0)


def able(database: Database) -> list[str]:
    return [key.name for key in operators.list_keys(database) if key.role == "operator" and key.revoked_at is None]


def at_once(deeds: list[Callable[[], object]]) -> list[object]:
    """Do things at the same time; return what came of each."""
    together = Barrier(len(deeds))

    def do(deed: Callable[[], object]) -> object:
        together.wait()
        try:
            return deed()
        except Refusal as refusal:
            return refusal.status

    with ThreadPoolExecutor(len(deeds)) as pool:
        return list(pool.map(do, deeds))


def test_of_two_keys_under_one_name_at_once_one_is_made(database: Database) -> None:
    for number in range(5):
        keys, name = [new_key(), new_key()], f"ann {number}"
        found = at_once([partial(operators.add_key, database, name, key, 1.0, replace=False) for key in keys])
        assert sorted(map(str, found)) == ["409", "None"]
        assert operators.principal_of(database, keys[found.index(None)]) == Principal(name)


def test_two_operators_who_revoke_each_other_at_once_leave_one(database: Database) -> None:
    for number in range(5):
        pair = [f"ann {number}", f"ben {number}"]
        for name in pair:
            operators.add_key(database, name, new_key(), 1.0)
        for name in able(database):
            if name not in pair:
                operators.revoke_key(database, name, 1.0)
        assert sorted(map(str, at_once([partial(operators.revoke_key, database, n, 2.0) for n in pair]))) == [
            "409",
            "True",
        ]
        assert len(able(database)) == 1


def test_the_last_operator_s_key_is_neither_revoked_nor_made_a_viewer_s_unless_that_is_said(site: Site) -> None:
    site.coordinator.create(STUDY, definition())
    viewer = {"role": "viewer", "study": STUDY}
    for answer in (
        site.client.delete("/v2/keys/me", headers=as_(KEY)),
        site.client.put("/v2/keys/me", json=viewer, headers=as_(KEY)),
    ):
        assert answer.status_code == 409
        assert "is the last operator's; make another operator's key first" in answer.json()["error"]
    database = site.coordinator.database
    assert able(database) == ["me"]
    assert operators.revoke_key(database, "me", 1.0, last=True)
    assert able(database) == []


def test_the_database_holds_neither_keys_nor_cookies(database: Database) -> None:
    key = new_key()
    operators.add_key(database, "ann", key, 0.0)
    session = operators.sign_in(database, key, 0.0)
    assert session is not None
    with database.read() as connection:
        text = repr(
            [connection.exec_driver_sql(f"SELECT * FROM {name}").all() for name in ("operators", "sessions", "audit")]
        )
    assert repr(hash_key(key)) in text
    assert repr(hash_key(session.cookie)) in text
    assert not any(secret in text for secret in (key, session.cookie, session.csrf))


def test_the_trail_is_read_in_pages(database: Database) -> None:
    with database.write() as connection:
        for number in range(5):
            audit.note(connection, float(number), "ann", Action.PAUSED, "tea" if number % 2 else "cocoa")
    first = audit.trail(database, most=2)
    assert [entry.at for entry in first] == [4.0, 3.0]
    assert [entry.at for entry in audit.trail(database, before=first[-1].number)] == [2.0, 1.0, 0.0]
    assert [entry.at for entry in audit.trail(database, "tea")] == [3.0, 1.0]


def test_over_http_viewers_see_their_study_and_change_nothing(site: Site) -> None:
    site.collect()
    site.coordinator.create("cocoa", definition())
    made = site.client.put("/v2/keys/boss", json={"role": "viewer", "study": STUDY}, headers=as_(KEY))
    assert made.status_code == 201
    boss = as_(made.json()["key"])
    place = f"/v2/studies/{STUDY}"
    seen = [site.client.get(path, headers=boss).status_code for path in (place, place + "/log", place + "/watch")]
    assert seen == [200, 200, 200]
    refused = [
        site.client.get("/v2/studies/cocoa", headers=boss),
        site.client.get("/v2/studies", headers=boss),
        site.client.get("/v2/keys", headers=boss),
        site.client.get("/v2/audit", headers=boss),
        site.client.put(place + "/life", json={"wanted": "ended"}, headers=boss),
        site.client.delete(place, headers=boss),
    ]
    assert [answer.status_code for answer in refused] == [403] * 6
    assert status_of(site.coordinator.context, STUDY).stage == "collecting"
    assert site.client.delete("/v2/keys/boss", headers=as_(KEY)).json() == {"name": "boss", "status": "revoked"}
    assert site.client.get(place, headers=boss).json()["error"].startswith("this key was revoked")
    trail = site.client.get(f"/v2/audit?study={STUDY}", headers=as_(KEY)).json()["entries"]
    assert [(entry["actor"], entry["action"]) for entry in trail] == [
        ("me", "key revoked"),
        ("me", "key added"),
        ("command line", "created"),
    ]


def test_over_http_a_study_lives_and_is_deleted(site: Site) -> None:
    place, me = f"/v2/studies/{STUDY}", as_(KEY)
    body = {"definition": definition().encode(), "draft": True}
    assert site.client.put(place, json=body, headers=me).status_code == 201
    for wanted, changed in (
        ("running", True),
        ("paused", True),
        ("paused", False),
        ("ended", True),
        ("archived", True),
    ):
        answer = site.client.put(place + "/life", json={"wanted": wanted}, headers=me)
        assert answer.json() == {"study": STUDY, "wanted": wanted, "changed": changed}
    assert site.client.put(place + "/life", json={"wanted": "young"}, headers=me).status_code == 422
    assert site.client.delete(place, headers=me).json() == {"study": STUDY, "status": "deleted"}
    assert site.client.get(place, headers=me).status_code == 404

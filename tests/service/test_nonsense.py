"""What nobody should have to look at, from strangers and operators: it is refused, and nothing breaks or grows."""

import asyncio
import gzip
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.helpers_waiting import HANGING
from tests.service.console.browser import Browser, Desk, desk_at
from tests.service.test_http import Site
from tests.service.world import STUDY, definition, enrol, world
from voxpop.errors import InputError
from voxpop.service import operators
from voxpop.service.console.computations import Computations
from voxpop.service.keys import hash_key, new_key
from voxpop.service.refusals import Refusal
from voxpop.service.stores.database import open_database
from voxpop.service.stores.migrate import check_backup, restore_backup, write_backup
from voxpop.service.study import participants
from voxpop.service.study.definition import Definition
from voxpop.service.study.released import ReleaseRecord

# -- requests


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk_at(str(tmp_path_factory.mktemp("nonsense") / "c.db")) as made:
        yield made


@pytest.fixture(scope="module")
def url(desk: Desk) -> Iterator[str]:
    with desk.served() as found:
        yield found


@pytest.mark.parametrize("charset", ["undefined", "unicode_escape", "utf-16", "idna", "rot13", "nonsense", "utf-7"])
@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
def test_a_form_in_another_encoding_is_refused(url: str, kind: str, charset: str) -> None:
    body = b'--x\r\ncontent-disposition: form-data; name="key"\r\n\r\n\\ud800\r\n--x--\r\n'
    for case in (charset, charset.upper(), f'"{charset}"'):
        headers = {"content-type": f"{kind}; charset={case}", "accept": "text/html"}
        assert httpx.post(f"{url}/sign-in", content=body, headers=headers).status_code == 415


NOWHERE = [b"http://[::1", b"http://[", b"http://]", b"//[x]:y", b"http://[::1]:x", b"\xff", "http://\u2100".encode()]


@pytest.mark.parametrize("address", NOWHERE)
def test_an_origin_that_is_none_is_another_site(url: str, address: bytes) -> None:
    sent = httpx.post(f"{url}/sign-in", data={"key": new_key()}, headers={b"origin": address})
    assert sent.status_code == 403


@pytest.mark.parametrize("address", NOWHERE)
def test_a_page_that_says_nonsense_of_its_address_is_led_to_sign_in(url: str, address: bytes) -> None:
    headers = {b"hx-current-url": address, b"hx-request": b"true", b"accept": b"text/html"}
    reply = httpx.get(f"{url}/", headers=headers)
    assert (reply.status_code, reply.headers["hx-redirect"]) == (401, "/sign-in")


@pytest.mark.parametrize("host", ["[::1", "[", "x]", "a b", "a/b", "x:y", "\xff", "[::1]:123456"])
@pytest.mark.parametrize("path", ["/", "/sign-in", "/nothing", f"/v2/studies/{STUDY}"])
def test_a_host_that_is_none_is_refused(url: str, path: str, host: str) -> None:
    for accept in (b"text/html", b"*/*"):
        reply = httpx.get(url + path, headers={b"host": host.encode("latin-1"), b"accept": accept})
        assert reply.status_code == 400


def test_no_reply_is_kept_unless_it_says_so(url: str, desk: Desk) -> None:
    with Browser(url) as browser:
        assert browser.sign_in().status_code == 303
        for path in ("/", f"/studies/{STUDY}/events/0", f"/studies/{STUDY}/export/waves.csv", "/healthz", "/nothing"):
            assert browser.get(path).headers["cache-control"] == "no-store"
    assert httpx.get(f"{url}/v2/studies/{STUDY}/decision").headers["cache-control"] == "no-store"


# -- definitions


def said(**parts: Any) -> Definition:
    return Definition.decode({**definition().encode(), **parts})


def labelled(label: Any) -> Definition:
    problem = definition().encode()["problem"]
    return said(problem={**problem, "labels": [*({"tea": place} for place in range(5)), {"tea": label}]})


@pytest.mark.parametrize("text", ["x" * 201, "x" * 3_000_000, "\ud800", "tea \udfff", "\x00", "te\x1ba", "\ufffe"])
def test_texts_that_no_page_can_show_are_refused(tmp_path: Path, text: str) -> None:
    with closing(Site(tmp_path)) as site:
        for made in (said(reward=text), labelled(text)):
            with pytest.raises(InputError, match="a text of a study has at most 200 characters"):
                site.coordinator.create("new", made)
        assert site.coordinator.create("new", said(reward="ä" * 200)) is True


@pytest.mark.parametrize("number", [1e308, -1e308, 1e101, 10**101])
def test_numbers_of_which_nothing_can_be_computed_are_refused(tmp_path: Path, number: float) -> None:
    with closing(Site(tmp_path)) as site, pytest.raises(InputError, match="a number of a study is at most"):
        site.coordinator.create("new", labelled(number))


def test_a_report_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(), 60) as it:
        it.run()
        course = it.coordinator.snapshots.current(STUDY)
        assert "<title>" in asyncio.run(Computations(HANGING).run("report", course=course))
        with pytest.raises(Refusal, match=r"takes longer than 0\.01 s"):
            asyncio.run(Computations(0.01).run("report", course=course))


def test_a_key_has_one_name_however_it_is_spelled(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition()) as it:
        database = it.coordinator.database
        operators.add_key(database, "boss", new_key(), 0.0)
        operators.add_key(database, "Zo\u00eb", first := new_key(), 1.0)
        with pytest.raises(Refusal, match="there is a key under the name"):
            operators.add_key(database, "Zoe\u0308", new_key(), 2.0, replace=False)
        operators.add_key(database, "Zoe\u0308", new_key(), 2.0)
        assert operators.principal_of(database, first) is None
        assert [key.name for key in operators.list_keys(database)] == ["Zo\u00eb", "boss"]
        assert operators.revoke_key(database, "\uff3aoe\u0308", 3.0) is True


# -- the record of people who withdrew


def test_registering_and_withdrawing_for_ever_leaves_one_small_file(tmp_path: Path) -> None:
    record = ReleaseRecord(tmp_path / "released")
    record.prepare()
    with world(str(tmp_path / "c.db"), definition(), released=record) as it:
        keys = [new_key() for _ in range(50)]
        for key in keys:
            enrol(it.coordinator, STUDY, key)
            participants.withdraw(it.coordinator.context, STUDY, key)
        files = [path for path in record.folder.rglob("*") if path.is_file()]
        assert len(files) == 1
        assert files[0].stat().st_size <= 70 * len(keys)
        assert set(record.forgotten(STUDY)) == set(map(hash_key, keys))
        for key in keys[:2]:
            assert enrol(it.coordinator, STUDY, key) is True  # as someone new
        participants.withdraw(it.coordinator.context, STUDY, keys[1])
        assert set(record.forgotten(STUDY)) == set(map(hash_key, keys[1:]))
        assert participants.forget_again(it.coordinator.context) == 0


def test_what_was_not_written_as_a_whole_hides_nothing_that_was(tmp_path: Path) -> None:
    record = ReleaseRecord(tmp_path)
    record.note_forgotten(STUDY, b"1" * 32)
    with (tmp_path / "forgotten" / STUDY / "keys").open("a") as file:
        file.write("\n-3232")  # the machine stopped here
    record.note_forgotten(STUDY, b"3" * 32)
    (tmp_path / "forgotten" / STUDY / (b"4" * 32).hex()).touch()  # as earlier versions remembered people
    assert record.forgotten(STUDY) == [b"1" * 32, b"3" * 32, b"4" * 32]
    record.remember([(STUDY, b"4" * 32), (STUDY, b"5" * 32)])
    assert record.forgotten(STUDY) == [b"1" * 32, b"3" * 32]


# -- backups


def backup(folder: Path, *statements: str) -> Path:
    """Make a backup, with what somebody has done to it."""
    with world(str(folder / "c.db"), definition(), 3) as it:
        write_backup(it.coordinator.database, "coordinator", folder / "whole")
    (folder / "b.db").write_bytes(gzip.decompress((folder / "whole").read_bytes()))
    with closing(sqlite3.connect(folder / "b.db")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    (folder / "backup").write_bytes(gzip.compress((folder / "b.db").read_bytes()))
    return folder / "backup"


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "a/b", "", "A", ".", "x" * 64])
def test_a_study_of_a_backup_has_a_name_by_which_a_file_can_be_called(tmp_path: Path, name: str) -> None:
    tables = ("studies SET id", "events SET study", "people SET study", "counts SET study")
    hostile = backup(tmp_path, *(f"UPDATE {table} = '{name}'" for table in tables))
    with closing(open_database(str(tmp_path / "new.db"))) as database, pytest.raises(InputError, match="not a whole"):
        restore_backup(database, hostile)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = printf('%.*c', 200000, '[')",
        "UPDATE events SET at = 'never'",
        "UPDATE people SET id = 'x' WHERE 0",
        "UPDATE alembic_version SET version_num = 'coordinator_3'",
        "UPDATE alembic_version SET version_num = x'ff'",
        "CREATE TRIGGER t AFTER UPDATE ON alembic_version BEGIN SELECT RAISE(ABORT, 'no'); END",
        "DROP TABLE codes",
    ],
)
def test_what_somebody_did_to_a_backup_ends_in_one_sentence_or_nowhere(tmp_path: Path, statement: str) -> None:
    hostile = backup(tmp_path, statement)
    with closing(open_database(str(tmp_path / "new.db"))) as database, suppress(InputError):
        restore_backup(database, hostile)


def test_a_backup_that_unpacks_into_more_than_any_is_refused_before_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxpop.service.stores.migrate.LEAST_UNPACKED", 2**20)
    bomb = tmp_path / "bomb"
    bomb.write_bytes(gzip.compress(bytes(20 * 2**20)))
    reads: list[int] = []
    read = gzip.GzipFile.read

    def noted(self: gzip.GzipFile, size: int) -> bytes:
        reads.append(size)
        return read(self, size)

    monkeypatch.setattr(gzip.GzipFile, "read", noted)
    with pytest.raises(InputError, match="is not a whole backup"):
        check_backup(bomb)
    assert len(reads) <= 4

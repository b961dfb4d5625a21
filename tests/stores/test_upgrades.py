"""Databases of every earlier version, with what they hold, are brought to the newest by one command."""

import gzip
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.helpers_cli import main_of, refusal
from tests.service.world import SECRET, STUDY, Clock, World
from voxpop.errors import InputError
from voxpop.service.stores import schema
from voxpop.service.stores.backup import restore_backup
from voxpop.service.stores.database import Database, open_database
from voxpop.service.stores.migrate import open_store, upgrade_to
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.released import ReleaseRecord

OLD = """
    INSERT INTO studies (id, seq, phase, stage, played, opened_at, short) VALUES
        ('tea', 1, 1, 'collecting', 4, 0, 0), ('cocoa', 1, 1, 'open', 0, 0, 0);
    INSERT INTO events (study, seq, kind, at, body) VALUES ('tea', 0, 'created', 5, '{}');
    INSERT INTO people (id, study, key_hash, participations) VALUES
        (1, 'tea', 'a', 0), (2, 'tea', 'b', 1), (3, 'tea', 'c', 0), (4, 'cocoa', 'd', 0);
    INSERT INTO invitations (id, study, phase, person, nonce, token_hash, deadline, ready, expired) VALUES
        (1, 'tea', 1, 1, '', 'x', 0, true, false), (2, 'tea', 1, 2, '', 'y', 0, true, true),
        (3, 'tea', 1, 3, '', 'z', 0, true, false);
    INSERT INTO receipts (invitation) VALUES (1);
    INSERT INTO inbox (invitation, study, phase, body) VALUES (1, 'tea', 1, 'report');
    INSERT INTO operators (name, key_hash) VALUES ('me', 'hash')
"""
COUNTED = "; INSERT INTO counts (study, registered, never_asked) VALUES ('tea', 3, 2), ('cocoa', 1, 1)"
SHUFFLED = """
    INSERT INTO batches (id, coordinates, bits, size, state) VALUES ('one', 2, 6, 3, 'collecting');
    INSERT INTO tokens (token_hash, batch, withdrawn) VALUES ('x', 'one', false);
    INSERT INTO reports (token_hash, batch, body) VALUES ('x', 'one', 'report')
"""


def rows(database: Database, table: sa.Table, *columns: str) -> list[tuple[Any, ...]]:
    wanted = sa.select(*(table.c[name] for name in columns)).order_by(table.c[columns[0]])
    with database.read() as connection:
        return [tuple(row) for row in connection.execute(wanted)]


@pytest.mark.parametrize(("version", "held"), [("coordinator_1", OLD), ("coordinator_2", OLD + COUNTED)])
def test_a_coordinator_of_any_version_keeps_what_it_holds(
    address: str, version: str, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_database(address)) as database:
        with database.write() as connection:
            upgrade_to(connection, "coordinator", version)
            for statement in held.split(";"):
                connection.exec_driver_sql(statement)
        done = main_of(monkeypatch)("migrate", "--database", address)
        assert (done.code, done.out.split(": ")[-1].split(" -> ")[0]) == (0, version)
        assert rows(database, schema.studies, "id", "stage", "life") == [
            ("cocoa", "open", "running"),
            ("tea", "collecting", "running"),
        ]
        assert rows(database, schema.counts, "study", "registered", "never_asked", "withdrawn") == [
            ("cocoa", 1, 1, 0),
            ("tea", 3, 2, 0),
        ]
        counted = rows(database, schema.tallies, "study", "asked", "answered", "lapsed", "refused")
        assert counted == [("tea", 3, 1, 1, 0)]
        assert rows(database, schema.operators, "name", "role", "revoked_at") == [("me", "operator", None)]
        assert rows(database, schema.people, "id", "withdrawn") == [(number, False) for number in (1, 2, 3, 4)]
        assert len(rows(database, schema.inbox, "invitation")) == len(rows(database, schema.events, "seq")) == 1
    open_store(address, "coordinator").close()


def test_a_shuffler_of_the_first_version_keeps_what_it_holds(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_database(address)) as database:
        with database.write() as connection:
            upgrade_to(connection, "shuffler", "shuffler_1")
            for statement in SHUFFLED.split(";"):
                connection.exec_driver_sql(statement)
        done = main_of(monkeypatch)("migrate", "--shuffler", "--database", address)
        assert done.code == 0
        assert rows(database, schema.batches, "id", "size", "levels") == [("one", 3, None)]
        assert len(rows(database, schema.reports, "batch")) == 1
    open_store(address, "shuffler").close()


BEFORE = Path(__file__).parent / "before"  # a study in its second wave, by the last version that said "phase"


def goes_on(database: Database, folder: Path) -> None:
    """Check that the study has what it had, and conduct it to its end with the people who know it."""
    known = json.loads((BEFORE / "people.json").read_text())
    record = ReleaseRecord(folder / "released")
    record.prepare()
    shutil.copy(BEFORE / "released.json", record.folder / f"{STUDY}.json")
    clock = Clock(known["now"])
    coordinator = Coordinator(database, SECRET, clock=clock, released=record)
    it = World(coordinator, clock, keys=known["keys"], plays=known["plays"])
    it.asked |= known["asked"]
    assert (it.status["stage"], it.status["wave"], it.status["answered"], it.status["invited"]) == (
        "collecting",
        2,
        7,
        7,
    )
    assert it.status["best"]["certified"] == 2.3412096877526363
    it.run()
    last = record.of(STUDY)
    assert last is not None
    assert last.wave == it.status["wave"] > 2
    assert all(len(waves) == 1 for waves in it.asked.values())


def test_a_study_of_the_last_version_goes_on_in_the_middle_of_a_wave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.db"
    path.write_bytes(gzip.decompress((BEFORE / "coordinator_3.db.gz").read_bytes()))
    assert main_of(monkeypatch)("migrate", "--database", path).code == 0
    with closing(open_store(str(path), "coordinator")) as database:
        goes_on(database, tmp_path)


def test_a_backup_that_was_made_before_an_upgrade_becomes_a_database_of_either_kind(
    address: str, tmp_path: Path
) -> None:
    """A compressed database is a backup, too."""
    with closing(open_database(address)) as database:
        assert restore_backup(database, BEFORE / "coordinator_3.db.gz").schema == "coordinator_3"
        goes_on(database, tmp_path)


def test_a_backup_of_the_earlier_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    with (
        closing(open_database(str(path))) as database,
        pytest.raises(InputError, match="a backup of format 1, which an earlier voxpop made; restore it with") as call,
    ):
        restore_backup(database, BEFORE / "backup.gz")
    refusal(call)

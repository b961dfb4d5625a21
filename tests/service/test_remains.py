"""What stays on disk: nothing of a report after its wave, and nothing that other users of the machine can read."""

from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.world import World, definition, own_shuffler, private, world
from voxpop.service.stores import database as stores
from voxpop.service.stores.database import open_database


def on_disk(folder: Path, name: str) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob(f"{name}*"))


def told(it: World, found: bytes) -> int:
    reports = [np.array(report).tobytes() for report in it.reports[1]]
    return sum(report in found for report in reports)


def begin(it: World) -> None:
    it.settle()
    it.play_all()
    it.settle()


def test_no_report_is_on_disk_after_its_wave(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(), 30) as it:
        begin(it)
        it.answer_all()
        assert told(it, on_disk(tmp_path, "c.db")) == len(it.reports[1]) > 0
        it.settle()
        assert told(it, on_disk(tmp_path, "c.db")) == 0


def test_no_report_is_on_disk_after_its_batch(tmp_path: Path) -> None:
    with (
        own_shuffler(str(tmp_path / "s.db")) as shuffler,
        world(str(tmp_path / "c.db"), definition(private("shuffle")), 30, shuffler) as it,
    ):
        begin(it)
        invited = list(it.invited())
        for key, invitation in invited[:-1]:
            assert it.answer(key, invitation) is True
        assert told(it, on_disk(tmp_path, "s.db")) == len(invited) - 1
        assert it.answer(*invited[-1]) is True
        assert told(it, on_disk(tmp_path, "s.db")) == 0


def test_a_reader_delays_the_scrub_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "SCRUB_SECONDS", 0.01)
    with world(str(tmp_path / "c.db"), definition(), 30) as it:
        begin(it)
        it.answer_all()
        with it.coordinator.database.read() as reader:
            reader.execute(sa.text("SELECT 1 FROM inbox")).first()
            it.settle()
            assert told(it, on_disk(tmp_path, "c.db")) > 0
            assert not it.coordinator.database.scrub()
        assert it.coordinator.database.scrub()
        assert told(it, on_disk(tmp_path, "c.db")) == 0


def test_what_a_killed_process_left_is_scrubbed_by_the_next(tmp_path: Path) -> None:
    first = open_database(str(tmp_path / "c.db"))
    with first.write() as connection:
        connection.execute(sa.text("CREATE TABLE notes (body TEXT)"))
        connection.execute(sa.text("INSERT INTO notes VALUES ('sesame')"))
    with first.write() as connection:
        connection.execute(sa.text("DELETE FROM notes"))
    assert b"sesame" in on_disk(tmp_path, "c.db")
    second = open_database(str(tmp_path / "c.db"))
    assert second.scrub()
    assert b"sesame" not in on_disk(tmp_path, "c.db")
    first.close()
    second.close()


def test_only_the_owner_may_read_a_database(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "c.db"))
    with database.write() as connection:
        connection.execute(sa.text("CREATE TABLE notes (body TEXT)"))
    rights = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert rights == dict.fromkeys(("c.db", "c.db-wal", "c.db-shm"), 0o600)
    database.close()

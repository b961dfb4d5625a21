"""A database or a backup of the last version, with what it holds, is brought to the newest by one command."""

import gzip
import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers_cli import main_of, refusal
from tests.service.world import SECRET, STUDY, Clock, World
from voxpop.errors import InputError
from voxpop.service.stores.backup import restore_backup
from voxpop.service.stores.database import Database, open_database
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.released import ReleaseRecord

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
    assert (it.status.stage, it.status.wave, it.status.answered, it.status.invited) == (
        "collecting",
        2,
        7,
        7,
    )
    assert it.status.best.certified is None  # it is no better than what is assumed
    it.run()
    last = record.of(STUDY)
    assert last is not None
    assert last.wave == it.status.wave > 2
    assert all(len(waves) == 1 for waves in it.asked.values())


def test_a_study_of_the_last_version_goes_on_in_the_middle_of_a_wave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.db"
    path.write_bytes(gzip.decompress((BEFORE / "coordinator_3.db.gz").read_bytes()))
    with pytest.raises(InputError, match=f"coordinator_3, and .* run: voxpop migrate --database {path}") as call:
        open_store(str(path), "coordinator")
    refusal(call)
    done = main_of(monkeypatch)("migrate", "--database", path)
    assert (done.code, done.out.strip()) == (0, f"{path}: coordinator_3 -> coordinator_5")
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

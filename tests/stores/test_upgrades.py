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
from voxpop.service.stores.database import Database, open_database
from voxpop.service.stores.migrate import open_store, restore_backup
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.released import ReleaseRecord

# Studies in the middle of their second wave: by the last version that said "phase", and by the last without blocks.
BEFORE = Path(__file__).parent / "before"
INVITED = {"3": 7, "5": 13}  # people who have not answered, besides seven who have


def goes_on(database: Database, folder: Path, version: str) -> World:
    """Check that the study has what it had, and conduct it to its end with the people who know it."""
    known = json.loads((BEFORE / f"people_{version}.json").read_text())
    record = ReleaseRecord(folder / "released")
    record.prepare()
    shutil.copy(BEFORE / f"released_{version}.json", record.folder / f"{STUDY}.json")
    clock = Clock(known["now"])
    coordinator = Coordinator(database, SECRET, clock=clock, released=record)
    it = World(coordinator, clock, keys=known["keys"], plays=known["plays"])
    it.asked |= known["asked"]
    assert (it.status.stage, it.status.wave, it.status.answered, it.status.invited) == (
        "collecting",
        2,
        7,
        INVITED[version],
    )
    it.run()
    last = record.of(STUDY)
    assert last is not None
    assert last.wave == it.status.wave > 2
    assert all(len(waves) == 1 for waves in it.asked.values())
    return it


@pytest.mark.parametrize("version", ["3", "5"])
def test_a_study_of_an_earlier_version_goes_on_in_the_middle_of_a_wave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    path, before = tmp_path / "c.db", f"coordinator_{version}"
    path.write_bytes(gzip.decompress((BEFORE / f"{before}.db.gz").read_bytes()))
    with pytest.raises(InputError, match=f"{before}, and .* run: voxpop migrate --database {path}") as call:
        open_store(str(path), "coordinator")
    refusal(call)
    done = main_of(monkeypatch)("migrate", "--database", path)
    assert (done.code, done.out.strip()) == (0, f"{path}: {before} -> coordinator_9")
    with closing(open_store(str(path), "coordinator")) as database:
        it = goes_on(database, tmp_path, version)
        _, second, third, *_ = it.coordinator.snapshots.current(STUDY).closed
        assert (second.plan.blocks, second.plan.orders) == (1, None)  # as it was begun
        assert third.plan.orders is not None
        assert (third.plan.blocks > 1) == (version == "5")  # that of version 3 has another policy


@pytest.mark.parametrize("version", ["3", "5"])
def test_a_backup_that_was_made_before_an_upgrade_becomes_a_database_of_either_kind(
    address: str, tmp_path: Path, version: str
) -> None:
    """A compressed database is a backup, too."""
    with closing(open_database(address)) as database:
        before = f"coordinator_{version}"
        assert restore_backup(database, BEFORE / f"{before}.db.gz").schema == before
        goes_on(database, tmp_path, version)


def test_a_backup_of_the_earlier_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    with (
        closing(open_database(str(path))) as database,
        pytest.raises(InputError, match="a backup of format 1, which an earlier voxpop made; restore it with") as call,
    ):
        restore_backup(database, BEFORE / "backup.gz")
    refusal(call)

"""A service does not start on a file that is no database, or on a damaged one; it says so in one sentence."""

from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.helpers_cli import main_of, refusal
from voxpop.errors import InputError
from voxpop.service.stores import migrate as soundness
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import marks


def made(path: Path, rows: int = 300) -> int:
    """Make a coordinator's database, and return the place of a page that holds some of its rows."""
    with closing(open_store(str(path), "coordinator")) as database:
        with database.write() as connection:
            connection.execute(sa.insert(marks), [{"name": str(n), "mark": bytes(500)} for n in range(rows)])
            root = connection.exec_driver_sql("SELECT rootpage FROM sqlite_master WHERE name = 'marks'").scalar_one()
        assert database.scrub()
    return int((root - 1) * 4096)


def spoil(path: Path, place: int, damage: bytes = b"\xff" * 4096) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(damage)


@pytest.mark.parametrize("command", [("serve",), ("migrate",), ("keys", "operator", "me")])
def test_a_file_that_is_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 1000)
    done = main_of(monkeypatch)(*command, "--database", path)
    assert done.code == 2
    assert done.err == f"error: {path} is not an SQLite database; name another file, or restore this one\n"
    assert path.read_text() == "not a database\n" * 1000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("part", ["page", "places of rows"])
def test_a_damaged_database_is_noticed_at_the_start(tmp_path: Path, part: str) -> None:
    path = tmp_path / "c.db"
    root = made(path)
    if part == "page":
        spoil(path, root)
    else:  # within the last page, after its header: SQLite can read it, and finds no rows where they should be
        spoil(path, path.stat().st_size - 4096 + 8, bytes(64))
    with pytest.raises(InputError, match="is damaged; restore it from a backup") as call:
        open_store(str(path), "coordinator")
    refusal(call)


def test_in_a_large_file_the_essential_tables_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soundness, "MOST_BYTES", 0)
    path = tmp_path / "c.db"
    place = made(path)
    open_store(str(path), "coordinator").close()
    spoil(path, place)
    with pytest.raises(InputError, match="is damaged"):
        open_store(str(path), "coordinator")

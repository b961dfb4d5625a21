"""Commands that open a database find it where the service has it, and make none by mistake."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers_cli import main_of
from voxpop.service.audit import trail
from voxpop.service.keys import new_key, write_key
from voxpop.service.operators import list_keys
from voxpop.service.stores.migrate import open_store


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_the_environment_names_the_database(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, where no flag is given."""
    voxpop = main_of(monkeypatch)
    open_store(address, "coordinator").close()
    monkeypatch.setenv("VOXPOP_DATABASE", address)
    write_key(tmp_path / "secret.key", new_key())
    made = voxpop("keys", "operator", "me")
    assert (made.code, made.err) == (0, "")
    assert "me" in voxpop("keys", "list").out
    assert voxpop("keys", "revoke", "me", "--last").code == 0
    assert voxpop("keys", "rotate", tmp_path / "secret.key", "--add").code == 0
    assert "coordinator_9 -> coordinator_9" in voxpop("migrate").out
    with closing(open_store(address, "coordinator")) as store:
        assert [(key.name, key.revoked_at is None) for key in list_keys(store)] == [("me", False)]
        assert "secret rotated" in {entry.action for entry in trail(store)}
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ["keys", "list"],
        ["keys", "viewer", "ann", "tea"],
        ["keys", "revoke", "me"],
        ["keys", "rotate", "../secret.key"],
        ["migrate"],
        ["migrate", "--shuffler"],
        ["restored"],
    ],
)
def test_no_database_is_made_by_those_who_look_something_up(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_key(tmp_path / "secret.key", "k" * 40)
    done = main_of(monkeypatch)(*command, "--database", "typo.db")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "there is no database 'typo.db'; check --database" in done.err
    assert list(Path().iterdir()) == []
    assert (tmp_path / "secret.key").read_text() == "k" * 40 + "\n"


def test_an_empty_database_has_nothing_to_look_up(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("empty.db").touch()
    done = main_of(monkeypatch)("keys", "list", "--database", "empty.db" if address.endswith(".db") else address)
    assert (done.code, "is empty; check --database" in done.err) == (2, True)


def test_the_first_key_may_come_before_the_service_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    voxpop = main_of(monkeypatch)
    made = voxpop("keys", "operator", "me", "--database", "new.db")
    assert (made.code, len(made.out.strip())) == (0, 43)
    assert made.err == "note: new.db is a new database; its keys are for a coordinator that is started with it\n"
    assert voxpop("keys", "operator", "you", "--database", "new.db").err == ""
    assert voxpop("keys", "operator", " ", "--database", "typo.db").code == 2
    assert not Path("typo.db").exists()


def test_the_keys_of_a_shuffler_need_no_coordinator_s_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store("shuffler.db", "shuffler").close()
    monkeypatch.setenv("VOXPOP_DATABASE", "shuffler.db")
    write_key(tmp_path / "shuffler.key", "k" * 40)
    voxpop, path = main_of(monkeypatch), tmp_path / "shuffler.key"
    assert voxpop("keys", "rotate", path, "--add").code == 2
    assert path.read_text().split() == ["k" * 40]
    for step in ("--add", "--promote", "--retire"):
        assert voxpop("keys", "rotate", path, step, "--unchecked").code == 0
    assert len(path.read_text().split()) == 1

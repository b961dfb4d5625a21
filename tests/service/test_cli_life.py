"""The commands with which operators decide the life of a study, and keep their keys."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers_cli import Outcome, main_of, study_file
from tests.service.test_http import KEY, Site

Command = Callable[..., Outcome]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def voxpop(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VOXPOP_URL", str(site.client.base_url).rstrip("/"))
    monkeypatch.setenv("VOXPOP_KEY", KEY)
    return main_of(monkeypatch)


def test_a_study_from_its_draft_to_its_end(site: Site, voxpop: Command, tmp_path: Path) -> None:
    name = study_file(tmp_path / "tea.toml").stem
    created = voxpop("study", "create", "tea.toml", "--draft")
    assert f"a draft; start it with: voxpop study start {name}" in created.out
    for command, said in (
        ("start", "runs"),
        ("pause", "is paused"),
        ("pause", "is paused; nothing had to be changed"),
        ("resume", "runs"),
        ("end", "is finished"),
        ("archive", "is archived"),
    ):
        done = voxpop("study", command, name)
        assert (done.code, done.out) == (0, f"the study {name} {said}\n")
    assert voxpop("study", "list").out == f"{name}\n"
    trail = voxpop("study", "trail", name).out
    assert [line.split()[3] for line in trail.splitlines()[1:]] == [
        "archived",
        "ended",
        "resumed",
        "paused",
        "started",
        "created",
    ]
    assert voxpop("study", "delete", name, "--yes").out == f"the study {name} is deleted\n"
    assert voxpop("study", "list").out == ""
    assert '"action": "deleted"' in voxpop("study", "trail", "--json").out


def test_a_study_is_not_deleted_by_mistake(voxpop: Command, tmp_path: Path) -> None:
    study_file(tmp_path / "tea.toml")
    voxpop("study", "create", "tea.toml")
    refused = voxpop("study", "delete", "tea", "--yes")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "end it first" in refused.err
    assert voxpop("study", "list").out == "tea\n"


def test_keys_are_made_listed_and_revoked(voxpop: Command, tmp_path: Path) -> None:
    study_file(tmp_path / "tea.toml")
    voxpop("study", "create", "tea.toml")
    place = ("--database", "c.db")
    key = voxpop("keys", "viewer", "boss", "tea", *place).out.strip()
    assert len(key) == 43
    refused = voxpop("keys", "viewer", "boss", "nothing", *place, "--file", "boss.key")
    assert (refused.code, "there is no study 'nothing'" in refused.err) == (2, True)
    assert not (tmp_path / "boss.key").exists()
    listed = voxpop("keys", "list", *place).out
    assert [line.split()[:3] for line in listed.splitlines()[1:]] == [
        ["boss", "viewer", "tea"],
        ["me", "operator", "all"],
    ]
    assert key not in listed
    assert voxpop("keys", "revoke", "boss", *place).out == "the key of boss is revoked\n"
    assert voxpop("keys", "revoke", "boss", *place).out == "the key of boss was already revoked\n"
    missing = voxpop("keys", "revoke", "nobody", *place)
    assert (missing.code, "voxpop keys list" in missing.err) == (2, True)
    refused = voxpop("keys", "revoke", "me", *place)
    assert (refused.code, "voxpop keys revoke --last" in refused.err) == (2, True)
    assert voxpop("keys", "revoke", "me", "--last", *place).out == "the key of me is revoked\n"

"""The commands with which operators decide the life of a study, and keep their keys."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers_cli import STUDY, Outcome, main_of, study_file
from tests.service.test_http import KEY, Site
from voxpop.service.keys import Keyring
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.study.status import status_of

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
        ("unarchive", "is not archived; nothing had to be changed"),
        ("start", "runs"),
        ("pause", "is paused"),
        ("pause", "is paused; nothing had to be changed"),
        ("resume", "runs"),
        ("end --yes", "is finished"),
        ("archive", "is archived"),
        ("unarchive", "is listed again"),
        ("archive", "is archived"),
    ):
        done = voxpop("study", *command.split(), name)
        assert (done.code, done.out) == (0, f"the study {name} {said}\n")
    trail = voxpop("study", "trail", name).out
    assert [line.split()[3] for line in trail.splitlines()[1:]] == [
        "archived",
        "unarchived",
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


@pytest.mark.parametrize(("model", "second"), [("shuffle", "shuffler"), ("aggregate", "helper")])
def test_a_study_that_needs_a_second_server_is_created_where_there_is_one(
    site: Site, voxpop: Command, tmp_path: Path, model: str, second: str
) -> None:
    path = study_file(tmp_path / "tea.toml")
    path.write_text(path.read_text() + f'\n[privacy]\nmodel = "{model}"\nepsilon = 5.0\nfloor = 50\n')
    refused = voxpop("study", "create", "tea.toml")
    assert refused.code != 0
    assert f"this coordinator has no {second}" in refused.err
    site.coordinator.context.shuffler = HttpShuffler("http://127.0.0.1:1", Keyring.of(b""), "http://127.0.0.1:1")
    assert voxpop("study", "create", "tea.toml").code == 0
    assert site.coordinator.snapshots.current(path.stem).definition.privacy.model == model


def test_a_study_is_not_deleted_by_mistake(voxpop: Command, tmp_path: Path) -> None:
    study_file(tmp_path / "tea.toml")
    voxpop("study", "create", "tea.toml")
    refused = voxpop("study", "delete", "tea", "--yes")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "end it first" in refused.err
    assert voxpop("study", "status", "tea").code == 0


def test_a_study_is_not_ended_by_mistake(voxpop: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study_file(tmp_path / "tea.toml")
    voxpop("study", "create", "tea.toml")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ntea\n"))
    refused = voxpop("study", "end", "tea")
    assert (refused.code, "Type the study's name to end it now, for good (tea)" in refused.out) == (2, True)
    assert "voxpop study pause tea" in refused.err
    assert "finished" not in voxpop("study", "status", "tea").out
    assert voxpop("study", "end", "tea").out.endswith("the study tea is finished\n")
    assert voxpop("study", "status", "tea").out.startswith("finished before the first wave; 5 actions left\n")


def test_the_list_says_where_each_study_is(site: Site, voxpop: Command, tmp_path: Path) -> None:
    assert voxpop("study", "list").out == ""
    for name in ("a-very-long-name-of-an-old-study", "tea", "coffee"):
        study_file(tmp_path / "any.toml", STUDY.replace('"tea"', f'"{name}"'))
        voxpop("study", "create", "any.toml", *(["--draft"] if name == "coffee" else []))
    old = "a-very-long-name-of-an-old-study"
    voxpop("study", "end", old, "--yes")
    voxpop("study", "archive", old)
    site.step()
    people = status_of(site.coordinator.context, "tea").people
    assert [line.rstrip().split("  ") for line in re.sub("  +", "  ", voxpop("study", "list").out).splitlines()] == [
        ["study", "state", "wave", "registered", "answered"],
        ["coffee", "draft", "0"],
        ["tea", "waiting for people", "1", "0", f"0 of {people}"],
        [old, "archived", "0"],
    ]
    assert json.loads(voxpop("study", "list", "--json").out)["studies"] == [old, "coffee", "tea"]


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
        ["boss", "member", "tea"],
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


def test_a_study_without_limits_of_its_rewards_is_created_with_a_warning(voxpop: Command, tmp_path: Path) -> None:
    path = study_file(tmp_path / "tea.toml")
    assert "warning: nothing says which rewards are possible" in voxpop("study", "create", "tea.toml").err
    limited = path.read_text().replace("[model]", '[model]\nreward_range = "-9:9"').replace('"tea"', '"other"')
    (tmp_path / "other.toml").write_text(limited)
    assert "warning" not in voxpop("study", "create", "other.toml").err


def test_codes_for_one_person_each_are_made_and_printed_once(voxpop: Command, tmp_path: Path) -> None:
    name = study_file(tmp_path / "tea.toml").stem
    voxpop("study", "create", "tea.toml")
    made = voxpop("study", "codes", name, 3, "--link", "https://app.example/join#").out.splitlines()
    assert len(set(made)) == 3
    assert all(line.startswith("https://app.example/join#") and len(line) > 35 for line in made)
    assert "codes added" in voxpop("study", "trail", name).out
    assert voxpop("study", "codes", "nothing", 3).code != 0

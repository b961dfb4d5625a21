"""The commands of the service: the demonstration ends well, and errors are one sentence and exit code 2."""

import re
from pathlib import Path

import pytest

from tests.helpers_cli import STUDY, main_of, study_file, voxpop
from voxpop.service.keys import write_key


def test_the_demo_agrees_with_the_simulator() -> None:
    done = voxpop("demo", "--devices", 100, "--horizon", 2000, "--epsilon", 15)
    assert done.returncode == 0, done.stderr + done.stdout
    said = " ".join(done.stdout.split())
    assert "the same: the simulator, given the same reports and noise, makes the same plans" in said
    assert re.search(r"[1-9]\d+ devices answered in [1-9] waves?; it ended because", said)


def test_the_demo_ends_well_if_asking_does_not_pay() -> None:
    done = voxpop("demo", "--devices", 12, "--horizon", 15)
    assert done.returncode == 0, done.stderr + done.stdout
    said = " ".join(done.stdout.split())
    assert "0 devices answered in 0 waves; it ended because" in said
    assert "the same: the simulator" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serve", "--port", 99999], "port must be a whole number"),
        (["serve", "--database", "mysql://x/y"], "unknown kind of database"),
        (["serve", "--database", "/no/such/folder/x.db"], "there is no folder"),
        (["serve", "--database", "x.db", "--tls-cert", "c.pem"], "TLS needs both"),
        (["serve", "--database", "x.db", "--tls-cert", "c.pem", "--tls-key", "k.pem"], "there is no file 'c.pem'"),
        (["serve", "--database", "x.db", "--shuffler-url", "http://h"], "VOXPOP_SHUFFLER_KEY_FILE"),
        (["serve", "--database", "x.db", "--rate", -1], "rate must be a number"),
        (["serve", "--database", "x.db", "--max-body", 1], "max_body must be a whole number"),
        (["serve", "--database", "x.db", "--allow-origin", "*"], "allow_origin must be origins as browsers send them"),
        (["serve", "--database", "x.db", "--log-level", "loud"], "unknown log level"),
        (["serve", "--database", "x.db", "--host", "256.1.1.1"], "cannot listen on 256.1.1.1"),
        (["shuffler", "--database", "x.db"], "VOXPOP_SHUFFLER_KEY_FILE"),
        (["migrate", "--database", "/no/such/folder/x.db"], "there is no database '/no/such/folder/x.db'"),
        (["keys", "operator", "", "--database", "x.db"], "1 to 64 printable characters"),
        (
            ["study", "status", "tea"],
            "no key was given; use --key-file or VOXPOP_KEY; where the database is, one is made",
        ),
        (["study", "list", "--key-file", "short.key"], "the operator key in short.key must have 32 to 128"),
        (["study", "create", "missing.toml"], "cannot read"),
        (["demo", "--devices", 3], "devices must be a whole number"),
        (["demo", "--epsilon", 0], "epsilon must be a number above 0"),
    ],
)
def test_unusable_commands_are_refused_in_one_sentence(
    arguments: list[object], sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    write_key(tmp_path / "short.key", "k")
    done = main_of(monkeypatch)(*arguments)
    assert done.code == 2
    assert "keys random" not in done.err  # a random key is nobody's
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert sentence in done.err


def test_an_unreachable_coordinator_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VOXPOP_KEY", "k" * 40)
    done = main_of(monkeypatch)("study", "status", "tea", "--url", "http://127.0.0.1:1")
    assert done.code == 2
    assert "is the coordinator running there?" in done.err


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("[service]\ndedline = 5\n", "did you mean 'deadline'"),
        ("[service]\ndeadline = 0\n", "service.deadline must be a number above 0"),
        ("[service]\nbudget = 3\n", "needs a trust model"),
    ],
)
def test_study_files_that_cannot_be_served_are_refused(
    table: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = study_file(tmp_path / "tea.toml", STUDY + table)
    done = main_of(monkeypatch)("study", "create", path)
    assert done.code == 2
    assert sentence in done.err

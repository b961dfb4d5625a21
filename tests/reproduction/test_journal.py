"""The journal of a sweep: no written entry is lost, or taken for another run."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reproduction import journal as journals
from reproduction.journal import Journal, key_of
from tests.helpers import RUNNABLE
from tests.helpers_cli import refusal
from tests.reproduction.helpers import summary
from voxpop.errors import InputError
from voxpop.simulation.comparison import perform
from voxpop.simulation.trials import Trial

TRIALS = [Trial("sphere", policy, seed, horizon=100) for policy in ("dpbe", "gp-ucb") for seed in (0, 1)]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "runs.jsonl")


def write(journal: Journal, *trials: Trial, regret: float = 1.0) -> None:
    with journal.writing() as keep:
        for trial in trials:
            keep(trial, summary(regret=regret + trial.seed))


def test_a_journal_that_is_not_there_is_empty(journal: Journal) -> None:
    assert journal.read(TRIALS) == {}
    assert not journal.path.exists()


def test_what_is_written_is_read(journal: Journal) -> None:
    trials = [Trial("camel", policy, seed=3, size=25, horizon=700) for policy in RUNNABLE]
    kept = {trial: perform(trial) for trial in trials}
    with journal.writing() as keep:
        for trial, found in kept.items():
            keep(trial, found)
    again = journal.read(kept)
    assert again == kept
    assert {(type(found.curve), type(found.kept)) for found in again.values()} == {(tuple, bool)}


def test_numbers_survive_to_the_last_digit(journal: Journal) -> None:
    odd = summary(regret=0.1 + 0.2, seconds=1e-17, norm_bound=float("inf"), numbers=2**60 + 1, curve=(0.0, 1 / 3))
    with journal.writing() as keep:
        keep(TRIALS[0], odd)
    assert journal.read(TRIALS) == {TRIALS[0]: odd}


def test_only_the_trials_that_were_asked_for_are_read(journal: Journal) -> None:
    write(journal, *TRIALS)
    assert list(journal.read(TRIALS[:1])) == TRIALS[:1]
    others = [
        Trial("camel", "dpbe", horizon=100),
        Trial("sphere", "dpbe", seed=2, horizon=100),
        Trial("sphere", "dpbe", horizon=101),
        Trial("sphere", "dpbe", horizon=100, settings={"alpha": 0.7}),
        Trial("sphere", "dpbe", horizon=100, true_norm=True),
        Trial("sphere", "dpbe", horizon=100, privacy="central", epsilon=1.0),
        Trial("sphere", "dpbe", horizon=100, floor=0),
        Trial("sphere", "dpbe", horizon=100, noise_std=0.01),
    ]
    assert journal.read(others) == {}


def test_a_journal_is_continued(journal: Journal) -> None:
    write(journal, TRIALS[0])
    first = journal.path.read_bytes()
    write(journal, TRIALS[1])
    assert journal.path.read_bytes().startswith(first)
    assert set(journal.read(TRIALS)) == set(TRIALS[:2])


def test_the_later_of_two_summaries_counts(journal: Journal) -> None:
    write(journal, TRIALS[0], regret=1.0)
    write(journal, TRIALS[0], regret=5.0)
    assert journal.read(TRIALS)[TRIALS[0]].regret == 5.0


@pytest.mark.parametrize("lost", [1, 2, 30, 200])
def test_a_line_that_was_cut_short_is_ignored_and_the_next_is_not(journal: Journal, lost: int) -> None:
    write(journal, TRIALS[0])
    whole = len(journal.path.read_bytes())
    write(journal, TRIALS[1])
    os.truncate(journal.path, len(journal.path.read_bytes()) - lost)
    assert len(journal.path.read_bytes()) > whole
    # If only the newline is lost, the entry is complete.
    assert set(journal.read(TRIALS)) == set(TRIALS[: 2 if lost == 1 else 1])
    write(journal, TRIALS[2])
    assert set(journal.read(TRIALS)) == {*TRIALS[: 2 if lost == 1 else 1], TRIALS[2]}


def entry(**changes: object) -> bytes:
    known = {"key": key_of(TRIALS[1]), "trial": TRIALS[1].as_dict(), "summary": vars(summary())}
    return json.dumps({**known, **changes}).encode()


GARBAGE: dict[str, Callable[[], bytes]] = {
    "text": lambda: b"hello",
    "zeros": lambda: bytes(100),
    "not text": lambda: bytes(range(128, 256)),
    "a number": lambda: b"7",
    "a list": lambda: b'[{"key": 1}]',
    "nothing": lambda: b"null",
    "an object": lambda: b"{}",
    "no key": lambda: json.dumps({"summary": vars(summary())}).encode(),
    "no summary": lambda: json.dumps({"key": key_of(TRIALS[1])}).encode(),
    "an empty summary": lambda: entry(summary={}),
    "no curve": lambda: entry(summary={n: v for n, v in vars(summary()).items() if n != "curve"}),
    "a field too few": lambda: entry(summary={n: v for n, v in vars(summary()).items() if n != "people"}),
    "a field too many": lambda: entry(summary={**vars(summary()), "mood": "good"}),
    "a curve that is none": lambda: entry(summary={**vars(summary()), "curve": 3}),
    "a key of another kind": lambda: entry(key=["a", "list"]),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_between_the_lines_is_ignored(journal: Journal, kind: str) -> None:
    write(journal, TRIALS[0])
    with journal.path.open("ab") as file:
        file.write(GARBAGE[kind]())
    write(journal, TRIALS[2])
    assert set(journal.read(TRIALS)) == {TRIALS[0], TRIALS[2]}


def test_guard_an_entry_like_the_garbage_but_whole_is_read(journal: Journal) -> None:
    journal.path.write_bytes(entry())
    assert journal.read(TRIALS) == {TRIALS[1]: summary()}


def test_runs_of_another_program_are_not_found(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    write(journal, *TRIALS)
    with monkeypatch.context() as patch:
        patch.setattr(journals, "fingerprint", lambda: "another program")
        assert journal.read(TRIALS) == {}
        write(journal, TRIALS[0], regret=9.0)
        assert journal.read(TRIALS)[TRIALS[0]].regret == 9.0
    assert len(journal.read(TRIALS)) == len(TRIALS)
    assert journal.read(TRIALS)[TRIALS[0]].regret == 1.0


def test_a_second_writer_is_refused_while_the_first_writes(journal: Journal) -> None:
    with journal.writing() as keep:
        with pytest.raises(InputError) as call, Journal(journal.path).writing():
            pass
        keep(TRIALS[0], summary())
    assert str(journal.path) in refusal(call)
    assert "another process" in refusal(call)
    write(journal, TRIALS[1])
    assert set(journal.read(TRIALS)) == set(TRIALS[:2])


def test_a_journal_being_written_can_be_read(journal: Journal) -> None:
    with journal.writing() as keep:
        keep(TRIALS[0], summary())
        assert set(Journal(journal.path).read(TRIALS)) == {TRIALS[0]}


def test_a_full_disk_is_one_sentence(journal: Journal) -> None:
    journal.path.symlink_to("/dev/full")
    with pytest.raises(InputError) as call, journal.writing() as keep:
        keep(TRIALS[0], summary())
    assert str(journal.path) in refusal(call)
    assert "No space left on device" in refusal(call)


@pytest.mark.parametrize("kind", ["a folder", "in a file", "nowhere"])
def test_a_journal_that_cannot_be_opened_is_one_sentence(tmp_path: Path, kind: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    places = {"a folder": "folder", "in a file": "file/runs.jsonl", "nowhere": "none/runs.jsonl"}
    path = tmp_path / places[kind]
    with pytest.raises(InputError) as call, Journal(path).writing():
        pass
    assert str(path) in refusal(call)


def test_the_journal_is_not_blamed_for_the_trouble_of_others(journal: Journal) -> None:
    """A cluster that goes away raises an OSError too, and then the disk is not the cause."""
    with pytest.raises(Exception, match="scheduler is gone") as call, journal.writing():
        raise ConnectionError("the scheduler is gone")
    assert "cannot write" not in str(call.value)

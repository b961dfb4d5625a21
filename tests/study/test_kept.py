"""Studies with a file: one program changes it at a time, and nothing is released twice."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import python, refusal
from tests.study.test_study_private import asked, private, problem, records
from voxpop.errors import InputError
from voxpop.io.files import locked
from voxpop.journal import kept
from voxpop.journal.record import Record
from voxpop.study.study import Study


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tea.json"


@pytest.fixture
def study(path: Path) -> Study:
    """A private study with one release."""
    study = private(path=path)
    tell(study, "a")
    return study


def tell(study: Study, prefix: str) -> None:
    question = asked(study)
    study.tell(question.wave, records(question, prefix))


def seen(study: Study) -> list[list[float]]:
    """What the study has released, as numbers that no other draw of noise would give."""
    return [answered.feedback.mean.tolist() for answered in study.log]


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def test_nothing_changes_while_another_program_holds_the_lock(study: Study, path: Path) -> None:
    question, before = asked(study), contents(path)
    with locked(path):
        during = contents(path)
        changes: list[Callable[[], None]] = [
            lambda: study.tell(2, records(question, "b")),
            lambda: Study.load(path).save(path),
        ]
        for change in changes:
            with pytest.raises(InputError, match=r"tea\.json' is being changed by another program; wait") as caught:
                change()
            refusal(caught)
        assert contents(path) == during
    assert contents(path) == before
    study.tell(2, records(question, "b"))
    assert [file for file in contents(path) if "lock" in file] == []


def test_a_lock_that_a_killed_program_left_behind_holds_nobody_up(study: Study, path: Path) -> None:
    path.with_name(".tea.json.lock").touch()
    tell(study, "b")
    assert len(Study.load(path).log) == 2


def test_a_lock_removed_while_it_was_opened_is_taken_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder removes its file between another program's opening and locking: that lock is worth nothing."""
    opened: list[int] = []
    lock, opening = path.with_name(".tea.json.lock"), os.open

    def open_and_lose(*arguments: Any) -> int:
        opened.append(opening(*arguments))
        if len(opened) == 1:
            lock.unlink()
        return opened[-1]

    monkeypatch.setattr(os, "open", open_and_lose)
    with locked(path):
        assert len(opened) == 2
        with pytest.raises(InputError, match="another program"), locked(path):
            pass


def test_two_programs_with_the_same_study_release_once(study: Study, path: Path) -> None:
    asked(study)
    first, second = Study.load(path), Study.load(path)
    tell(first, "b")
    before = contents(path)
    with pytest.raises(
        InputError, match=r"tea\.json was changed by another program after this one opened it"
    ) as caught:
        tell(second, "c")
    refusal(caught)
    assert contents(path) == before
    assert len(second.log) == len(second.ledger.entries) == 1
    assert seen(Study.load(path)) == seen(first)


def test_two_programs_without_privacy_do_not_overwrite_each_other(path: Path) -> None:
    Study(problem(), "dpbe", path).ask()
    first, second = Study.load(path), Study.load(path)
    question = asked(first)
    first.tell(1, np.full((question.people, 1), 0.3))
    with pytest.raises(InputError, match="changed by another program"):
        second.tell(1, np.full((question.people, 1), 0.4))
    assert seen(Study.load(path)) == seen(first)
    assert not path.with_suffix(".releases").exists()


@pytest.mark.parametrize("waves", [0, 1])
def test_a_study_restored_from_an_older_copy_goes_on_from_its_record(study: Study, path: Path, waves: int) -> None:
    copy = path.with_name("copy.json")
    if waves:
        asked(study)
        shutil.copy(path, copy)
    else:
        fresh = private(path=path.with_name("fresh.json"))
        asked(fresh)
        shutil.copy(path.with_name("fresh.json"), copy)
    tell(study, "b")
    shutil.copy(copy, path)
    restored = Study.load(path)
    assert restored.recovered == tuple(range(waves + 1, 3))
    assert seen(restored) == seen(study)
    assert restored.ledger.entries == study.ledger.entries
    assert asked(restored).wave == 3
    with pytest.raises(InputError, match="wave 2 does not answer the open question of wave 3"):
        restored.tell(2, records(asked(restored), "c"))
    with pytest.raises(InputError, match="'a0' has taken part 1 times"):
        restored.tell(3, records(asked(restored), "a"))
    tell(restored, "c")
    again = Study.load(path)
    assert (len(again.log), again.recovered) == (3, ())


def test_a_record_that_lacks_releases_is_refused_unless_the_file_is_vouched_for(study: Study, path: Path) -> None:
    record = path.with_suffix(".releases")
    older = record.read_bytes()
    tell(study, "b")
    for lost in (older, None):
        record.unlink()
        if lost is not None:
            record.write_bytes(lost)
        before = contents(path)
        with pytest.raises(InputError, match=r"tea\.releases knows \d of the 2 steps that .*tea\.json") as caught:
            Study.load(path)
        assert "--newest" in refusal(caught)
        assert contents(path) == before
        if lost is None:
            break
        record.touch()
    vouched = Study.load(path, newest=True)
    assert seen(Study.load(path)) == seen(study)
    assert seen(vouched) == seen(study)
    tell(vouched, "c")
    assert len(Study.load(path).log) == 3


def test_the_record_of_another_study_is_refused(study: Study, path: Path) -> None:
    other = private(path=path.with_name("other.json"))
    question = asked(other)
    other.tell(1, records(question, "x")[: len(question.decisions) * (question.people - 1)], partial=True)
    shutil.copy(path.with_name("other.releases"), path.with_suffix(".releases"))
    with pytest.raises(InputError, match=r"tea\.json and .*tea\.releases are of different studies") as caught:
        Study.load(path)
    refusal(caught)


def test_a_copy_put_in_the_place_of_its_study_is_refused(study: Study, path: Path) -> None:
    study.save(path.with_name("copy.json"))
    assert seen(Study.load(path.with_name("copy.json"))) == seen(study)
    path.with_name("copy.json").replace(path)
    with pytest.raises(InputError, match="different studies or copies"):
        Study.load(path)


def test_a_new_study_is_not_begun_beside_the_releases_of_an_old_one(study: Study, path: Path) -> None:
    path.unlink()
    with pytest.raises(InputError, match=r"tea\.releases holds the releases of an earlier study") as caught:
        private(path=path)
    refusal(caught)
    assert list(contents(path)) == ["tea.releases"]


def test_a_damaged_record_is_refused_and_a_line_cut_short_is_not(study: Study, path: Path) -> None:
    record = path.with_suffix(".releases")
    whole = record.read_bytes()
    record.write_bytes(whole.replace(b'"count": ', b'"count": 1'))
    with pytest.raises(InputError, match=r"tea\.releases, line 1 is damaged"):
        Study.load(path)
    record.write_bytes(whole + whole[:-1])
    again = Study.load(path)
    assert again.recovered == ()
    tell(again, "b")
    assert record.read_bytes().startswith(whole)
    assert len(Study.load(path).log) == record.read_bytes().count(b"\n") == 2


KILLED = """
import os, signal, sys
from collections.abc import Callable
from pathlib import Path
from tests.study.test_study_private import asked, private, records
from voxpop.journal import kept
from voxpop.io import files
from voxpop.journal import record
from voxpop.io.files import append_durably, write_atomically

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def killed(place):
    def append(path, size, data):
        if place == "before the record":
            die()
        if place == "within the record":
            append_durably(path, size, data[: len(data) // 2])
            die()
        append_durably(path, size, data)
        if place == "after the record":
            die()
    def write(path, text):
        if place == "within the study":
            path.with_name(".tea.json.1.part").write_text(text[: len(text) // 2])
            die()
        write_atomically(path, text)
        die()
    record.append_durably, kept.write_atomically = append, write

for place in sys.argv[2:]:
    if not (child := os.fork()):
        path = Path(sys.argv[1]) / place / "tea.json"
        path.parent.mkdir()
        study = private(path=path)
        question = asked(study)
        killed(place)
        study.tell(1, records(question, "a"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
"""
UNSEEN = ("before the record", "within the record")
PLACES = (*UNSEEN, "after the record", "within the study", "after the study")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of studies whose programs were killed while the first wave was told: one for each place."""
    folder = tmp_path_factory.mktemp("killed")
    done = python(KILLED, folder, *PLACES)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.mark.parametrize("place", PLACES)
def test_a_program_killed_at_any_write_goes_on_without_a_second_release(killed: Path, place: str) -> None:
    path = killed / place / "tea.json"
    study = Study.load(path)
    released = place not in UNSEEN
    assert len(study.log) == len(study.ledger.entries) == released
    assert study.recovered == ((1,) if released and place != "after the study" else ())
    before = seen(study)
    if released:
        with pytest.raises(InputError, match="'a0' has taken part"):
            tell(study, "a")
    tell(study, "b" if released else "a")  # nobody has seen anything of the people whose release was not recorded
    again = Study.load(path)
    assert seen(again)[: len(before)] == before
    assert len(again.log) == len(again.ledger.entries) == released + 1
    assert again.recovered == ()


@pytest.mark.parametrize("cut", [True, False])
def test_a_study_that_could_not_be_saved_has_released_nothing(
    study: Study, path: Path, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    question, before = asked(study), contents(path)

    def full(*_: object) -> None:
        raise InputError("cannot write 'tea.json': No space left on device; nothing was changed")

    with monkeypatch.context() as broken:
        broken.setattr(kept, "write_atomically", full)
        if not cut:
            broken.setattr(Record, "cut", full)
        with pytest.raises(InputError, match="No space left"):
            study.tell(2, records(question, "b"))
    assert len(study.log) == len(study.ledger.entries) == 1
    if cut:
        assert contents(path) == before
        study.tell(2, records(question, "b"))
        assert (len(Study.load(path).log), Study.load(path).recovered) == (2, ())
    else:
        with pytest.raises(InputError, match="changed by another program"):
            study.tell(2, records(question, "b"))
        assert Study.load(path).recovered == (2,)

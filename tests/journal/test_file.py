"""The journal in a file: one program changes it at a time, nothing is released twice, older copies are noticed."""

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
from voxpop.io.files import append_durably, locked
from voxpop.journal import file
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
    assert not path.with_suffix(".mark").exists()


@pytest.mark.parametrize("waves", [0, 1])
def test_an_older_copy_is_refused_unless_it_is_vouched_for(study: Study, path: Path, waves: int) -> None:
    copy = path.with_name("copy.json")
    if waves:
        asked(study)
        shutil.copy(path, copy)
        tell(study, "b")
    else:
        copy.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    shutil.copy(copy, path)
    before = contents(path)
    with pytest.raises(InputError, match=r"tea\.json holds \d steps, and .*tea\.mark knows \d steps of it") as caught:
        Study.load(path)
    assert "--newest" in refusal(caught)
    assert contents(path) == before
    vouched = Study.load(path, newest=True)
    assert len(vouched.log) == len(Study.load(path).log) == waves
    tell(vouched, "c")
    assert len(Study.load(path).log) == waves + 1


def test_a_study_whose_mark_is_lost_or_damaged_is_refused_unless_it_is_vouched_for(study: Study, path: Path) -> None:
    mark = path.with_suffix(".mark")
    for left, said in ((None, r"tea\.mark is missing"), (b"{}", r"tea\.mark is damaged"), (b"\xff", "is damaged")):
        mark.unlink()
        if left is not None:
            mark.write_bytes(left)
        before = contents(path)
        with pytest.raises(InputError, match=said) as caught:
            Study.load(path)
        assert "--newest" in refusal(caught)
        assert contents(path) == before
        mark.touch()
    vouched = Study.load(path, newest=True)
    assert seen(Study.load(path)) == seen(vouched) == seen(study)


def test_the_mark_of_another_study_is_refused(study: Study, path: Path) -> None:
    tell(private(path=path.with_name("other.json")), "x")
    shutil.copy(path.with_name("other.mark"), path.with_suffix(".mark"))
    with pytest.raises(InputError, match=r"tea\.json and .*tea\.mark are of different studies") as caught:
        Study.load(path)
    refusal(caught)


def test_a_copy_put_in_the_place_of_its_study_is_refused(study: Study, path: Path) -> None:
    study.save(path.with_name("copy.json"))
    copy = Study.load(path.with_name("copy.json"))
    assert seen(copy) == seen(study)
    tell(copy, "b")
    assert len(Study.load(path.with_name("copy.json")).log) == 2
    study.save(path.with_name("copy.json"))
    path.with_name("copy.json").replace(path)
    assert seen(Study.load(path)) == seen(study)  # it is no older, and needs no mark


def test_a_new_study_is_not_begun_beside_the_mark_of_an_old_one(study: Study, path: Path) -> None:
    path.unlink()
    with pytest.raises(InputError, match=r"tea\.mark is of an earlier study with releases") as caught:
        private(path=path)
    refusal(caught)
    assert list(contents(path)) == ["tea.mark"]


def test_a_damaged_line_is_refused_and_one_cut_short_is_not(study: Study, path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"count": ', b'"count": 1'))
    with pytest.raises(InputError, match=r"tea\.json, line 3 is damaged .*checksum"):
        Study.load(path)
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    with pytest.raises(InputError, match=r"tea\.json, line 2 is damaged .*checksum"):
        Study.load(path)
    path.write_bytes(whole + lines[-1][:-1])
    again = Study.load(path)
    assert seen(again) == seen(study)
    tell(again, "b")
    assert path.read_bytes().startswith(whole)
    assert len(Study.load(path).log) == 2


@pytest.mark.parametrize("ending", [".mark", ".releases"])
def test_a_study_may_not_have_the_name_of_a_file_beside_it(tmp_path: Path, ending: str) -> None:
    with pytest.raises(InputError, match=r"give the study another, such as \.json"):
        private(path=tmp_path / f"tea{ending}")


KILLED = """
import os, signal, sys
from collections.abc import Callable
from pathlib import Path
from tests.study.test_study_private import asked, private, records
from voxpop.journal import file
from voxpop.io.files import append_durably, write_durably

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def killed(place):
    def append(path, size, data):
        if place == "before the journal":
            die()
        if place == "within the journal":
            append_durably(path, size, data[: len(data) // 2])
            die()
        append_durably(path, size, data)
        if place == "after the journal":
            die()
    def write(path, text):
        if place == "within the mark":
            path.with_name(".tea.mark.1.part").write_text(text[: len(text) // 2])
            die()
        write_durably(path, text)
        die()
    file.append_durably, file.write_durably = append, write

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
UNSEEN = ("before the journal", "within the journal")
PLACES = (*UNSEEN, "after the journal", "within the mark", "after the mark")


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
    before = seen(study)
    if released:
        with pytest.raises(InputError, match="'a0' has taken part"):
            tell(study, "a")
    tell(study, "b" if released else "a")  # nobody has seen anything of the people whose release was not recorded
    again = Study.load(path)
    assert seen(again)[: len(before)] == before
    assert len(again.log) == len(again.ledger.entries) == released + 1


@pytest.mark.parametrize("cut", [True, False])
def test_a_study_that_could_not_be_saved_has_released_nothing(
    study: Study, path: Path, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    question, before = asked(study), contents(path)

    def full(*_: object) -> None:
        raise InputError("cannot write 'tea.mark': No space left on device; nothing was changed")

    def only_add(path: Path, size: int, data: bytes) -> None:
        append_durably(path, size, data) if data else full()

    with monkeypatch.context() as broken:
        broken.setattr(file, "write_durably", full)
        if not cut:
            broken.setattr(file, "append_durably", only_add)
        with pytest.raises(InputError, match="No space left"):
            study.tell(2, records(question, "b"))
    assert len(study.log) == len(study.ledger.entries) == 1
    if cut:
        assert contents(path) == before
        study.tell(2, records(question, "b"))
        assert len(Study.load(path).log) == 2
    else:
        with pytest.raises(InputError, match="changed by another program"):
            study.tell(2, records(question, "b"))
        assert len(Study.load(path).log) == 2

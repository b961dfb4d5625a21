"""Studies that an earlier voxpop saved, in format version 2: they are opened, and the next change upgrades them.

The files were written by that voxpop; `expected.json` says what it knew of each study.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import refusal
from tests.study.test_study_private import asked, records
from voxpop.errors import InputError
from voxpop.io.files import write_durably
from voxpop.io.schema import pack
from voxpop.journal import file
from voxpop.journal.file import JournalFile
from voxpop.journal.journal import Course, fold
from voxpop.study.devices import DeviceStudy
from voxpop.study.study import Study

SAVED = Path(__file__).parent / "version_2"
EXPECTED: dict[str, dict[str, Any]] = json.loads((SAVED / "expected.json").read_text())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(SAVED, tmp_path / "studies")
    return tmp_path / "studies"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def opened(path: Path) -> Course:
    journal = JournalFile.open(path)
    return fold(journal.definition, journal.read())


def check(course: Course, name: str) -> None:
    """See that a study is as it was left; `older` was restored, and its record knew a release more."""
    known = EXPECTED[name]
    if course.policy.name == "waves":  # they were planned with all that people said, so that nothing is sealed
        assert course.answer.regret is None
    else:
        np.testing.assert_allclose(course.state.upper, known["upper"], rtol=1e-9)
    assert (course.answer.index, len(course.closed)) == (known["best"], known["waves"])
    assert sorted(len(entry.names) for entry in course.entries) == sorted(known["charged"])
    assert course.problem.horizon == known["horizon"]
    assert (None if course.pending is None else course.pending.arms.tolist()) == known["open"]


@pytest.mark.parametrize("name", EXPECTED)
def test_it_is_as_it_was_left_and_looking_changes_nothing(folder: Path, name: str) -> None:
    before = contents(folder)
    check(opened(folder / f"{name}.json"), name)
    assert contents(folder) == before


def test_what_it_is_called_and_its_strata_are_kept(folder: Path) -> None:
    study = Study.load(folder / "plain.json")
    assert (study.name, study.reward, str(study.direction)) == ("tea", "minutes", "minimize")
    assert study.strata is not None
    assert dict(study.strata.shares) == {"young": 0.5, "old": 0.5}
    assert study.problem.pilot[0].people == 10


@pytest.mark.parametrize("name", EXPECTED)
def test_the_next_change_writes_a_journal_and_keeps_the_old_file(folder: Path, name: str) -> None:
    path, before = folder / f"{name}.json", contents(folder)
    study = DeviceStudy.load(path)
    assert f"{path} has format version 2; the next change writes version 3" in study.upgrade
    study.save(path)
    assert study.upgrade == ""
    check(opened(path), name)
    assert json.loads(path.read_text().splitlines()[0])["version"] == 3
    assert (folder / f"{name}.json.version-2").read_bytes() == before[f"{name}.json"]
    assert {file: content for file, content in contents(folder).items() if file in before} == {
        **before,
        path.name: path.read_bytes(),
    }
    assert path.with_suffix(".mark").exists() == (name != "plain")


def test_a_private_study_goes_on_and_nobody_takes_part_twice(folder: Path) -> None:
    path = folder / "private.json"
    study = Study.load(path)
    with pytest.raises(InputError, match="'a0' has taken part 1 times"):  # although it was taken back
        study.tell(2, records(asked(study), "a"))
    study.tell(2, records(asked(study), "d"))
    again = Study.load(path)
    assert (len(again.log), len(again.ledger.entries)) == (2, 3)


def test_files_that_cannot_be_replaced_are_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, before = folder / "private.json", contents(folder)
    study = Study.load(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", full)
        with pytest.raises(InputError, match="No space left"):
            study.tell(2, records(asked(study), "d"))
    assert contents(folder) == before
    study.tell(2, records(asked(study), "d"))
    assert len(Study.load(path).log) == 2


def test_a_program_killed_before_the_journal_took_their_place_leaves_them_as_they_were(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "private.json"
    study = Study.load(path)

    def killed(to: Path, *content: Any) -> None:
        if to == path:
            raise KeyboardInterrupt
        write_durably(to, *content)

    with monkeypatch.context() as broken:
        broken.setattr(file, "write_durably", killed)
        with pytest.raises(KeyboardInterrupt):
            study.tell(2, records(asked(study), "d"))
    again = Study.load(path)
    check(again.course, "private")
    again.tell(2, records(asked(again), "d"))
    assert len(Study.load(path).log) == 2


@pytest.mark.parametrize("name", ["private", "older"])
def test_a_copy_from_before_the_upgrade_is_refused_unless_it_is_vouched_for(folder: Path, name: str) -> None:
    """The journal has released more since, which neither the copy nor its record knows."""
    path = folder / f"{name}.json"
    before = path.read_bytes()
    study = Study.load(path)
    question = asked(study)
    study.tell(question.wave, records(question, "d"))
    path.write_bytes(before)
    with pytest.raises(InputError, match=r"\.mark knows \d+ steps of it") as caught:
        Study.load(path)
    assert "--newest" in refusal(caught)
    assert len(Study.load(path, newest=True).log) == len(study.log) - 1


def test_a_file_that_another_program_changed_is_not_replaced(folder: Path) -> None:
    path = folder / "private.json"
    study = Study.load(path)
    question = asked(study)
    shutil.copy(folder / "older.releases", folder / "private.releases")
    with pytest.raises(InputError, match="changed by another program") as caught:
        study.tell(2, records(question, "d"))
    refusal(caught)


def test_a_record_that_lacks_releases_is_refused_unless_the_file_is_vouched_for(folder: Path) -> None:
    path = folder / "private.json"
    lines = path.with_suffix(".releases").read_text().splitlines(keepends=True)
    path.with_suffix(".releases").write_text(lines[0])
    with pytest.raises(InputError, match=r"private\.releases knows 1 of the 3 steps that .*private\.json") as caught:
        Study.load(path)
    assert "--newest" in refusal(caught)
    assert len(Study.load(path, newest=True).log) == 1


def test_the_record_of_another_study_is_refused(folder: Path) -> None:
    shutil.copy(folder / "devices.releases", folder / "private.releases")
    with pytest.raises(InputError, match=r"private\.releases knows 1 of the 3 steps|different studies"):
        Study.load(folder / "private.json")
    lines = (folder / "older.releases").read_text().splitlines(keepends=True)
    (folder / "private.releases").write_text("".join([*lines[:3], lines[0]]))
    with pytest.raises(InputError, match="are of different studies or copies") as caught:
        Study.load(folder / "private.json")
    refusal(caught)


def test_a_new_study_is_not_begun_beside_the_releases_of_an_old_one(folder: Path) -> None:
    path = folder / "private.json"
    problem = Study.load(path).problem
    path.unlink()
    with pytest.raises(InputError, match=r"private\.releases is of an earlier study with releases"):
        Study(problem, path=path)


def test_a_file_without_names_and_a_direction_maximises(folder: Path) -> None:
    """So were studies saved before there were any."""
    path = folder / "private.json"
    content = json.loads(path.read_text())["content"]
    for key in ("name", "reward", "direction"):
        del content[key]
    path.write_text(pack("voxpop study", content))
    study = Study.load(path)
    assert (study.name, study.reward, study.direction) == ("private", "reward", "maximize")


@pytest.mark.parametrize("part", ["problem", "policy", "log", "pending", "ledger"])
def test_a_sealed_file_that_lacks_something_is_refused(folder: Path, part: str) -> None:
    path = folder / "plain.json"
    content = json.loads(path.read_text())["content"]
    del content[part]
    path.write_text(pack("voxpop study", content))
    with pytest.raises(InputError, match=r"plain\.json is damaged"):
        Study.load(path)

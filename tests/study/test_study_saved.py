"""Saved studies: damaged, newer or foreign files are refused and left alone; a failed write loses nothing."""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import unordered
from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.io.files import write_atomically
from voxpop.journal.file import KIND, VERSION, _chain, _text
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.study.study import Study


def small_study(path: Path | None = None) -> Study:
    problem = Problem([0.0, 0.5, 1.0], SquaredExponential(0.3), 0.1, 0.1, norm_bound=1.0, horizon=50)
    study = Study(problem, "dpbe", path)
    question = study.ask()
    assert question is not None
    study.tell(question.wave, [[0.3], [0.5]])
    study.ask()
    return study


def fitting(study: Study) -> list[list[float]]:
    question = study.ask()
    assert question is not None
    return [[0.4] * len(question.decisions)] * question.people


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "study.json"
    small_study(path)
    return path


def assert_refused(path: Path, content: bytes, said: str | None = None) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        Study.load(path)
    assert str(path) in refusal(caught)
    assert path.read_bytes() == content


@pytest.mark.parametrize("policy", ["dpbe", "dpbe-paper", "dpbe-nobatching"])
def test_a_study_of_any_policy_can_be_opened_again(tmp_path: Path, policy: str) -> None:
    study = Study(small_study().problem, policy, tmp_path / "study.json", alpha=0.5, ratio=1.3)
    study.tell(1, fitting(study))
    study.ask()
    again = Study.load(tmp_path / "study.json")
    assert again.policy == study.policy
    assert again.ask() == study.ask()


def test_a_file_cut_anywhere_is_refused_or_gives_an_earlier_study_and_is_left_alone(saved: Path) -> None:
    whole = saved.read_bytes()
    first = whole.index(b"\n")
    for size in range(first + 1):
        assert_refused(saved, whole[:size])
    for size in range(first + 1, len(whole)):
        saved.write_bytes(whole[:size])
        study = Study.load(saved)
        assert len(study.log) == (whole[:size].count(b"\n") >= 3)
        assert saved.read_bytes() == whole[:size]


def test_a_file_with_a_flipped_bit_never_gives_another_study(saved: Path) -> None:
    whole, good = saved.read_bytes(), Study.load(saved)
    for position in range(len(whole) - 1):  # without its last end, the last line is one that was cut short
        for bit in (0x01, 0x80):
            damaged = bytearray(whole)
            damaged[position] ^= bit
            saved.write_bytes(damaged)
            with contextlib.suppress(InputError):
                study = Study.load(saved)
                # What was flipped had no meaning, such as a space.
                assert study.ask() == good.ask()
                np.testing.assert_array_equal(study.state.upper, good.state.upper)
            assert saved.read_bytes() == damaged


def test_a_changed_number_is_noticed(saved: Path) -> None:
    text = saved.read_text()
    assert '"horizon": 50' in text
    assert_refused(saved, text.replace('"horizon": 50', '"horizon": 60').encode(), "damaged.*checksum.*copy")


@pytest.mark.parametrize(
    ("version", "said"),
    [(VERSION + 1, "version 4, and this voxpop reads up to 3; upgrade voxpop"), (2, "version 2.*finish the study")],
)
def test_a_file_of_another_version_asks_for_another_program(saved: Path, version: int, said: str) -> None:
    first, _, rest = saved.read_text().partition("\n")
    changed = json.dumps({**json.loads(first), "version": version})
    assert_refused(saved, f"{changed}\n{rest}".encode(), said)


def test_a_newer_file_may_have_any_content(saved: Path) -> None:
    newer = {"format": KIND, "version": 99, "content": {"unknown": 1}}
    assert_refused(saved, json.dumps(newer).encode(), "version 99.*upgrade voxpop")


FOREIGN: dict[str, str] = {
    "a list": "[]",
    "a number": "3",
    "null": "null",
    "another object": '{"name": "voxpop"}',
    "another format": '{"format": "voxpop pilot", "version": 1, "checksum": "", "content": {}}',
    "no version": f'{{"format": "{KIND}"}}',
    "version zero": f'{{"format": "{KIND}", "version": 0, "checksum": "", "content": {{}}}}',
    "version a word": f'{{"format": "{KIND}", "version": "new", "checksum": "", "content": {{}}}}',
    "no content": f'{{"format": "{KIND}", "version": 1, "checksum": ""}}',
    "TOML": 'name = "tea"',
}


@pytest.mark.parametrize("case", FOREIGN)
def test_another_kind_of_file_is_refused(saved: Path, case: str) -> None:
    assert_refused(saved, FOREIGN[case].encode())


def sealed(path: Path, change: Callable[[list[Any]], object]) -> bytes:
    """Change the records of a journal, each a kind and a body, and write it with the right digests."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    records = [[line["kind"], line["body"]] for line in lines]
    change(records)
    return _text(_chain("", map(tuple, records)))


CHANGES: dict[str, Callable[[list[Any]], object]] = {
    "no problem": lambda records: records[0][1].pop("problem"),
    "no policy": lambda records: records[0][1].pop("policy"),
    "no kernel": lambda records: records[0][1]["problem"].pop("kernel"),
    "no noise": lambda records: records[0][1]["problem"].pop("noise_std"),
    "no plan": lambda records: records[1][1].pop("plan"),
    "no release": lambda records: records[1][1].pop("release"),
    "no entry": lambda records: records[2][1].pop("entry"),
    "another kind": lambda records: records[1].__setitem__(0, "forgotten"),
    "too many averages": lambda records: records[2][1]["feedback"].update(mean=[0.1, 0.2]),
    "half an arm": lambda records: records[1][1]["plan"].update(arms=[0.5]),
    "an arm that does not exist": lambda records: records[1][1]["plan"].update(arms=[7]),
    "no trust model": lambda records: records[0][1].update(privacy=None),
    "no rounds": lambda records: records[1][1]["plan"].update(pulls=[]),
    "a release without a wave": lambda records: records.pop(1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_sealed_file_with_another_content_is_refused(saved: Path, change: str) -> None:
    assert_refused(saved, sealed(saved, CHANGES[change]))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json.*No such file.*check the path"):
        Study.load(tmp_path / "none.json")


def test_a_folder_is_not_a_study(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="directory"):
        Study.load(tmp_path)


def fail(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, study = saved.read_bytes(), Study.load(saved)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=r"study\.json.*No space left on device.*nothing was changed") as caught:
        study.tell(2, fitting(study))
    refusal(caught)
    assert saved.read_bytes() == before
    assert [entry.name for entry in saved.parent.iterdir()] == ["study.json"]


def test_what_was_told_while_the_disk_was_full_can_be_told_again(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, expected = Study.load(saved), small_study()
    expected.tell(2, fitting(expected))
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        with pytest.raises(InputError):
            study.tell(2, fitting(study))
    # In memory, nothing was changed, as the error says; the caller repeats the call.
    study.tell(2, fitting(study))
    assert unordered(study.ask()) == unordered(expected.ask())
    assert Study.load(saved).ask() == study.ask()


def test_a_path_below_a_file_is_refused(saved: Path) -> None:
    below = saved / "study.json"
    with pytest.raises(InputError, match="cannot write"):
        small_study().save(below)
    with pytest.raises(InputError, match=r"cannot write|cannot read"):
        small_study(below)
    assert unordered(Study.load(saved).ask()) == unordered(small_study().ask())


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write .*No such file"):
        small_study().save(tmp_path / "nowhere" / "study.json")


def test_writing_replaces_the_whole_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "a longer text")
    write_atomically(path, b"short")
    assert path.read_bytes() == b"short"
    assert list(tmp_path.iterdir()) == [path]

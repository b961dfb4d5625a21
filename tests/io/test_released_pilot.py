"""The file that keeps what was released of a protected pilot: noise is drawn once."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers_cli import pilot_csv, read_pilot, refusal
from voxpop.calibration.pilot import Group, Pilot
from voxpop.calibration.protected import Protection
from voxpop.errors import InputError
from voxpop.io import pilots as released_pilot
from voxpop.io.files import locked
from voxpop.io.pilots import ReleasedPilot
from voxpop.privacy.sources import Simulated

PROMISE = Protection(-2.0, 2.0, 5.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return pilot_csv(tmp_path / "pilot.csv")


def read(path: Path) -> Pilot:
    return read_pilot(path, protected=True)[0]


def noise() -> Simulated:
    return Simulated(np.random.default_rng())  # other noise at every call


def release(path: Path, promise: Protection = PROMISE) -> tuple[list[Group], bool]:
    return ReleasedPilot(path).groups(read(path), promise, noise())


def plain(group: Group) -> dict[str, object]:
    """Return all that a group holds."""
    values = {**vars(group), "moments": None if group.moments is None else vars(group.moments)}
    return json.loads(json.dumps(values, default=lambda array: array.tolist()))  # type: ignore[no-any-return]


def test_a_second_release_is_the_first(path: Path) -> None:
    groups, fresh = release(path)
    assert fresh
    before = ReleasedPilot(path).path.read_bytes()
    again, fresh = release(path)
    assert not fresh
    assert [plain(group) for group in again] == [plain(group) for group in groups]
    assert ReleasedPilot(path).path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["pilot.csv", "pilot.csv.released"]


def test_groups_of_one_person_are_kept_too(path: Path) -> None:
    with path.open("a") as file:
        file.write("alone,1.00,0.5,3\n")
    groups, _ = release(path)
    assert [group.moments is None for group in groups] == [False, True]
    assert [plain(group) for group in release(path)[0]] == [plain(group) for group in groups]


@pytest.mark.parametrize("changed", [{"epsilon": 4.0}, {"delta": 1e-7}, {"low": -3.0}, {"high": 2.5}])
def test_another_promise_is_refused(path: Path, changed: dict[str, float]) -> None:
    release(path)
    with pytest.raises(InputError) as caught:
        release(path, replace(PROMISE, **changed))
    assert refusal(caught) == (
        f"{path}.released holds what was released of {path} with --epsilon 5.0 --delta 1e-06 --low-reward -2.0 "
        "--high-reward 2.0; give the same, or move the file away, knowing that the epsilons of both releases add up"
    )
    path.with_name("pilot.csv.released").rename(path.with_name("first"))
    assert release(path, replace(PROMISE, **changed))[1]


@pytest.mark.parametrize(("old", "new"), [(",10\n", ",11\n"), ("1.00", "1.01"), ("price", "cost")])
def test_a_changed_pilot_is_refused(path: Path, old: str, new: str) -> None:
    release(path)
    text = path.read_text()
    path.write_text(text.replace(old, new))
    with pytest.raises(
        InputError, match=r"is not as it was when .*pilot.csv.released .*; restore it, or move"
    ) as caught:
        release(path)
    refusal(caught)
    path.write_text(text)
    assert not release(path)[1]


def test_people_may_be_renamed_and_the_file_laid_out_anew(path: Path) -> None:
    release(path)
    path.write_text(path.read_text().replace("u3,", "ann , ").replace("\n", "\r\n"))
    assert not release(path)[1]


@pytest.mark.parametrize("reward", ["0.1234567", "", "nan", "inf"])
def test_one_changed_answer_is_refused(path: Path, reward: str) -> None:
    release(path)
    heading, first, *rest = path.read_text().splitlines()
    person, price, _, rounds = first.split(",")
    path.write_text("\n".join([heading, f"{person},{price},{reward},{rounds}", *rest]))
    with pytest.raises(InputError, match=r"--epsilon 5.0 .* the epsilons of both releases add up") as caught:
        release(path)
    refusal(caught)


def test_a_damaged_file_is_no_reason_to_release_again(path: Path) -> None:
    release(path)
    kept = ReleasedPilot(path).path
    text = kept.read_text()
    for damaged in ("", text[:-9], text.replace('"people": 12', '"people": 13')):
        kept.write_text(damaged)
        with pytest.raises(InputError, match=r"pilot.csv.released is damaged .* restore it from a copy"):
            release(path)
        assert kept.read_text() == damaged
    kept.unlink()
    kept.symlink_to("elsewhere")  # for example on a disk that is not there
    with pytest.raises(InputError, match="cannot read"):
        release(path)


def test_a_link_to_a_pilot_is_the_same_pilot(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    link = tmp_path / "other/link.csv"
    link.symlink_to(path)
    release(path)
    assert not release(link)[1]
    with pytest.raises(InputError):
        ReleasedPilot(link).require_none()


@pytest.mark.parametrize("name", [".", "..", "/", "loop"])
def test_what_cannot_be_a_pilot_is_left_to_its_reader(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    place = tmp_path / name if name == "loop" else Path(name)
    kept = ReleasedPilot(place)
    assert kept.path.name.endswith(".released")
    assert not kept.exists()
    assert kept.owns(place)


def test_two_at_once_do_not_both_draw(path: Path) -> None:
    with locked(ReleasedPilot(path).path), pytest.raises(InputError, match="another program; wait") as caught:
        release(path)
    refusal(caught)
    assert release(path)[1]


def test_noise_is_drawn_under_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Protection.release

    def second(*arguments: object) -> list[Group]:
        monkeypatch.setattr(Protection, "release", honest)
        with pytest.raises(InputError, match="another program"):
            release(path)
        return []

    monkeypatch.setattr(Protection, "release", second)
    assert release(path) == ([], True)


def test_the_file_is_durable_before_anything_is_returned(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    honest = os.fsync

    def fsync(handle: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(handle).st_mode), ReleasedPilot(path).exists()))
        honest(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    release(path)
    assert synced == [(False, False), (True, True)]  # the content, and then the name


def test_nothing_is_returned_that_could_not_be_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise InputError("cannot write: No space left on device")

    monkeypatch.setattr(released_pilot, "write_durably", full)
    with pytest.raises(InputError, match="No space"):
        release(path)
    assert not ReleasedPilot(path).exists()

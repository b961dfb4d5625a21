"""The shuffler: nothing leaves before the batch is complete, then only totals; nobody else can speak for it."""

from pathlib import Path

import numpy as np
import pytest

from tests.service.world import STUDY, World, definition, encoded, own_shuffler, private, take_total, world
from voxpop.privacy.release import Batch
from voxpop.privacy.shuffle import Shuffled
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.batches import Shuffler


def begun(it: World) -> None:
    it.settle()
    it.play_all()
    it.settle()


@pytest.fixture
def pair(address: str, tmp_path: Path):  # type: ignore[no-untyped-def]
    with (
        own_shuffler(str(tmp_path / "shuffler.db")) as shuffler,
        world(address, definition(private("shuffle"), deadline=100.0), 30, shuffler) as it,
    ):
        begun(it)
        yield it, shuffler


def test_below_the_batch_size_nothing_is_forwarded(pair: tuple[World, Shuffler]) -> None:
    it, shuffler = pair
    invited = list(it.invited())
    for key, invitation in invited[:-1]:
        assert it.answer(key, invitation) is True
        assert shuffler.sealed() == []
    assert it.answer(*invited[-1]) is True
    ((_, total),) = shuffler.sealed()
    assert total["count"] == 12
    assert total["total"] == np.sum(it.reports[1], axis=0).tolist()
    assert total["tokens"] == sorted(total["tokens"])  # not in the order in which people answered


def test_the_coordinator_gets_no_report_and_the_shuffler_keeps_none(
    pair: tuple[World, Shuffler], tmp_path: Path
) -> None:
    it, shuffler = pair
    for key, invitation in list(it.invited()):
        it.answer(key, invitation)
    ((batch, total),) = shuffler.sealed()
    assert set(total) == {"count", "total", "tokens"}
    take_total(it.coordinator, batch, total)
    take_total(it.coordinator, batch, total)  # repeated until acknowledged: counted once
    shuffler.taken(batch)
    assert shuffler.sealed() == []
    shuffler.database.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("shuffler.db*"))
    for report in it.reports[1]:
        assert np.array(report).tobytes() not in stored or np.count_nonzero(report) == 0
    it.settle()
    assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12


def test_no_shows_are_replaced(pair: tuple[World, Shuffler]) -> None:
    it, _ = pair
    first = dict(it.invited())
    awake = list(first)[3:]
    for key in awake:
        it.answer(key, first[key])
    it.clock.now += 101
    it.settle()
    fresh = dict(it.invited())
    assert len(fresh) == 3
    assert set(fresh).isdisjoint(first)
    late = it.answer(next(iter(first)), first[next(iter(first))])
    assert isinstance(late, Refusal)
    assert late.status == 410
    it.answer_all()
    it.settle()
    assert it.status.wave == 2


def test_announcing_again_changes_nothing(pair: tuple[World, Shuffler]) -> None:
    _, shuffler = pair
    first = shuffler.announce("b" * 43, Batch(2, 3, 4, 6, 0.5), [b"1" * 32], [])
    assert shuffler.announce("b" * 43, Batch(2, 3, 4, 6, 0.5), [b"1" * 32], []) == first
    for other in (
        Batch(3, 3, 4, 6, 0.5),
        Batch(2, 2, 4, 6, 0.5),
        Batch(2, 3, 4, 7, 0.5),
        Batch(2, 3, 5, 5, 0.5),
        Batch(2, 3, 4, 6, 0.4),
    ):
        with pytest.raises(Refusal, match="other constants"):
            shuffler.announce("b" * 43, other, [], [])
    withdrawn = shuffler.announce("b" * 43, Batch(2, 3, 4, 6, 0.5), [], [b"1" * 32])
    assert withdrawn.withdrawn == [(b"1" * 32).hex()]
    assert shuffler.announce("b" * 43, Batch(2, 3, 4, 6, 0.5), [], [b"1" * 32]) == withdrawn


@pytest.mark.parametrize(
    ("report", "status"),
    [
        ([1.0, 2.0], 422),
        ([-1.0], 422),
        ([0.5], 422),
        ([1e9], 422),
        ([float("nan")], 422),
    ],
)
def test_reports_that_no_device_sends_are_refused(
    pair: tuple[World, Shuffler], report: list[float], status: int
) -> None:
    it, shuffler = pair
    _, invitation = next(it.invited())
    verdict = it.upload(invitation, np.array(report))
    assert isinstance(verdict, Refusal)
    assert verdict.status == status
    batch = invitation["upload"].rsplit("/", 1)[1]
    assert shuffler.announce(batch, batch_of(it), [], []).count == 0


def batch_of(it: World) -> Batch:
    current = it.coordinator.snapshots.current(STUDY).wave
    assert current is not None
    assert isinstance(current.release, Shuffled)
    return current.release.batch


def test_other_tokens_and_other_batches_are_refused(pair: tuple[World, Shuffler]) -> None:
    it, shuffler = pair
    (_, one), (_, two) = list(it.invited())[:2]
    batch = one["upload"].rsplit("/", 1)[1]
    shuffler.announce("c" * 43, Batch(2, 1, 4, 6, 0.5), [], [])
    report = np.array([3.0])
    attempts = [
        encoded(batch, {**one, "token": new_key()}, report),
        encoded("c" * 43, one, report),
        encoded("d" * 43, two, report),
    ]
    verdicts = shuffler.store(attempts)
    assert [verdict.status for verdict in verdicts if isinstance(verdict, Refusal)] == [401, 403, 401]
    again = [encoded(batch, one, report)] * 2 + [encoded(batch, one, np.array([4.0]))]
    first, second, third = shuffler.store(again)
    assert (first, second) == (True, False)
    assert isinstance(third, Refusal)
    assert third.status == 409


@pytest.mark.parametrize(
    "change",
    [
        {"count": 11},
        {"total": [1, 2]},
        {"total": [10**9]},
        {"total": [-1]},
        {"tokens": []},
        {"total": "many"},
    ],
)
def test_impossible_totals_are_refused(pair: tuple[World, Shuffler], change: dict[str, object]) -> None:
    it, shuffler = pair
    for key, invitation in list(it.invited()):
        it.answer(key, invitation)
    ((batch, total),) = shuffler.sealed()
    with pytest.raises(Refusal) as call:
        take_total(it.coordinator, batch, {**total, **change})
    assert call.value.status == 422
    with pytest.raises(Refusal, match="no wave waits"):
        take_total(it.coordinator, "x" * 43, total)
    assert take_total(it.coordinator, batch, total) is True
    other = {**total, "total": [value - 1 for value in total["total"]]}
    with pytest.raises(Refusal, match="another total"):
        take_total(it.coordinator, batch, other)

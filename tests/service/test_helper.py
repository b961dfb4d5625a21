"""The helper: it holds a half of every report that tells nothing, and tells one total, of the people that are named."""

import hashlib
from pathlib import Path
from threading import Barrier, Thread

import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.world import (
    SECRET,
    STUDY,
    DirectShuffler,
    World,
    definition,
    encoded,
    own_shuffler,
    private,
    take_step,
    world,
)
from voxpop.io.schema import decode_release
from voxpop.privacy import Simulated
from voxpop.privacy.release import HELPING, Batch
from voxpop.service.keys import hash_key, new_key
from voxpop.service.refusals import Refusal
from voxpop.service.reports import matrix
from voxpop.service.shuffler.batches import EncodedReport, SealedBatch, Shuffler
from voxpop.service.stores.database import Database
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import inbox, people, receipts, reports, tokens, totals
from voxpop.service.study import participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.life import Wanted, change
from voxpop.service.study.stages import Kind

NAME = "b" * 43
BATCH = Batch(size=2, coordinates=1, levels=3, trials=1, chance=0.5, shared=True)


@pytest.fixture
def pair(tmp_path: Path):  # type: ignore[no-untyped-def]
    with (
        own_shuffler(str(tmp_path / "helper.db")) as helper,
        world(str(tmp_path / "c.db"), definition(private("aggregate"), deadline=100.0), 40, helper) as it,
    ):
        it.settle()
        it.play_all()
        it.settle()
        yield it, helper


@pytest.fixture
def alone(address: str):  # type: ignore[no-untyped-def]
    """A helper with a batch of two people, and the tokens of four."""
    keys = [new_key() for _ in range(4)]
    with own_shuffler(address) as helper:
        helper.announce(NAME, BATCH, [hash_key(key) for key in keys], [])
        yield helper, keys


def rows(database: Database, *tables: sa.Table) -> list[int]:
    with database.read() as connection:
        return [connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in tables]


def status_of(verdict: object) -> int:
    assert isinstance(verdict, Refusal)
    return verdict.status


def half_of(number: int) -> bytes:
    """Some share of the helper; every number has another."""
    return hashlib.shake_128(str(number).encode()).digest(8 * BATCH.words(HELPING))


def share(key: str, number: int, made_for: Batch = BATCH, name: str = NAME) -> EncodedReport:
    return EncodedReport(name, key, half_of(number), made_for)


def added(*numbers: int) -> int:
    """What the helper makes of these shares."""
    return sum(map(int, BATCH.prio3.outputs(HELPING, [half_of(number) for number in numbers])[:, 0])) % BATCH.modulus


def hashes(*keys: str) -> list[bytes]:
    return [hash_key(key) for key in keys]


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("*.db*"))


def halves(it: World) -> list[bytes]:
    """The shares of all people, as the two servers store them."""
    return [half.tobytes() for both in it.halves.values() for half in both]


def require_counted(it: World) -> None:
    """See that the first wave was released from exactly the reports that were acknowledged, and nothing is left."""
    current = it.coordinator.snapshots.current(STUDY)
    opened = next(event for event in it.coordinator.log(STUDY) if event.kind == Kind.OPENED)
    release = decode_release(opened.body["release"])
    assert len(it.reports[1]) == 12
    told = release.analyze(release.tally(np.array(it.reports[1])), Simulated(np.random.default_rng(0)))
    np.testing.assert_array_equal(current.closed[0].feedback.mean, told.mean)
    assert (it.status.wave, current.closed[0].feedback.count) == (2, 12)
    assert it.shuffler is not None
    assert rows(it.coordinator.database, inbox, totals) + rows(it.shuffler.database, reports) == [0, 0, 0]


# -- what each server holds


def test_each_server_holds_a_half_and_both_are_gone_with_the_wave(tmp_path: Path) -> None:
    with (
        own_shuffler(str(tmp_path / "helper.db")) as helper,
        world(str(tmp_path / "c.db"), definition(private("aggregate")), 80, helper) as it,
    ):
        it.settle()
        it.play_all()
        it.settle()
        for key, invitation in list(it.invited()):
            assert it.answer(key, invitation) is True
        batch = it.coordinator.snapshots.current(STUDY).wave.release.batch  # type: ignore[union-attr]
        assert batch is not None
        stored = []
        for database, table in ((it.coordinator.database, inbox), (helper.database, reports)):
            with database.read() as connection:
                stored.append(connection.execute(sa.select(table.c.body)).scalars().all())
        assert all(len(half) == batch.size == 12 for half in stored)
        ours, theirs = (batch.gather(matrix(half, batch.words(i)), i).total for i, half in enumerate(stored))
        sums = [(one + other) % batch.modulus for one, other in zip(ours, theirs, strict=True)]
        assert sums == np.sum(it.reports[1], axis=0).tolist()
        assert sum(half in on_disk(tmp_path) for half in halves(it)) == len(halves(it)) > 12
        it.settle()
        assert it.status.wave == 2
        assert rows(it.coordinator.database, inbox, totals) + rows(helper.database, reports) == [0, 0, 0]
        assert not [half for half in halves(it) if half in on_disk(tmp_path)]
        with helper.database.read() as connection:
            assert set(connection.execute(sa.select(tokens.c.digest)).scalars()) == {b""}
        require_counted(it)


def test_shares_that_no_device_sends_are_refused_by_both(pair: tuple[World, Shuffler]) -> None:
    it, helper = pair
    _, invitation = next(it.invited())
    theirs, ours = it.shares(invitation, np.array([[3.0]]))
    too_large = ours.copy()
    too_large.view(np.uint64)[20] = 2**64 - 1  # no number of the field; of a helper's share, every byte may be anything
    for wrong in (theirs[:-1], np.append(theirs, 1.0), np.array([3.0]), ours):
        assert status_of(it.help(invitation, wrong)) == 422
    for wrong in (ours[:-1], np.append(ours, 1.0), np.array([3.0]), theirs, too_large):
        assert status_of(it.coordinate(invitation, wrong)) == 422
    assert rows(helper.database, reports) + rows(it.coordinator.database, inbox, receipts) == [0, 0, 0]
    assert it.help(invitation, theirs) is True
    assert it.coordinate(invitation, ours) is True


def test_noise_made_for_another_batch_is_refused(pair: tuple[World, Shuffler]) -> None:
    """As when the coordinator tells one device another encoding than the helper."""
    it, helper = pair
    _, invitation = next(it.invited())
    batch, half = invitation["helper"].rsplit("/", 1)[1], it.shares(invitation, np.array([[3.0]]))[0]
    wrong = [("size", 13), ("coordinates", 9), ("levels", 1), ("trials", 1), ("chance", 0.4), ("shared", False)]
    for name, value in wrong:
        assert status_of(helper.store([encoded(batch, invitation, half, **{name: value})])[0]) == 422
    assert rows(helper.database, reports) == [0]
    assert it.help(invitation, half) is True


def test_a_share_is_counted_once_and_stays_as_it_is(alone: tuple[Shuffler, list[str]]) -> None:
    helper, (one, two, *_) = alone
    assert helper.store([share(one, 200), share(one, 200), share(one, 201)])[:2] == [True, False]
    assert [status_of(helper.store([share(one, 201)])[0]), helper.store([share(one, 200)])[0]] == [409, False]
    other = Batch(size=3, coordinates=1, levels=3, trials=1, chance=0.5, shared=True)
    helper.announce("c" * 43, other, hashes(new_key()), [])
    found = helper.store([share(two, 1, other, "c" * 43), share(new_key(), 1), share(two, 1, BATCH, "d" * 43)])
    assert [status_of(verdict) for verdict in found] == [403, 401, 401]
    assert rows(helper.database, reports) == [1]


# -- one total, for one list of people


def test_a_batch_is_sealed_once_with_all_of_the_named_people_and_nobody_else(
    alone: tuple[Shuffler, list[str]],
) -> None:
    helper, (one, two, three, four) = alone
    assert helper.store([share(one, 200), share(two, 100), share(three, 7)]) == [True] * 3
    for few in ([one], [one, one], [one, two, two]):
        with pytest.raises(Refusal, match="has at least 2 people") as call:
            helper.seal(NAME, hashes(*few))
        assert call.value.status == 422
    silent = SealedBatch([], [hash_key(four).hex()])
    assert helper.seal(NAME, hashes(one, four)) == silent  # and nothing is added up
    assert rows(helper.database, reports) == [3]
    told = SealedBatch([added(200, 100)], [])
    assert helper.seal(NAME, hashes(one, two)) == told
    assert helper.seal(NAME, hashes(two, one)) == told
    for others in ([one, three], [three, two], [three, four], [one], [one, two, three], [one, one]):
        with pytest.raises(Refusal, match="other tokens") as call:
            helper.seal(NAME, hashes(*others))
        assert call.value.status == 409
    assert rows(helper.database, reports) == [0]
    assert [status_of(helper.store([share(key, 7)])[0]) for key in (three, four)] == [410, 410]
    assert helper.store([share(one, 200)]) == [False]  # a device whose reply was lost
    for said in ([hashes(new_key()), [], []], [[], hashes(one), []], [[], [], hashes(one)]):
        with pytest.raises(Refusal, match="is sealed") as call:
            helper.announce(NAME, BATCH, *said)
        assert call.value.status == 409
    assert helper.sealed() == []  # nothing is forwarded


def test_what_cannot_be_sealed(alone: tuple[Shuffler, list[str]]) -> None:
    helper, (one, two, *_) = alone
    whole = Batch(size=2, coordinates=1, levels=3, trials=1, chance=0.5)
    helper.announce("w" * 43, whole, [], [])
    with pytest.raises(Refusal, match="whole reports") as call:
        helper.seal("w" * 43, hashes(one, two))
    assert call.value.status == 404
    unknown = helper.seal("u" * 43, hashes(one, two))
    assert unknown == SealedBatch([], [hash_key(key).hex() for key in (one, two)])
    helper.store([share(one, 1), share(two, 2)])
    helper.call_off(NAME)
    assert rows(helper.database, reports, tokens) == [0, 0]
    with pytest.raises(Refusal, match="called off") as call:
        helper.seal(NAME, hashes(one, two))
    assert call.value.status == 410


def test_people_who_are_forgotten_are_not_added_up(alone: tuple[Shuffler, list[str]]) -> None:
    helper, (one, two, three, _) = alone
    helper.store([share(key, 5) for key in (one, two, three)])
    assert helper.announce(NAME, BATCH, [], [], hashes(two)).withdrawn == [hash_key(two).hex()]
    assert helper.seal(NAME, hashes(one, two)).missing == [hash_key(two).hex()]
    assert status_of(helper.store([share(two, 5)])[0]) == 410
    assert helper.seal(NAME, hashes(one, three)) == SealedBatch([added(5, 5)], [])


# -- people who drop out


def test_a_device_that_dies_between_its_uploads_is_replaced(pair: tuple[World, Shuffler]) -> None:
    it, helper = pair
    first = list(it.invited())
    for key, invitation in first[3:]:
        assert it.answer(key, invitation) is True
    report = np.array([[3.0]])
    theirs = [it.shares(invitation, report)[0] for _, invitation in first[:3]]
    assert [it.help(invitation, half) for (_, invitation), half in zip(first, theirs, strict=False)] == [True] * 3
    it.settle()
    assert (it.status.wave, it.status.stage) == (1, "collecting")
    it.clock.now += 101
    it.settle()
    fresh = dict(it.invited())
    assert len(fresh) == 3
    assert set(fresh).isdisjoint(key for key, _ in first)
    late = it.upload(first[0][1], report)  # the helper had it, and the coordinator waits no more
    assert status_of(late) == 410
    it.answer_all()
    it.settle()
    assert it.status.wave == 2
    assert status_of(it.help(first[0][1], theirs[0])) == 410
    assert rows(helper.database, reports) == [0]
    require_counted(it)


def test_a_share_at_the_coordinator_alone_counts_nothing(pair: tuple[World, Shuffler]) -> None:
    """A device that does not heed the order: its share has no twin, and somebody else is asked."""
    it, _ = pair
    (key, bad), *others = it.invited()
    assert it.coordinate(bad, it.shares(bad, np.array([[3.0]]))[1]) is True
    for other, invitation in others:
        assert it.answer(other, invitation) is True
    it.settle()
    assert (it.status.wave, it.status.answered) == (1, 11)
    ((other, instead),) = it.invited()
    assert other != key
    assert it.answer(other, instead) is True
    it.settle()
    with it.coordinator.database.read() as connection:
        spent = sa.select(people.c.participations).where(people.c.key_hash == hash_key(key))
        assert connection.execute(spent).scalar_one() == 0
    require_counted(it)


def test_whoever_withdraws_before_the_seal_is_in_no_total(pair: tuple[World, Shuffler], tmp_path: Path) -> None:
    it, _ = pair
    everybody = list(it.invited())
    for key, invitation in everybody:
        assert it.answer(key, invitation) is True
    (first, invitation), mine = everybody[0], it.reports[1].pop(0)
    participants.withdraw(it.coordinator.context, STUDY, first)
    it.keys.remove(first)
    it.settle()
    assert (it.status.wave, it.status.answered) == (1, 11)
    assert status_of(it.upload(invitation, np.array([mine]))) == 410
    gone = [half.tobytes() for half in it.shares(invitation, np.array([mine]))]
    assert not [half for half in gone if half in on_disk(tmp_path)]
    it.answer_all()
    it.settle()
    assert it.status.wave == 2
    require_counted(it)


def test_whoever_withdraws_after_the_seal_stays_in_the_total(pair: tuple[World, Shuffler]) -> None:
    it, helper = pair
    for key, invitation in list(it.invited()):
        assert it.answer(key, invitation) is True
    helper.seal(invitation["helper"].rsplit("/", 1)[1], hashes(*(token for token, _ in it.halves)))
    counted = next(iter(it.asked))
    participants.withdraw(it.coordinator.context, STUDY, counted)
    it.settle()
    assert it.status.wave == 2
    assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12
    with it.coordinator.database.read() as connection:
        left = sa.select(people.c.participations).where(people.c.key_hash == hash_key(counted), people.c.withdrawn)
        assert connection.execute(left).scalar_one() == 1
    it.keys.remove(counted)
    require_counted(it)


def test_a_study_that_ends_takes_its_shares_along(pair: tuple[World, Shuffler], tmp_path: Path) -> None:
    it, helper = pair
    for key, invitation in list(it.invited())[:8]:
        assert it.answer(key, invitation) is True
    change(it.coordinator.context, STUDY, Wanted.PAUSED, "me")
    it.settle()
    assert rows(helper.database, reports) + rows(it.coordinator.database, inbox) == [8, 8]
    change(it.coordinator.context, STUDY, Wanted.ENDED, "me")
    it.settle()
    assert rows(helper.database, reports, tokens) + rows(it.coordinator.database, inbox, totals) == [0, 0, 0, 0]
    assert status_of(it.upload(invitation, np.array([[3.0]]))) == 410
    assert not [half for half in halves(it) if half in on_disk(tmp_path)]


def test_a_pause_while_the_helper_seals_loses_nothing(pair: tuple[World, Shuffler]) -> None:
    it, helper = pair
    for key, invitation in list(it.invited()):
        assert it.answer(key, invitation) is True
    seal = helper.seal

    def meanwhile(name: str, chosen: list[bytes]) -> object:
        change(it.coordinator.context, STUDY, Wanted.PAUSED, "me")
        return seal(name, chosen)

    helper.seal = meanwhile  # type: ignore[assignment, method-assign]
    it.settle()
    assert (it.status.wave, rows(it.coordinator.database, totals)) == (1, [0])
    participants.withdraw(it.coordinator.context, STUDY, next(iter(it.asked)))  # is in the total
    it.settle()
    helper.seal = seal  # type: ignore[method-assign]
    change(it.coordinator.context, STUDY, Wanted.RUNNING, "me")
    it.settle()
    assert it.status.wave == 2
    it.keys.remove(next(iter(it.asked)))
    require_counted(it)


def test_two_coordinators_seal_at_once(address: str, tmp_path: Path) -> None:
    with (
        own_shuffler(str(tmp_path / "helper.db")) as helper,
        world(address, definition(private("aggregate"), deadline=100.0), 80, helper) as it,
    ):
        second = Coordinator(open_store(address, "coordinator"), SECRET, DirectShuffler(helper), clock=it.clock)
        it.settle()
        it.play_all()
        it.settle()
        it.answer_all()
        together = Barrier(2)

        def work(coordinator: Coordinator) -> None:
            together.wait()
            for _ in range(30):
                take_step(coordinator, STUDY)

        threads = [Thread(target=work, args=[one]) for one in (it.coordinator, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        second.database.close()
        require_counted(it)


def test_a_token_is_for_one_batch_only(alone: tuple[Shuffler, list[str]]) -> None:
    """Otherwise one report could be in two totals, and their difference would tell it."""
    helper, keys = alone
    with pytest.raises(Refusal, match="announced for another batch") as error:
        helper.announce("c" * 43, BATCH, hashes(new_key(), keys[0]), [])
    assert error.value.status == 409
    with helper.database.read() as connection:
        assert connection.execute(sa.select(tokens.c.batch).distinct()).scalars().all() == [NAME]

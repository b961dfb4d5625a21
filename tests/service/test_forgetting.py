"""The shuffler forgets: reports of people who withdraw, and those of a wave that an operator ends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.served import served
from tests.service.world import (
    STUDY,
    World,
    check_in_as,
    definition,
    own_shuffler,
    private,
    quiet,
    take_step,
    take_total,
    world,
)
from voxpop.privacy.release import Batch
from voxpop.service.keys import Keyring, hash_key
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.batches import BatchProgress, EncodedReport, Shuffler
from voxpop.service.shuffler.signed_http import HttpShuffler, send
from voxpop.service.stores import schema
from voxpop.service.stores.schema import reports, tokens
from voxpop.service.study import life, participants
from voxpop.service.study.invitations import Funnel
from voxpop.service.study.life import Wanted
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.shuffler_app import ShufflerApp

SHUFFLED = definition(private("shuffle"), deadline=100.0)
BATCH, KEY = "b" * 43, b"k" * 40


@pytest.fixture
def pair(address: str, tmp_path: Path) -> Iterator[tuple[World, Shuffler]]:
    with own_shuffler(str(tmp_path / "shuffler.db")) as shuffler, world(address, SHUFFLED, 30, shuffler) as it:
        it.settle()
        it.play_all()
        it.settle()
        yield it, shuffler


def rows(store: Any, table: sa.Table) -> list[Any]:
    with store.database.read() as connection:
        return list(connection.execute(sa.select(table)))


def of_key(it: World, key: str) -> Any:
    return next((row for row in rows(it.coordinator, schema.people) if row.key_hash == hash_key(key)), None)


def check_in(it: World, key: str) -> str:
    return str(json.loads(check_in_as(it.coordinator, STUDY, key)).get("status"))


def test_the_shuffler_deletes_the_report_of_one_who_withdraws_and_somebody_else_is_asked(
    pair: tuple[World, Shuffler], tmp_path: Path
) -> None:
    it, shuffler = pair
    invited = dict(it.invited())
    leaver, silent, *_ = invited
    for key in invited:
        if key != silent:
            assert it.answer(key, invited[key]) is True
    hashed = hash_key(invited[leaver]["token"])
    participants.withdraw(it.coordinator.context, STUDY, leaver)
    assert check_in(it, leaver) == "withdrawn"
    assert of_key(it, leaver).withdrawn  # until the shuffler has confirmed
    assert hashed in {row.token_hash for row in rows(it.coordinator, schema.invitations)}
    it.settle()
    assert of_key(it, leaver) is None
    it.keys.remove(leaver)
    assert hashed not in {row.token_hash for row in rows(it.coordinator, schema.invitations)}
    assert hashed not in {row.token_hash for row in rows(shuffler, reports)}
    (mark,) = [row for row in rows(shuffler, tokens) if row.token_hash == hashed]
    assert (mark.withdrawn, mark.digest) == (True, None)
    late = it.upload(invited[leaver], np.array(it.reports[1][0]))
    assert isinstance(late, Refusal)
    assert late.status == 410
    it.answer_all()
    it.settle()
    assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12
    status = it.status
    assert (status.registered, status.never_asked, status.withdrawn) == (29, 17, 1)
    assert len([key for key in it.asked if it.asked[key] == [1]]) == 13  # the leaver's report was counted, and deleted


def test_no_report_of_one_who_withdraws_is_on_the_shuffler_s_disk(tmp_path: Path) -> None:
    with own_shuffler(str(tmp_path / "s.db")) as shuffler:
        batch, token = Batch(2, 1, 4, 6, 0.5), "t" * 43
        shuffler.announce(BATCH, batch, [hash_key(token)], [])
        report = np.array([3.0]).tobytes()
        assert shuffler.store([EncodedReport(BATCH, token, report, batch)]) == [True]
        (digest,) = [row.digest for row in rows(shuffler, tokens)]

        def stored() -> bytes:
            return b"".join(path.read_bytes() for path in tmp_path.glob("s.db*"))

        assert digest in stored()
        reply = shuffler.announce(BATCH, batch, [], [], [hash_key(token)])
        assert reply == BatchProgress(0, [hash_key(token).hex()], [])
        assert digest not in stored()
        assert rows(shuffler, reports) == []
        assert shuffler.announce(BATCH, batch, [], [], [hash_key(token)]) == reply  # repeated, as after a lost reply


def test_a_token_that_is_forgotten_before_it_is_announced_stays_forgotten(pair: tuple[World, Shuffler]) -> None:
    _, shuffler = pair
    batch, hashed = Batch(2, 3, 4, 6, 0.5), b"1" * 32
    assert shuffler.announce(BATCH, batch, [], [], [hashed]).withdrawn == [hashed.hex()]
    shuffler.announce(BATCH, batch, [hashed], [])  # another coordinator's message was under way
    (mark,) = [row for row in rows(shuffler, tokens) if row.token_hash == hashed]
    assert mark.withdrawn


def test_a_report_in_a_whole_batch_is_part_of_the_release_and_the_person_is_forgotten_afterwards(
    pair: tuple[World, Shuffler],
) -> None:
    it, _ = pair
    invited = dict(it.invited())
    for key in invited:
        it.answer(key, invited[key])
    leaver = next(iter(invited))
    participants.withdraw(it.coordinator.context, STUDY, leaver)
    it.settle()  # the shuffler says that it is too late
    assert of_key(it, leaver).withdrawn
    assert it.status.never_asked == 29
    it.forward()
    it.settle()
    assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12
    left = of_key(it, leaver)
    assert (left.participations, left.withdrawn) == (1, True)
    assert left.id not in {row.person for row in rows(it.coordinator, schema.invitations)}
    assert (it.status.registered, it.status.never_asked) == (29, 18)


def test_one_who_withdraws_without_an_answer_from_a_whole_batch_is_forgotten(pair: tuple[World, Shuffler]) -> None:
    it, _ = pair
    first = dict(it.invited())
    silent, *awake = first
    for key in awake:
        it.answer(key, first[key])
    it.clock.now += 101
    it.settle()  # somebody else is asked in place of the silent one, whose token is withdrawn
    (fresh,) = [key for key in dict(it.invited()) if key not in first]
    participants.withdraw(it.coordinator.context, STUDY, silent)
    it.keys.remove(silent)
    it.answer(fresh, dict(it.invited())[fresh])
    it.forward()
    it.settle()
    assert of_key(it, silent) is None
    assert it.status.wave == 2


def test_one_who_withdraws_while_their_overdue_token_is_told_is_forgotten(
    pair: tuple[World, Shuffler], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, _ = pair
    silent, *awake = dict(it.invited())
    first = dict(it.invited())
    for key in awake:
        it.answer(key, first[key])
    link = it.coordinator.context.shuffler
    assert link is not None
    announce = link.announce

    def overtaken(*given: Any) -> Any:
        # after the coordinator has read whose time is over
        participants.withdraw(it.coordinator.context, STUDY, silent)
        return announce(*given)

    it.clock.now += 101
    with monkeypatch.context() as patch:
        patch.setattr(link, "announce", overtaken)
        take_step(it.coordinator, STUDY)
    assert of_key(it, silent) is None
    it.keys.remove(silent)
    it.settle()
    assert it.status.funnel.lapsed == 1
    it.answer_all()
    it.settle()
    assert it.status.wave == 2


def test_a_paused_study_has_the_shuffler_forget_all_the_same(pair: tuple[World, Shuffler]) -> None:
    it, shuffler = pair
    invited = dict(it.invited())
    leaver = next(iter(invited))
    it.answer(leaver, invited[leaver])
    life.change(it.coordinator.context, STUDY, Wanted.PAUSED)
    participants.withdraw(it.coordinator.context, STUDY, leaver)
    assert STUDY in it.coordinator.unfinished()
    assert take_step(it.coordinator, STUDY)
    assert rows(shuffler, reports) == []
    assert of_key(it, leaver) is None
    assert not take_step(it.coordinator, STUDY)
    assert it.status.funnel.asked == 12  # nobody is asked while it is paused


def test_ending_a_study_has_the_shuffler_delete_its_batch(pair: tuple[World, Shuffler]) -> None:
    it, shuffler = pair
    invited = dict(it.invited())
    first, second, *_ = invited
    it.answer(first, invited[first])
    participants.withdraw(it.coordinator.context, STUDY, second)
    life.change(it.coordinator.context, STUDY, Wanted.ENDED)
    assert of_key(it, second) is None
    with pytest.raises(Refusal, match="the shuffler has not deleted its reports") as call:
        life.delete(it.coordinator.context, STUDY)
    assert call.value.status == 409
    assert STUDY in it.coordinator.unfinished()
    assert take_step(it.coordinator, STUDY)
    assert rows(shuffler, reports) == rows(shuffler, tokens) == []
    assert STUDY not in it.coordinator.unfinished()
    assert not take_step(it.coordinator, STUDY)
    late = it.upload(invited[first], np.array(it.reports[1][0]))
    assert isinstance(late, Refusal)
    assert late.status == 410
    life.delete(it.coordinator.context, STUDY)
    assert it.coordinator.studies() == []


def test_a_whole_batch_that_is_called_off_is_not_forwarded(pair: tuple[World, Shuffler]) -> None:
    it, shuffler = pair
    for key, invitation in list(it.invited()):
        it.answer(key, invitation)
    ((batch, total),) = shuffler.sealed()
    life.change(it.coordinator.context, STUDY, Wanted.ENDED)
    with pytest.raises(Refusal, match="no wave waits") as call:
        take_total(it.coordinator, batch, total)
    assert call.value.status == 410
    assert take_step(it.coordinator, STUDY)
    assert shuffler.sealed() == []
    assert json.dumps(total) not in {row.total for row in rows(shuffler, schema.batches)}


def test_a_batch_that_was_called_off_does_not_begin_again(pair: tuple[World, Shuffler]) -> None:
    _, shuffler = pair
    for name in (BATCH, "c" * 43):
        if name != BATCH:
            shuffler.announce(name, Batch(2, 3, 4, 6, 0.5), [b"1" * 32], [])
        shuffler.call_off(name)
        shuffler.call_off(name)
        with pytest.raises(Refusal, match="called off") as call:
            shuffler.announce(name, Batch(2, 3, 4, 6, 0.5), [b"2" * 32], [])
        assert call.value.status == 410


def test_a_shuffler_that_does_not_answer_is_told_again(pair: tuple[World, Shuffler], monkeypatch: Any) -> None:
    it, shuffler = pair
    life.change(it.coordinator.context, STUDY, Wanted.ENDED)
    link = it.coordinator.context.shuffler

    def away(name: str) -> None:
        raise httpx.ConnectError("nobody is there")

    with monkeypatch.context() as patch:
        patch.setattr(link, "call_off", away)
        with pytest.raises(httpx.ConnectError):
            take_step(it.coordinator, STUDY)
    assert STUDY in it.coordinator.unfinished()
    assert take_step(it.coordinator, STUDY)
    assert {row.state for row in rows(shuffler, schema.batches)} == {"called off"}


def test_forgetting_and_calling_off_over_http_take_the_coordinator_s_signature(tmp_path: Path) -> None:
    with own_shuffler(str(tmp_path / "s.db")) as shuffler:
        service = ShufflerApp(Shuffler(shuffler.database, quiet), "http://127.0.0.1:1", KEY)
        with served(service.guarded(RateLimit(0, 1), 10**6)) as url, httpx.Client() as client:
            link, batch, hashed = HttpShuffler(url, Keyring.of(KEY), url, client), Batch(2, 3, 4, 6, 0.5), b"1" * 32
            link.announce(BATCH, batch, [hashed], [])
            assert link.announce(BATCH, batch, [], [], [hashed]).withdrawn == [hashed.hex()]
            for stranger in (b"another", b""):
                with pytest.raises(httpx.DecodingError, match=r"status 401\) is not signed"):
                    send(client, Keyring.of(stranger), url, f"/v2/batches/{BATCH}", method="DELETE")
            assert client.delete(f"{url}/v2/batches/{BATCH}").status_code == 401
            assert len(rows(shuffler, tokens)) == 1
            link.call_off(BATCH)
            assert rows(shuffler, tokens) == []
            with pytest.raises(Refusal) as call:
                link.announce(BATCH, batch, [], [])
            assert call.value.status == 410


def test_what_the_shuffler_ended_is_ended_although_a_pause_began_meanwhile(
    pair: tuple[World, Shuffler], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise devices would be told that there is time, and spend a report that the shuffler refuses."""
    it, shuffler = pair
    late, *others = it.invited()
    for key, invitation in others:
        assert it.answer(key, invitation) is True
    announce = shuffler.announce

    def slow(*given: Any) -> BatchProgress:
        told = announce(*given)
        life.change(it.coordinator.context, STUDY, Wanted.PAUSED)
        return told

    it.clock.now += 101
    with monkeypatch.context() as patched:
        patched.setattr(shuffler, "announce", slow)
        take_step(it.coordinator, STUDY)
    assert it.status.life == "paused"
    assert it.invitation(late[0]) is None
    assert it.status.funnel == Funnel(12, 11, 1, 0)
    life.change(it.coordinator.context, STUDY, Wanted.RUNNING)
    it.settle()
    it.answer_all()
    it.settle()
    assert it.status.wave == 2

"""Who is asked about a wave, when its rounds begin, and how people are drawn while others write."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import sqlalchemy as sa

from tests.helpers_waiting import HANGING
from tests.service.world import SECRET, STUDY, definition, enrol, own_shuffler, private, take_step, world
from voxpop.policies import make_policy
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal
from voxpop.service.stores import schema
from voxpop.service.stores.migrate import open_store
from voxpop.service.study import collecting, log, participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.invitations import Invitations
from voxpop.service.study.stages import Stage


def test_a_wave_with_too_few_people_waits_and_says_so(address: str) -> None:
    with world(address, definition(private("central")), people=7) as it:
        it.settle()
        waiting = (
            "Waiting: wave 1 needs 12 people, and 7 who can be asked are registered; its rounds begin when 5 more are."
        )
        assert (it.status.stage, waiting in it.status.says) == ("open", True)
        best = it.coordinator.snapshots.current(STUDY).best
        now = it.coordinator.decision(STUDY)
        assert (now.index, now.rounds) == (best, 0)
        with pytest.raises(Refusal, match="begin when 12 people") as refused:
            it.coordinator.play(STUDY, 1, "early", 1)
        assert refused.value.status == 409
        it.register(5)
        it.settle()
        assert not any(sentence.startswith("Waiting") for sentence in it.status.says)
        it.play_all()
        it.settle()
        assert (it.status.invited, it.status.short) == (12, 0)
        it.answer_all()
        it.settle()
        assert it.status.wave == 2


@pytest.mark.parametrize("reported", [True, False])
def test_people_who_registered_after_the_rounds_began_are_not_asked_about_them(address: str, reported: bool) -> None:
    rules: dict[str, Any] = {} if reported else {"rounds_per_second": 0.01}
    with world(address, definition(private("central"), deadline=100.0, **rules), people=12) as it:
        it.settle()
        if reported:
            it.register(1)  # no round has been played so far: this person is in time
            it.coordinator.play(STUDY, 1, "all", 1)
        in_time = set(it.keys)
        it.clock.now += 100.0
        it.register(40)
        for _ in range(2):  # and when people do not answer, only those who were in time are asked again
            it.settle()
            asked = {key for key, _ in it.invited()}
            assert len(asked) == 12
            assert asked <= in_time
            it.clock.now += 50.0
        it.answer_all()
        it.settle()
        assert it.status.wave == 2
        if reported:
            it.play_all()
        it.clock.now += 1e6
        it.settle()
        assert not {key for key, _ in it.invited()} <= in_time  # now the others are, too


def test_rounds_are_played_again_for_later_people_if_too_few_in_time_answer(address: str) -> None:
    """Otherwise a single device that is gone could stop a study."""
    with world(address, definition(private("central"), deadline=100.0), people=12) as it:
        it.settle()
        it.play_all()
        it.settle()
        first = dict(it.invited())
        gone = set(list(first)[:3])
        for key in set(first) - gone:
            it.answer(key, first[key])
        for _ in range(4):  # nobody else is there: they are asked again and again
            it.clock.now += 101.0
            it.settle()
            assert {key for key, _ in it.invited()} == gone
        assert it.status.short == 3
        assert any("3 more people must register" in sentence for sentence in it.status.says)
        it.register(2)  # not enough
        it.clock.now += 101.0
        it.settle()
        assert {key for key, _ in it.invited()} == gone
        it.register(5)
        it.settle()
        assert it.status.stage == "collecting"  # those who are asked still have time
        it.clock.now += 101.0
        it.settle()
        assert (it.status.stage, it.status.played) == ("open", 0)
        it.play_all()
        it.settle()
        new = {key for key, _ in it.invited()}
        assert len(new) == 3
        assert new <= set(it.keys[12:])
        it.answer_all()
        it.settle()
        closed = it.coordinator.snapshots.current(STUDY).closed
        assert [wave.feedback.count for wave in closed] == [12]


def test_rounds_are_played_again_in_the_shuffle_model_too(tmp_path: Path) -> None:
    made = definition(private("shuffle"), deadline=100.0)
    with own_shuffler(str(tmp_path / "s.db")) as shuffler, world(str(tmp_path / "c.db"), made, 12, shuffler) as it:
        it.settle()
        it.play_all()
        it.settle()
        first = dict(it.invited())
        for key in list(first)[:10]:
            it.answer(key, first[key])
        it.register(4)
        for _ in range(20):
            if it.status.stage == "open":
                break
            it.clock.now += 101.0
            it.settle()
        assert it.status.stage == "open"
        it.play_all()
        for _ in range(3):
            it.settle()
        it.answer_all()
        it.settle()
        closed = it.coordinator.snapshots.current(STUDY).closed
        assert [wave.feedback.count for wave in closed] == [12]
        assert sum(key in it.asked for key in it.keys[12:]) == 2


def test_nobody_gets_a_second_invitation_while_the_first_is_open(tmp_path: Path) -> None:
    """A coordinator that was suspended after its draw finds the numbers unchanged, although others were invited."""
    with world(str(tmp_path / "c.db"), definition(private("central"), deadline=100.0), people=30) as it:
        it.settle()
        it.play_all()
        it.settle()
        snapshot = it.coordinator.snapshots.current(STUDY)
        with it.coordinator.database.read() as connection:
            wanted = sa.select(schema.invitations.c.person, schema.invitations.c.block)
            held = [(row.person, row.block) for row in connection.execute(wanted)]
        before = (Stage.COLLECTING, len(held), len(held) - 1)  # one person fewer had been asked when it drew
        assert not collecting._invite(it.coordinator.context, snapshot, held[:1], before, 0)
        assert len(dict(it.invited())) == 12


def test_a_clock_starts_when_enough_people_are_registered(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(private("central"), rounds_per_second=2.0)) as it:
        it.settle()
        it.clock.now += 1e6
        assert (it.status.stage, it.status.played) == ("open", 0)
        it.register(12)
        it.settle()
        assert (it.status.stage, it.status.played) == ("playing", 0)
        it.clock.now += 0.5
        it.settle()
        assert (it.status.stage, it.status.invited) == ("collecting", 12)


def test_a_clock_that_was_set_back_is_said(tmp_path: Path) -> None:
    noted: list[tuple[str, Any]] = []
    with world(str(tmp_path / "c.db"), definition(private("central"), rounds_per_second=0.1), people=12) as it:
        it.coordinator.context.note = lambda kind, **values: noted.append((kind, values.get("seconds")))
        it.settle()
        it.clock.now -= 3600
        it.settle()
        assert noted[-1] == ("clock_back", 3600)
        assert any("is 3,600 s before the beginning of wave 1" in sentence for sentence in it.status.says)
        it.clock.now += 3611
        it.settle()
        assert it.status.stage == "collecting"
        assert not any(sentence.startswith("Stopped") for sentence in it.status.says)


class Killed(BaseException):
    """Stands in for the end of the process."""


def test_a_draw_that_was_killed_goes_on_with_those_not_yet_invited(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "ASKED_AT_ONCE", 5)
    monkeypatch.setattr(collecting, "PAUSE", 0.0)
    real, left = Invitations.insert, [2]

    def insert(connection: Any, rows: list[Any]) -> None:
        real(connection, rows)
        left[0] -= 1
        if left[0] < 0:  # in the middle of a transaction, after two others
            raise Killed

    with world(address, definition(private("central", 30)), people=60) as it:
        it.settle()
        it.play_all()
        monkeypatch.setattr(Invitations, "insert", insert)
        with pytest.raises(Killed):
            take_step(it.coordinator, STUDY)
        early = {key for key, _ in it.invited()}
        assert (len(early), it.status.invited) == (10, 10)
        left[0] = 1000
        it.settle()
        asked = {key for key, _ in it.invited()}
        assert (len(asked), it.status.invited) == (30, 30)
        assert early <= asked
        with it.coordinator.database.read() as connection:
            rows = connection.execute(sa.select(sa.func.count()).select_from(schema.invitations)).scalar_one()
        assert rows == 30  # nobody twice


def test_two_coordinators_that_draw_at_the_same_time_invite_no_more_than_are_needed(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "ASKED_AT_ONCE", 5)
    with world(address, definition(private("central", 30)), people=60) as it:
        other = Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock)
        it.settle()
        it.play_all()

        def meanwhile(_: float) -> None:  # between two chunks of one draw, the other begins a draw of its own
            monkeypatch.undo()
            take_step(other, STUDY)

        monkeypatch.setattr(time, "sleep", meanwhile)
        it.settle()
        asked = [key for key, _ in it.invited()]
        assert (len(asked), it.status.invited, it.status.short) == (30, 30, 0)
        other.database.close()


def test_counters_say_what_counting_would(address: str) -> None:
    made = definition(private("central"), participations=3, budget=9.0)
    with world(address, made, people=20) as it:
        for _ in range(3):
            it.settle()
            it.play_all()
            it.settle()
            it.answer_all()
            it.register(3)
            with it.coordinator.database.read() as connection:
                people = connection.execute(sa.select(schema.people.c.participations)).scalars().all()
                row = connection.execute(sa.select(schema.studies)).one()
                held = Invitations(connection, STUDY, row.wave).held
            assert (it.status.registered, it.status.never_asked) == (len(people), people.count(0))
            assert row.invited == held


def test_people_are_read_in_parts_and_all_of_them_can_be_drawn(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxpop.service.study.invitations.READ", 7)
    with (
        world(address, definition(private("central")), people=50) as it,
        it.coordinator.database.read() as connection,
    ):
        drawn = Invitations(connection, STUDY, 1).draw(1000, 1, 2**62)
        everyone = connection.execute(sa.select(schema.people.c.id)).scalars().all()
        assert sorted(drawn) == sorted(everyone)
        assert len(everyone) == 50
        assert len(set(Invitations(connection, STUDY, 1).draw(20, 1, everyone[29]))) == 20


def test_people_register_while_a_step_holds_the_study(new_postgres: Callable[[], str]) -> None:
    with world(new_postgres(), definition(private("central"))) as it:
        newcomer = Thread(target=enrol, args=(it.coordinator, STUDY, new_key()), daemon=True)
        with it.coordinator.database.write() as connection:
            log.row_of(connection, STUDY, lock=True)
            newcomer.start()
            newcomer.join(HANGING)
            assert not newcomer.is_alive()
        assert it.status.registered == 1


@pytest.mark.parametrize("at_once", [500, 1])
def test_people_who_did_not_answer_are_asked_again_once_each_if_nobody_else_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(collecting, "ASKED_AT_ONCE", at_once)
    made = definition(None, policy=make_policy("dpbe", alpha=0.7), horizon=3100, deadline=100.0)
    with world(str(tmp_path / "c.db"), made) as it:
        it.settle()
        it.register(it.status.people)
        it.settle()
        it.play_all()
        it.settle()
        (gone, _), (late, _), *others = it.invited()
        for key, invitation in others:
            it.answer(key, invitation)
        participants.withdraw(it.coordinator.context, STUDY, gone)
        it.keys.remove(gone)
        it.clock.now += 101
        it.settle()
        with it.coordinator.database.read() as connection:
            held = (
                connection.execute(sa.select(schema.invitations.c.person).where(~schema.invitations.c.expired))
                .scalars()
                .all()
            )
        assert len(held) == len(set(held)) == it.status.people - 1
        assert [key for key, _ in it.invited()] == [late]


def test_nobody_is_asked_while_another_coordinator_lets_the_rounds_be_played_again(address: str) -> None:
    """It did so after this one looked at the study: there is nobody yet who lived through the rounds."""
    with world(address, definition(), 30) as it:
        it.settle()
        it.play_all()
        snapshot = it.coordinator.snapshots.current(STUDY)
        with it.coordinator.database.write() as connection:
            log.update_study(connection, STUDY, stage=Stage.OPEN, newest=None, played=0)
        assert collecting.ask(it.coordinator.context, snapshot) is True
        assert list(it.invited()) == []

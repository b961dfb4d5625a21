"""Counters of a wave agree with what is stored, whoever stores it; a wave is not closed if they do not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.world import SECRET, STUDY, World, definition, own_shuffler, private, world
from voxpop.service.refusals import Refusal
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import inbox
from voxpop.service.stores.schema import tallies as table
from voxpop.service.study import life
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.inbox import Upload, store
from voxpop.service.study.invitations import Funnel, Invitations
from voxpop.service.study.life import Wanted


def funnel(it: World, wave: int = 1) -> Funnel:
    with it.coordinator.database.read() as connection:
        return Invitations(connection, STUDY, wave).funnel


def collect(it: World) -> list[tuple[str, dict[str, Any]]]:
    """Bring the study to where people answer; return those who are invited."""
    it.settle()
    it.play_all()
    it.settle()
    return list(it.invited())


def test_the_funnel_says_what_became_of_everyone(address: str) -> None:
    with world(address, definition(private("central"), deadline=100.0), people=30) as it:
        invited = collect(it)
        assert funnel(it) == Funnel(asked=12)
        for key, invitation in invited[:5]:
            assert it.answer(key, invitation) is True
            assert it.answer(key, invitation, np.full((1, 1), 0.25)) is not True  # another report under the same token
        assert isinstance(it.upload(invited[5][1], np.full((1, 7), 0.5)), Refusal)  # too many numbers
        assert funnel(it) == Funnel(asked=12, answered=5, refused=6)
        it.clock.now += 101
        it.settle()
        assert funnel(it) == Funnel(asked=12 + 7, answered=5, lapsed=7, refused=6)
        assert isinstance(it.answer(*invited[6]), Refusal)  # too late
        assert it.status.funnel == Funnel(19, 5, 7, 7)
        it.answer_all()
        it.settle()
        assert funnel(it) == Funnel(asked=19, answered=12, lapsed=7, refused=7)
        assert it.status.wave == 2
        assert it.status.funnel.asked == 0


def test_repeating_a_report_counts_nothing(address: str) -> None:
    with world(address, definition(private("central")), people=12) as it:
        (_, invitation), *_ = collect(it)
        upload = Upload((STUDY, 1), invitation["token"], np.array([0.5]).tobytes())
        assert store(it.coordinator.context, [upload, upload]) == [True, False]
        assert store(it.coordinator.context, [upload]) == [False]
        assert funnel(it).answered == 1


def test_each_coordinator_adds_to_counters_of_its_own(address: str) -> None:
    with world(address, definition(private("central")), people=12) as it:
        other = Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock)
        for number, (_, invitation) in enumerate(collect(it)):
            upload = Upload((STUDY, 1), invitation["token"], np.array([0.5]).tobytes())
            assert store((it.coordinator if number % 3 else other).context, [upload]) == [True]
        with other.database.read() as connection:
            rows = connection.execute(sa.select(table.c.writer, table.c.answered)).all()
        assert {row.writer: row.answered for row in rows} == {
            "": 0,
            it.coordinator.context.writer: 8,
            other.context.writer: 4,
        }
        it.settle()
        assert it.status.wave == 2
        other.database.close()


def test_reports_to_several_waves_in_one_group_are_counted_apart(address: str) -> None:
    with world(address, definition(private("central"), participations=2, budget=20.0), people=12) as it:
        early = [invitation for _, invitation in collect(it)]
        it.answer_all()
        late = [invitation for _, invitation in collect(it)]
        assert late[0]["wave"]["wave"] == 2
        arms = len(late[0]["wave"]["arms"])
        group = [
            Upload((STUDY, 1), early[0]["token"], np.array([0.25]).tobytes()),
            Upload((STUDY, 2), late[0]["token"], np.full(arms, 0.5).tobytes()),
            Upload((STUDY, 2), late[1]["token"], np.full(arms, 0.5).tobytes()),
            Upload((STUDY, 2), "x" * 43, np.full(arms, 0.5).tobytes()),
        ]
        verdicts = store(it.coordinator.context, group)
        assert verdicts[1:3] == [True, True]
        assert (funnel(it, 1).refused, funnel(it, 2).answered, funnel(it, 2).refused) == (1, 2, 0)


def test_a_wave_whose_counters_disagree_with_its_reports_is_not_closed(address: str) -> None:
    with world(address, definition(private("central")), people=12) as it:
        invited = collect(it)
        for key, invitation in invited[:11]:
            it.answer(key, invitation)
        with it.coordinator.database.write() as connection:
            Invitations(connection, STUDY, 1).add(answered=1)
        with pytest.raises(RuntimeError, match="holds 11 reports of the wave, and 12 were counted"):
            it.settle()
        with it.coordinator.database.read() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(inbox)).scalar_one() == 11
        assert it.status.stage == "collecting"


def test_in_the_shuffle_model_those_whom_the_shuffler_counted_are_counted(address: str, tmp_path: Path) -> None:
    with own_shuffler(str(tmp_path / "s.db")) as shuffler:
        made = definition(private("shuffle"), deadline=100.0)
        with world(address, made, people=30, shuffler=shuffler) as it:
            invited = collect(it)
            assert funnel(it) == Funnel(asked=12)
            for key, invitation in invited[:-1]:
                assert it.answer(key, invitation) is True
            it.clock.now += 101
            it.settle()
            assert funnel(it) == Funnel(asked=13, answered=11, lapsed=1)
            it.answer_all()
            assert funnel(it) == Funnel(asked=13, answered=12, lapsed=1)


def test_ending_a_study_ends_its_open_invitations(address: str) -> None:
    with world(address, definition(private("central")), people=12) as it:
        for key, invitation in collect(it)[:4]:
            it.answer(key, invitation)
        life.change(it.coordinator.context, STUDY, Wanted.ENDED)
        assert funnel(it) == Funnel(asked=12, answered=4, lapsed=8)

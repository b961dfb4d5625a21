"""A study from beginning to end, on SQLite and PostgreSQL: it equals the simulator's, and no report is left behind."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.world import STUDY, World, definition, own_shuffler, private, world
from voxpop.errors import Array
from voxpop.privacy import Simulated, crowds
from voxpop.privacy.sources import Integers
from voxpop.runtime.random_streams import stream
from voxpop.service.demo.crowd import disagreements
from voxpop.service.refusals import Refusal
from voxpop.service.stores.schema import inbox, plays, totals
from voxpop.service.study.coordinator import RoundsCounted
from voxpop.service.study.log import fold


def left_behind(it: World) -> int:
    with it.coordinator.database.read() as connection:
        counts = [
            connection.execute(sa.select(sa.func.count()).select_from(t)).scalar_one() for t in (inbox, totals, plays)
        ]
    return sum(counts)


@pytest.mark.parametrize("model", ["none", "local"])
def test_plans_and_state_are_the_simulators(address: str, model: str) -> None:
    made = definition(None if model == "none" else private(model))
    with world(address, made, people=80) as it:
        it.run()
        assert disagreements(it.coordinator.log(STUDY), it.reports) == []
        assert left_behind(it) == 0
        assert len(it.coordinator.snapshots.current(STUDY).closed) == 5


def test_the_simulator_s_chunks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every report counts once, even if the simulator would draw its people a few at a time."""
    monkeypatch.setattr(crowds, "CHUNK", 4)
    with world(str(tmp_path / "c.db"), definition(private("local")), people=80) as it:
        it.run()
        assert disagreements(it.coordinator.log(STUDY), it.reports) == []


@pytest.mark.parametrize("model", ["none", "local"])
def test_another_report_would_be_noticed(tmp_path: Path, model: str) -> None:
    """Guards the tests above. Under local noise the bounds are so wide that no change of an average moves them."""
    made = definition(None if model == "none" else private(model))
    with world(str(tmp_path / "c.db"), made, people=80) as it:
        it.run()
        it.reports[5][0][0] += 1.0
        assert "the releases of wave 5 differ" in disagreements(it.coordinator.log(STUDY), it.reports)


@pytest.mark.parametrize("model", ["shuffle", "aggregate"])
def test_the_models_with_two_servers_are_the_simulators(address: str, tmp_path: Path, model: str) -> None:
    made = definition(private(model))
    with own_shuffler(str(tmp_path / "shuffler.db")) as shuffler, world(address, made, 80, shuffler) as it:
        it.run()
        assert disagreements(it.coordinator.log(STUDY), it.reports) == []
        assert left_behind(it) == 0


@dataclass
class AgentNoise:
    """The noise of the simulator's agent; it agrees only if it is drawn once per wave."""

    wave: int = 0

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        self.wave += 1
        return Simulated(stream(0, "agent", self.wave)).gaussian(rows, columns, std)

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        raise AssertionError("not in the central model")

    def bernoulli(self, chances: Array) -> Integers:
        raise AssertionError("not in the central model")

    def uniform(self, rows: int, columns: int, width: int) -> Integers:
        raise AssertionError("not in the central model")


def test_the_central_noise_is_drawn_once_and_charged(address: str) -> None:
    noise = AgentNoise()
    with world(address, definition(private("central")), people=80, noise=noise) as it:
        it.run()
        events = it.coordinator.log(STUDY)
        assert disagreements(events, it.reports) == []
        assert noise.wave == 5
        ledger = fold(events).ledger
        assert [entry.people for entry in ledger.entries] == [12] * 5
        assert ledger.totals(1e-6)["epsilon"] == pytest.approx(5.0)


def test_everyone_is_asked_once_and_only_as_many_as_planned(address: str) -> None:
    with world(address, definition(private("central")), people=80) as it:
        it.run()
        assert {len(waves) for waves in it.asked.values()} == {1}
        assert {wave: len(rows) for wave, rows in it.reports.items()} == dict.fromkeys(range(1, 6), 12)
        assert it.status.never_asked == 80 - 60


def test_people_take_part_again_as_far_as_the_budget_allows(address: str) -> None:
    made = definition(private("central"), participations=5, budget=8.0)
    with world(address, made, people=20) as it:
        with pytest.raises(AssertionError, match="does not end"):
            it.run()
        # Two releases of eps = 5 add up to 7.4, three would add up to more than 8.
        assert max(len(waves) for waves in it.asked.values()) == 2
        assert it.status.stage == "open"
        assert any(sentence.startswith("Waiting: wave") for sentence in it.status.says)
        ledger = it.coordinator.snapshots.current(STUDY).ledger
        assert 5.0 < ledger.totals(1e-6)["epsilon"] <= 8.0
        it.register(60)
        it.run()


def test_people_take_part_again_in_the_shuffle_model_too(tmp_path: Path) -> None:
    made = definition(private("shuffle"), participations=5, budget=8.2)
    with own_shuffler(str(tmp_path / "s.db")) as shuffler, world(str(tmp_path / "c.db"), made, 20, shuffler) as it:
        with pytest.raises(AssertionError, match="does not end"):
            it.run()
        # Two releases of eps = 5 add up to 7.9 with binomial noise, three would add up to more than 10.
        assert max(len(waves) for waves in it.asked.values()) == 2
        ledger = it.coordinator.snapshots.current(STUDY).ledger
        assert 7.8 < ledger.totals(1e-6)["epsilon"] <= 8.2
        it.register(60)
        it.run()


def test_no_shows_are_replaced_by_others(address: str) -> None:
    with world(address, definition(private("central"), deadline=100.0), people=30) as it:
        it.settle()
        it.play_all()
        it.settle()
        first = dict(it.invited())
        assert len(first) == 12
        sleepers = list(first)[:5]
        for key in list(first)[5:]:
            it.answer(key, first[key])
        it.clock.now += 99
        it.settle()
        assert {key for key, _ in it.invited()} == set(sleepers)
        it.clock.now += 2
        it.settle()
        fresh = {key for key, _ in it.invited()}
        assert len(fresh) == 5
        assert fresh.isdisjoint(first)
        late = it.answer(sleepers[0], first[sleepers[0]])
        assert isinstance(late, Refusal)
        assert late.status == 410
        it.answer_all()
        it.settle()
        assert it.status.wave == 2


def test_people_who_missed_the_deadline_are_asked_again_when_nobody_else_is_left(address: str) -> None:
    with world(address, definition(private("central"), deadline=10.0), people=12) as it:
        it.settle()
        it.play_all()
        it.settle()
        before = dict(it.invited())
        it.clock.now += 11
        it.settle()
        after = dict(it.invited())
        assert set(after) == set(before)
        assert {found["token"] for found in after.values()}.isdisjoint(found["token"] for found in before.values())


def test_the_draw_is_uniform(tmp_path: Path) -> None:
    """Everyone is equally likely: over many draws the counts are those of a fair lottery."""
    from voxpop.service.study.invitations import _sample

    counts = np.zeros(20)
    for _ in range(4000):
        counts[_sample(range(20), 5)] += 1
    # A chi-square of 19 degrees of freedom (times 15/19 for drawing without replacement) passes 60 once in 10^5.
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 60
    assert len(set(_sample(range(20), 20))) == 20


def test_a_clock_plays_the_rounds(address: str) -> None:
    with world(address, definition(private("central"), rounds_per_second=2.0), people=60) as it:
        it.settle()
        assert it.status.stage == "playing"
        it.clock.now += 0.4
        it.settle()
        assert it.status.stage == "playing"
        it.clock.now += 0.2
        it.settle()
        assert it.status.stage == "collecting"
        with pytest.raises(Refusal, match="a clock plays"):
            it.coordinator.play(STUDY, 1, "x", 1)
        it.answer_all()
        it.settle()
        it.clock.now -= 10_000  # a clock that was set back plays nothing twice
        assert it.status.played == 0


def test_decisions_are_played_in_order_and_rounds_counted_once(address: str) -> None:
    with world(address, definition(), people=80) as it:
        for _ in range(3):
            it.settle()
            it.play_all()
            it.settle()
            it.answer_all()
        it.settle()
        plan = it.coordinator.snapshots.current(STUDY).wave
        assert plan is not None
        seen = []
        for number in range(plan.plan.asked):
            now = it.coordinator.decision(STUDY)
            seen.append(now.index)
            assert it.coordinator.play(STUDY, 4, f"r{number}", 1).counted == 1
            assert it.coordinator.play(STUDY, 4, f"r{number}", 1).counted == 0
        assert seen == np.repeat(plan.plan.arms, plan.plan.pulls).tolist()
        with pytest.raises(Refusal, match="other rounds were reported under"):
            it.coordinator.play(STUDY, 4, "r0", 2)
        with pytest.raises(Refusal, match="wave 3 is not being played"):
            it.coordinator.play(STUDY, 3, "late", 1)


def test_more_rounds_than_planned_are_not_counted(address: str) -> None:
    with world(address, definition(), people=10) as it:
        it.settle()
        assert it.coordinator.play(STUDY, 1, "a", 1000) == RoundsCounted(1, 1)


def test_the_same_study_again_changes_nothing_and_another_is_refused(address: str) -> None:
    with world(address, definition()) as it:
        assert it.coordinator.create(STUDY, definition()) is False
        with pytest.raises(Refusal, match="another study 'tea'"):
            it.coordinator.create(STUDY, definition(horizon=63))

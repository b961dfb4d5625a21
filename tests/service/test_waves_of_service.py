"""The default policy in the service: its waves are the simulator's, and it ends with a reason."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.service.test_one_wave import AgentNoise
from tests.service.world import SECRET, STUDY, World, definition, enrol, own_shuffler, private, take_step, world
from voxpop.model.waves import Plan
from voxpop.model.words import number
from voxpop.policies import Policy, make_policy
from voxpop.privacy import Private
from voxpop.service.demo.crowd import disagreements
from voxpop.service.refusals import Refusal
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition
from voxpop.service.study.status import Status, best_decision, played_at


def waves(**settings: Any) -> Policy:
    return make_policy("waves", **settings)


def of_model(model: str, rails: bool = False, **settings: Any) -> Definition:
    epsilon = {"none": 0.0, "central": 5.0, "local": 30.0, "shuffle": 5.0, "aggregate": 5.0}[model]
    privacy = None if model == "none" else Private(model, epsilon)
    return definition(privacy, 500, waves(most_people=150, **settings), rails)


def ran(stack: ExitStack, folder: Path, made: Definition, people: int = 150, **named: Any) -> World:
    """Run a whole study, and return its world."""
    shuffler = stack.enter_context(own_shuffler(str(folder / "shuffler.db")))
    it = stack.enter_context(world(str(folder / "c.db"), made, people, shuffler, **named))
    it.run()
    return it


@pytest.mark.parametrize("rails", [False, True])
@pytest.mark.parametrize("model", ["none", "central", "local", "shuffle", "aggregate"])
def test_the_waves_of_the_service_are_the_simulators(tmp_path: Path, model: str, rails: bool) -> None:
    """Also of a study with a guardrail, whose reports are about two metrics."""
    with ExitStack() as stack:
        it = ran(stack, tmp_path, of_model(model, rails, trials="any" if rails else "safe"), noise=AgentNoise())
        assert {wave.plan.also for wave in it.coordinator.snapshots.current(STUDY).closed} == {int(rails)}
        assert disagreements(it.coordinator.log(STUDY), it.reports, blocks=it.blocks) == []
        found = it.coordinator.snapshots.current(STUDY)
        assert len(found.closed) >= 2
        assert all(wave.plan.orders is not None for wave in found.closed)
        assert model == "none" or {wave.plan.blocks for wave in found.closed} == {1}
        it.reports[2][0][0] += 3.0
        assert disagreements(it.coordinator.log(STUDY), it.reports, blocks=it.blocks) != []


@pytest.mark.parametrize("model", ["none", "central"])
def test_two_coordinators_spend_a_level_once_and_say_the_same(tmp_path: Path, model: str) -> None:
    address = str(tmp_path / "c.db")
    with world(address, of_model(model), 150) as it:
        other, spent = Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock), [0.0]
        while it.status.stage != "finished":
            for act in (it.play_all, it.answer_all):
                act()
                while take_step(other, STUDY) | take_step(it.coordinator, STUDY):
                    pass
            one, same = it.coordinator.snapshots.current(STUDY), other.snapshots.current(STUDY)
            assert (one.state.spent, best_decision(one)) == (same.state.spent, best_decision(same))
            if one.state.spent != spent[-1]:
                spent.append(one.state.spent)
        closed = len(other.snapshots.current(STUDY).closed)
        assert len(spent) - 1 in (closed, closed + 1)  # after each wave, and at the end
        assert spent == sorted(spent)
        assert spent[-1] <= waves().settings()["delta"]
        other.database.close()


def test_a_service_that_draws_its_own_noise_agrees_as_far_as_noise_allows(tmp_path: Path) -> None:
    with ExitStack() as stack:
        it = ran(stack, tmp_path, definition(Private("central", 60.0), 500, waves()))
        log = it.coordinator.log(STUDY)
        assert disagreements(log, it.reports, own_noise=True) == []
        assert disagreements(log, it.reports) != []
        for report in it.reports[1]:
            report[0] -= 1000.0  # all are clipped to the edge of the ball
        assert disagreements(log, it.reports, own_noise=True) == [
            "the releases of wave 1 differ by more than noise can explain"
        ]


def test_the_status_says_what_the_open_wave_should_bring(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), of_model("none"), people=150) as it:
        it.settle()
        status = msgspec.json.decode(msgspec.json.encode(it.status), type=Status)
        plan = it.coordinator.snapshots.current(STUDY).wave.plan  # type: ignore[union-attr]
        assert status.forecast is not None
        assert plan.forecast is not None
        assert (status.forecast.gain, status.forecast.answers) == (plan.forecast.gain, plan.forecast.answers)
        assert (status.people, status.arms) == (plan.people, len(plan.arms))
        sentence = next(text for text in status.says if text.startswith("Wave 1"))
        assert f"asks {plan.people} people about {len(plan.arms)} decisions" in sentence
        assert f"bring {number(plan.forecast.gain)} over" in sentence


def test_the_incumbent_is_in_force_while_people_answer(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), of_model("none", answer_delay=10), people=150) as it:
        it.settle()
        plan = it.coordinator.snapshots.current(STUDY).wave.plan  # type: ignore[union-attr]
        other = next(int(arm) for arm in plan.arms if arm != plan.reference)
        for place, arm in enumerate(plan.sequence):
            assert it.status.in_force.index == it.coordinator.decision(STUDY).index == arm
            it.coordinator.play(STUDY, 1, str(place), 1)
        assert it.coordinator.decision(STUDY).index == plan.reference  # even before anybody is invited
        it.settle()
        assert it.status.stage == "collecting"
        assert plan.rest == 10
        assert it.status.in_force.index == it.status.best.index == plan.reference != other
        assert it.coordinator.decision(STUDY).rounds == 0


@pytest.mark.parametrize("pulls", [[4, 4, 4], [3, 1, 5], [1], [40, 40]])
@pytest.mark.parametrize("blocks", [1, 2])
def test_the_decision_in_force_in_a_round_is_the_one_of_the_order_of_play(pulls: list[int], blocks: int) -> None:
    """Also where some arms are played more often, one after the other; and for as many rounds as it says."""
    blocks = blocks if len(set(pulls)) == 1 and not pulls[0] % blocks else 1
    plan = Plan(1, np.array([2, 3, 7])[: len(pulls)], np.array(pulls), 100, blocks=blocks)
    plan = plan.shuffled(np.random.default_rng(0))
    ends = [plan.asked // blocks * (block + 1) for block in range(blocks)]
    lived = Counter[tuple[int, int]]()
    for done in range(plan.asked):
        index, left, block = played_at(plan, done)
        assert plan.sequence[done : done + left].tolist() == [index] * left
        assert done + left in ends or plan.sequence[done + left] != index
        assert (ends[block - 1] - plan.asked // blocks) <= done < done + left <= ends[block - 1]
        lived[block, index] += 1
    assert [lived[block + 1, arm] for block in range(blocks) for arm in plan.arms] == [*plan.lived] * blocks


@pytest.mark.parametrize("most", [10_000, 10])
def test_devices_are_told_which_rounds_do_not_count(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds of every turn have block 0, also where arms are played one after the other."""
    monkeypatch.setattr("voxpop.model.waves.MOST_SHUFFLED", most)
    plan = Plan(1, np.array([2, 3, 7]), np.array([8, 8, 8]), 100, blocks=2, washout=2)
    plan = plan.shuffled(np.random.default_rng(0))
    assert plan.blocks == (2 if plan.orders is not None else 1)
    lived = Counter[tuple[int, int]]()
    for done in range(plan.asked):
        index, left, block = played_at(plan, done)
        assert plan.sequence[done : done + left].tolist() == [index] * left
        assert plan.counting[done : done + left].tolist() == [block] * left
        assert left <= 2
        lived[block, index] += 1
    assert {lived[0, arm] for arm in (2, 3, 7)} == {8}
    assert {lived[block, arm] for block in plan.numbered for arm in (2, 3, 7)} == {int(plan.lived[0])}


def test_the_orders_of_a_wave_are_the_operating_systems_and_stay(tmp_path: Path) -> None:
    address = str(tmp_path / "c.db")
    with world(address, of_model("none"), people=150) as it:
        it.settle()
        plan = it.coordinator.snapshots.current(STUDY).wave.plan  # type: ignore[union-attr]
        other = Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock)
        same = other.snapshots.current(STUDY).wave.plan  # type: ignore[union-attr]
        assert plan.orders is not None
        assert same.sequence.tolist() == plan.sequence.tolist()
        assert other.decision(STUDY).index == plan.sequence[0]
        other.database.close()


def test_a_study_in_which_asking_does_not_pay_ends_at_once(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(None, 500, waves(answer_cost=1e6))) as it:
        it.settle()
        status = msgspec.json.decode(msgspec.json.encode(it.status), type=Status)
        assert (status.stage, status.wave, status.people) == ("finished", 0, 0)
        assert status.reason
        assert f"Finished: {status.reason}." in status.says
        assert [event.kind for event in it.coordinator.log(STUDY)] == ["created", "finished"]
        now = it.coordinator.decision(STUDY)
        assert (now.index, now.rounds) == (status.best.index, 0)
        with pytest.raises(Refusal, match="is over") as refused:
            enrol(it.coordinator, STUDY, "k" * 40)
        assert refused.value.status == 410
        assert disagreements(it.coordinator.log(STUDY), it.reports, blocks=it.blocks) == []


def test_a_wave_with_too_few_people_says_how_many_must_register(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), of_model("none"), people=5) as it:
        it.settle()
        people = it.status.people
        assert people > 5
        early = f"Waiting: wave 1 needs {people} people, and 5 who can be asked are registered; its rounds begin when "
        assert f"{early}{people - 5} more are." in it.status.says
        it.register(people - 5)
        it.settle()
        assert not any(sentence.startswith("Waiting") for sentence in it.status.says)


def test_waves_fit_into_the_population_that_they_know_of(tmp_path: Path) -> None:
    with ExitStack() as stack:
        made = definition(None, 500, waves(population=30))
        it = ran(stack, tmp_path, made, people=30)
        assert it.status.stage == "finished"
        assert sum(map(len, it.reports.values())) <= 30


@pytest.mark.parametrize("name", ["pilot-only", "equal-split", "halving", "thompson"])
def test_other_policies_run_in_the_service_too(tmp_path: Path, name: str) -> None:
    settings = {"equal-split": {"people": 8}, "thompson": {"people": 2, "steps": 6}}.get(name, {})
    with ExitStack() as stack:
        it = ran(stack, tmp_path, definition(None, 500, make_policy(name, **settings)), people=150)
        assert disagreements(it.coordinator.log(STUDY), it.reports, blocks=it.blocks) == []
        status = msgspec.json.decode(msgspec.json.encode(it.status), type=Status)
        assert status.best.expected_loss is None
        assert not any(sentence.startswith("Expected loss") for sentence in status.says)
        assert np.isfinite(it.coordinator.snapshots.current(STUDY).state.upper).all()


def test_central_waves_ask_enough_people_to_hide_in(tmp_path: Path) -> None:
    with ExitStack() as stack:
        it = ran(stack, tmp_path, definition(private("central", 25), 500, waves(most_waves=1)), people=200)
        assert min(len(rows) for rows in it.reports.values()) >= 25

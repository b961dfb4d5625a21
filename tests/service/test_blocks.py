"""A wave in blocks: everybody is asked about the rounds of one, and each block hears about as many people."""

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.served import served
from tests.service.world import SECRET, STUDY, World, check_in_as, enrol, take_step, world
from voxpop.client import Device, Outcome, Promise
from voxpop.journal.wave import Wave, release_wave
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Evidence, Problem
from voxpop.model.strata import Strata
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.policies.waves.planning import FEWEST
from voxpop.privacy import Ledger, NoPrivacy, Secure
from voxpop.service.demo.crowd import Crowd, disagreements, model_tastes, promise_of, simulated
from voxpop.service.keys import new_key
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import invitations
from voxpop.service.study import collecting, participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition, Rules
from voxpop.service.study.invitations import made as invitations_made
from voxpop.service.study.log import Snapshot, fold
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit

DEADLINE = 100.0
Answers = dict[tuple[int, int, int], float]  # by wave, block and arm


def study(strata: Strata | None = None, most: int = 24) -> Definition:
    """A study with a pilot, so that its first wave already measures what rounds do to everybody: in two blocks."""
    points = np.linspace(0, 1, 6)
    pilot = Evidence(points[[0, 3, 5], None], np.ones(3), 5, np.array([0.1, 0.3, 0.2]))
    problem = Problem(points, SquaredExponential(0.3), 0.1, 0.2, norm_bound=1.0, horizon=300, pilot=[pilot])
    policy = make_policy("waves", most_people=most, most_waves=3)
    return Definition(problem, policy, NoPrivacy(), rules=Rules(deadline=DEADLINE, most_invited=1), strata=strata)


def plan_of(it: World) -> Plan:
    return it.coordinator.snapshots.current(STUDY).open_wave.plan


def ask(it: World) -> None:
    """Play the rounds of the next wave, and invite."""
    for _ in range(2):
        it.settle()
        it.play_all()
    it.settle()


def blocks_of(it: World) -> dict[str, int]:
    """Return the block of everyone who is invited and has not answered."""
    return {key: invitation["wave"]["block"] for key, invitation in it.invited()}


def held(it: World) -> dict[int, int]:
    """Count the invitations to each block that were answered or still can be."""
    with it.coordinator.database.read() as connection:
        found = connection.execute(sa.select(invitations.c.block).where(~invitations.c.expired))
        return dict(Counter(found.scalars()))


def halves(people: int) -> dict[int, int]:
    return {1: people // 2, 2: people - people // 2}


def test_a_study_over_http_learns_from_each_block_what_its_people_lived_through_there(tmp_path: Path) -> None:
    """Devices ask for the decision before every round. What they gained depends on the block, and on the person."""
    coordinator = Coordinator(open_store(str(tmp_path / "c.db"), "coordinator"), SECRET)
    coordinator.create(STUDY, study())
    rng, lived, reports, blocks = np.random.default_rng(0), list[Answers](), dict[int, Any](), dict[int, Any]()
    with served(CoordinatorApp(coordinator).guarded(RateLimit(0, 1), 2**20)) as url, httpx.Client() as http:
        devices = [Device(url, STUDY, Promise(), http=http) for _ in range(60)]
        for device in devices:
            device.register()
            lived.append({})
        while take_step(coordinator, STUDY) or coordinator.snapshots.current(STUDY).ended is None:
            now = devices[0].decision()
            while now["rounds"]:
                for person, device in enumerate(devices):
                    reward = float(np.sin(3 * now["index"] / 5) + now["block"] / 10 + rng.normal(0, 0.2))
                    place = now["wave"], now["block"], now["index"]
                    lived[person][place] = lived[person].get(place, 0.0) + reward
                    device.record(now["wave"], now["index"], reward, block=now["block"])
                coordinator.play(STUDY, now["wave"], new_key(), 1)
                now = devices[0].decision()
            take_step(coordinator, STUDY)
            for person, device in enumerate(devices):
                found = json.loads(check_in_as(coordinator, STUDY, device.memory.key))
                if found["invited"]:
                    wave, block = found["wave"], found["wave"].get("block", 1)
                    each = [lived[person][wave["wave"], block, arm] for arm in wave["arms"]]
                    reports.setdefault(wave["wave"], []).append(list(np.array(each) / wave["rounds"]))
                    blocks.setdefault(wave["wave"], []).append(block)
                    assert device.check_in() is Outcome.ANSWERED
    done = fold(coordinator.log(STUDY))
    assert done.closed[0].plan.blocks == 2
    for wave in done.closed:
        rows, of = np.array(reports[wave.plan.wave]), np.array(blocks[wave.plan.wave])
        assert wave.feedback.by_block is not None or wave.plan.blocks == 1
        if wave.feedback.by_block is not None:
            wanted = np.stack([rows[of == block].mean(axis=0) for block in (1, 2)])
            np.testing.assert_allclose(wave.feedback.by_block, wanted, atol=1e-9)
            assert dict(Counter(blocks[wave.plan.wave])) == halves(wave.plan.people)
    assert disagreements(coordinator.log(STUDY), reports, blocks=blocks) == []  # the plans are a study's
    others = {wave: sorted(each) for wave, each in blocks.items()}
    assert disagreements(coordinator.log(STUDY), reports, blocks=others) != []
    coordinator.database.close()


def over_http(folder: Path, made: Definition, people: int) -> tuple[Coordinator, Crowd]:
    """Run a study to its end with simulated devices that talk to a coordinator over HTTP."""
    coordinator = Coordinator(open_store(str(folder / "c.db"), "coordinator"), SECRET)
    coordinator.create(STUDY, made)
    app = CoordinatorApp(coordinator).guarded(RateLimit(0, 1), 2**20)
    with served(app) as url, httpx.Client() as http, ThreadPoolExecutor(4) as pool:
        named: dict[str, Any] = {"url": url, "study": STUDY, "promise": promise_of(made), "http": http}
        crowd = Crowd(simulated(model_tastes(made.problem), range(people), **named), pool, longest=0.0)
        crowd.register()
        while take_step(coordinator, STUDY) or coordinator.snapshots.current(STUDY).ended is None:
            while (now := coordinator.decision(STUDY)).rounds:
                coordinator.play(STUDY, now.wave, new_key(), now.rounds)
            take_step(coordinator, STUDY)
            crowd.check_in()
    return coordinator, crowd


def test_simulated_devices_report_on_their_block_and_the_simulator_agrees(tmp_path: Path) -> None:
    coordinator, crowd = over_http(tmp_path, study(), 60)
    assert Counter(crowd.blocks[1]) == halves(len(crowd.reports[1]))
    assert disagreements(coordinator.log(STUDY), crowd.reports, blocks=crowd.blocks) == []
    coordinator.database.close()


def test_people_are_spread_evenly_and_told_what_they_report_on(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), study(), people=60) as it:
        it.settle()
        plan = plan_of(it)
        seen = []
        while (now := it.coordinator.decision(STUDY)).rounds:
            seen += [(now.block, now.index)] * now.rounds
            it.coordinator.play(STUDY, 1, str(len(seen)), now.rounds)
        assert [index for _, index in seen] == plan.sequence.tolist()
        assert Counter(seen) == {(block, arm): plan.lived[0] for block in (1, 2) for arm in plan.arms.tolist()}
        assert [block for block, _ in seen] == sorted(block for block, _ in seen)
        it.settle()
        assert Counter(blocks_of(it).values()) == halves(plan.people)
        for _, invitation in it.invited():
            assert invitation["wave"]["rounds"] == plan.lived.tolist()
            assert invitation["wave"]["arms"] == plan.arms.tolist()


def test_who_does_not_answer_is_replaced_in_their_own_block(address: str) -> None:
    with world(address, study(), people=60) as it:
        ask(it)
        plan, first = plan_of(it), blocks_of(it)
        silent = [key for key, block in first.items() if block == 2][:4] + [key for key in first if first[key] == 1][:1]
        for key, invitation in list(it.invited()):
            if key not in silent:
                assert it.answer(key, invitation) is True
        assert it.status.stage == "collecting"
        participants.withdraw(it.coordinator.context, STUDY, silent[0])
        it.keys.remove(silent[0])
        it.clock.now += DEADLINE + 1
        it.settle()
        others = {key: block for key, block in blocks_of(it).items() if key not in first}
        assert Counter(others.values()) == {1: 1, 2: 4}
        assert held(it) == halves(plan.people)
        it.answer_all()
        it.settle()
        (wave,) = it.coordinator.snapshots.current(STUDY).closed
        assert Counter(it.blocks[1]) == halves(plan.people)
        assert wave.feedback.by_block is not None


def test_nobody_is_invited_to_two_blocks_and_a_second_chance_may_be_another_block(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), study(), people=24) as it:
        ask(it)
        plan = plan_of(it)
        moved, before = False, blocks_of(it)
        for _ in range(12):
            it.clock.now += DEADLINE + 1
            it.settle()
            now = blocks_of(it)
            assert Counter(now.values()) == halves(plan.people)
            moved |= any(now[key] != before[key] for key in now.keys() & before.keys())
            before = now
        assert moved


def killed_after(chunks: int) -> Callable[..., Any]:
    calls = iter(range(100))

    def killed(*given: Any) -> Any:
        if next(calls) == chunks:
            raise KeyboardInterrupt
        return invitations_made(*given)

    return killed


@pytest.mark.parametrize("chunks", [0, 1, 2, 3])
def test_a_killed_draw_goes_on_within_the_quotas_of_the_blocks(
    address: str, monkeypatch: pytest.MonkeyPatch, chunks: int
) -> None:
    monkeypatch.setattr(collecting, "ASKED_AT_ONCE", 5)
    monkeypatch.setattr(collecting, "made", killed_after(chunks))
    with world(address, study(), people=60) as it:
        with pytest.raises(KeyboardInterrupt):
            ask(it)
        assert sum(held(it).values()) == 5 * chunks
        other = Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock)
        while take_step(other, STUDY):
            pass
        assert held(it) == halves(plan_of(it).people)
        other.database.close()


def test_a_coordinator_that_draws_while_another_invites_exceeds_no_quota_of_a_block(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other invites one to block 1, and one of block 2 leaves: as many are invited as before."""
    with world(address, study(), people=60) as it:
        ask(it)
        first = {block: key for key, block in blocks_of(it).items()}
        other = Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock)

        def meanwhile(*given: Any) -> Any:
            monkeypatch.undo()
            take_step(other, STUDY)
            participants.withdraw(other.context, STUDY, first[2])
            return invitations_made(*given)

        participants.withdraw(it.coordinator.context, STUDY, first[1])
        monkeypatch.setattr(collecting, "made", meanwhile)
        take_step(it.coordinator, STUDY)
        other.database.close()
        wanted = halves(plan_of(it).people)
        assert held(it) == wanted | {2: wanted[2] - 1}
        it.settle()
        assert held(it) == wanted


def test_strata_have_a_quota_in_each_block(address: str) -> None:
    shares = {"young": 0.25, "middle": 0.35, "old": 0.4}
    with world(address, study(Strata(shares))) as it:
        belongs = {new_key(): stratum for stratum in shares for _ in range(30)}
        for key, stratum in belongs.items():
            assert enrol(it.coordinator, STUDY, key, stratum=stratum)
        it.keys += belongs
        ask(it)
        snapshot = it.coordinator.snapshots.current(STUDY)
        plan, silent = snapshot.open_wave.plan, next(iter(blocks_of(it)))
        for key, invitation in list(it.invited()):
            if key != silent:
                it.answer(key, invitation)
        it.clock.now += DEADLINE + 1
        it.settle()
        found = Counter((belongs[key], block) for key, block in blocks_of(it).items())
        it.answer_all()
        it.settle()
        assert sum(found.values()) == 1
        assert Counter(it.blocks[1]) == halves(plan.people)
        answered = Counter((belongs[key], block) for key, block in zip(it.asked, it.blocks[1], strict=True))
        assert answered == snapshot.seats(snapshot.open_wave.plan.people)
        assert len(it.coordinator.snapshots.current(STUDY).closed) == 1


@pytest.mark.parametrize("people", [2, 19, 20, 101])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_seats_add_up_to_the_quotas_and_differ_by_one_at_most(people: int, blocks: int) -> None:
    for strata in (None, Strata({"a": 0.3, "b": 0.3, "c": 0.4})):
        snapshot = Snapshot.begin(study(strata))
        wave = snapshot.following
        assert isinstance(wave, Wave)
        plan = replace(wave.plan, people=people, blocks=blocks)
        snapshot = replace(snapshot, wave=replace(wave, plan=plan))
        by_block, by_stratum = Counter[int](), Counter[str | None]()
        for (stratum, block), count in snapshot.seats(snapshot.open_wave.plan.people).items():
            by_block[block] += count
            by_stratum[stratum] += count
            assert abs(count - snapshot.quotas[stratum] / blocks) < 1
        assert +by_stratum == {stratum: quota for stratum, quota in snapshot.quotas.items() if quota}
        assert by_block == {block + 1: (people + block) // blocks for block in range(blocks)}


def test_rounds_are_played_again_in_their_orders_for_the_people_that_a_block_lacks(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), study(), people=FEWEST) as it:
        ask(it)
        plan, first = plan_of(it), blocks_of(it)
        gone = next(key for key, block in first.items() if block == 2)
        for key, invitation in list(it.invited()):
            if key != gone:
                it.answer(key, invitation)
        participants.withdraw(it.coordinator.context, STUDY, gone)
        it.keys.remove(gone)
        it.settle()
        assert it.status.short == 1
        it.register(1)
        it.settle()
        assert it.coordinator.decision(STUDY).index == plan.sequence[0]
        ask(it)
        assert blocks_of(it) == {it.keys[-1]: 2}
        it.answer_all()
        it.settle()
        assert [wave.feedback.count for wave in it.coordinator.snapshots.current(STUDY).closed] == [plan.people]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_wave_of_very_few_people_has_no_block_without_anybody(tmp_path: Path, most: int) -> None:
    with world(str(tmp_path / "c.db"), study(most=most), people=5) as it:
        it.run()
        assert [wave.plan.blocks for wave in it.coordinator.snapshots.current(STUDY).closed] == [min(most, 2)]
        assert Counter(it.blocks[1]) == ({1: 1} if most == 1 else halves(most))


def test_the_release_is_that_of_the_blocks_averages(tmp_path: Path) -> None:
    """All blocks count the same, however many answered in each."""
    with world(str(tmp_path / "c.db"), study(), people=60) as it:
        ask(it)
        wave = it.coordinator.snapshots.current(STUDY).open_wave
        for key, invitation in list(it.invited()):
            it.answer(key, invitation, np.full((1, len(wave.plan.arms)), float(invitation["wave"]["block"])))
        it.settle()
        (closed,) = it.coordinator.snapshots.current(STUDY).closed
        rows = np.array(it.reports[1])
        tallies = [wave.release.tally(rows[np.equal(it.blocks[1], block)]) for block in (1, 2)]
        feedback, _ = release_wave(wave, tallies, Ledger(), Secure())
        np.testing.assert_array_equal(closed.feedback.mean, feedback.mean)
        np.testing.assert_array_equal(closed.feedback.by_block, np.outer([1, 2], np.ones(len(wave.plan.arms))))

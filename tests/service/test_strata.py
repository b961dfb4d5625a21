"""A study with strata: people say theirs, and a wave hears as many of each as its share, whoever answers readily."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from tests.helpers_cli import refusal
from tests.service.served import served
from tests.service.test_fleet import STUDY as FILE
from tests.service.world import (
    SECRET,
    STUDY,
    World,
    definition,
    enrol,
    own_shuffler,
    private,
    problem,
    take_step,
    world,
)
from voxpop.client import Device, Promise
from voxpop.errors import InputError
from voxpop.model.strata import Strata
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Privacy
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import people
from voxpop.service.study import collecting, participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition, read_definition
from voxpop.service.study.invitations import made as invitations_made
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit

SHARES = {"young": 0.25, "old": 0.75}
DEADLINE = 100.0


def study(privacy: Privacy | None = None, asked: int = 12) -> Definition:
    """A study whose waves ask this many people."""
    policy = make_policy("equal-split", people=asked, arms=3) if privacy is None else None
    return replace(definition(privacy, policy=policy, deadline=DEADLINE), strata=Strata(SHARES))


def register(it: World, **counts: int) -> dict[str, str]:
    """Register people of each stratum; return the stratum of each key."""
    new = {new_key(): stratum for stratum, count in counts.items() for _ in range(count)}
    for key, stratum in new.items():
        assert enrol(it.coordinator, STUDY, key, stratum=stratum)
    it.keys += new
    return new


def ask(it: World) -> dict[str, int]:
    """Play the rounds of the next wave, and invite; return the quotas."""
    for _ in range(3):
        it.settle()
        it.play_all()
    quotas = it.coordinator.snapshots.current(STUDY).quotas
    return {str(stratum): quota for stratum, quota in quotas.items()}


def answered(it: World, belongs: dict[str, str], wave: int) -> dict[str, int]:
    found = Counter(belongs[key] for key, waves in it.asked.items() if wave in waves)
    return {stratum: found[stratum] for stratum in SHARES}


@pytest.mark.parametrize("model", ["none", "central", "local", "shuffle", "aggregate"])
def test_a_wave_hears_of_each_stratum_as_many_as_its_share_whoever_answers_readily(tmp_path: Path, model: str) -> None:
    """Half of the people are young, who always answer; of the old, two of three do not. The shares are 1 : 3."""
    made = study(None if model == "none" else private(model))
    with ExitStack() as stack:
        both = model in ("shuffle", "aggregate")
        shuffler = stack.enter_context(own_shuffler(str(tmp_path / "s.db"))) if both else None
        it = stack.enter_context(world(str(tmp_path / "c.db"), made, shuffler=shuffler))
        belongs = register(it, young=120, old=120)
        quotas, invited = ask(it), 0
        assert sum(quotas.values()) == 12
        for _ in range(30):
            if it.status.wave != 1:
                break
            for key, invitation in list(it.invited()):
                if invitation["wave"]["wave"] in it.asked.get(key, []):
                    continue
                assert Counter(belongs[key] for key, _ in it.invited())["young"] <= quotas["young"]
                invited += 1
                if belongs[key] == "young" or invited % 3 == 0:
                    young = float(belongs[key] == "young")
                    assert it.answer(key, invitation, np.full((1, len(invitation["wave"]["arms"])), young)) is True
            if shuffler is not None:
                it.forward()
            it.settle()
            it.clock.now += DEADLINE + 1
            it.settle()
        assert answered(it, belongs, 1) == quotas
        assert invited > 12  # some were replaced
        if model == "none":  # the plain average is that of the population
            (wave,) = it.coordinator.snapshots.current(STUDY).closed
            np.testing.assert_allclose(wave.feedback.mean, quotas["young"] / 12)
            assert abs(wave.feedback.mean[0] - SHARES["young"]) < 2 / 12


def test_over_many_waves_a_stratum_has_its_share(tmp_path: Path) -> None:
    """Five people of two strata cannot be 1 : 3, but the waves together come as close as they can."""
    snapshots = []
    with world(str(tmp_path / "c.db"), study(asked=5)) as it:
        it.settle()
        begun = it.coordinator.snapshots.current(STUDY)
        assert begun.wave is not None
        for wave in range(1, 401):
            plan = replace(begun.wave.plan, wave=wave)
            snapshots.append(replace(begun, wave=replace(begun.wave, plan=plan)).quotas)
    young = [quotas["young"] for quotas in snapshots]
    assert {sum(quotas.values()) for quotas in snapshots} == {5}
    assert set(young) == {1, 2}
    assert abs(np.mean(young) - 5 * SHARES["young"]) < 4 * np.std(young) / 20
    again = {quotas["young"] for quotas in [begun.quotas, replace(begun).quotas]}
    assert len(again) == 1  # every process computes the same


def test_a_stratum_that_lacks_people_is_named(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), study()) as it:
        belongs = register(it, young=30)
        it.settle()
        quotas = ask(it)
        assert it.status.says[-1] == (
            "Waiting: wave 1 needs 12 people, and 30 who can be asked are registered; its rounds begin when "
            f"{quotas['old']} more ({quotas['old']} of old) are."
        )
        belongs |= register(it, old=quotas["old"])
        ask(it)
        assert Counter(belongs[key] for key, _ in it.invited()) == quotas
        silent = next(key for key, _ in it.invited() if belongs[key] == "old")
        for key, invitation in list(it.invited()):
            if key != silent:
                it.answer(key, invitation)
        for _ in range(3):  # young people are left, and nobody asks them in place of an old one
            it.clock.now += DEADLINE + 1
            it.settle()
            assert [key for key, _ in it.invited()] == [silent]
        participants.withdraw(it.coordinator.context, STUDY, silent)
        it.keys.remove(silent)
        belongs |= register(it, young=5)
        it.settle()
        assert any("1 more person (1 of old) must register;" in sentence for sentence in it.status.says)
        belongs |= register(it, old=1)
        ask(it)
        it.answer_all()
        it.settle()
        assert answered(it, belongs, 1) == quotas
        assert [wave.feedback.count for wave in it.coordinator.snapshots.current(STUDY).closed] == [12]


def test_a_coordinator_that_draws_while_another_invites_exceeds_no_quota(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other invites one of the old, and one of the young leaves: as many are invited as before."""
    with world(address, study()) as it:
        belongs = register(it, young=20, old=20)
        quotas = ask(it)
        first: dict[str, str] = {}
        for key, _ in it.invited():
            first.setdefault(belongs[key], key)
        other = Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock)
        real = invitations_made

        def meanwhile(*given: Any) -> Any:
            monkeypatch.undo()
            take_step(other, STUDY)
            participants.withdraw(other.context, STUDY, first["young"])
            return real(*given)

        participants.withdraw(it.coordinator.context, STUDY, first["old"])
        monkeypatch.setattr(collecting, "made", meanwhile)
        take_step(it.coordinator, STUDY)
        other.database.close()
        it.keys = [key for key in it.keys if key not in first.values()]
        held = Counter(belongs[key] for key, _ in it.invited())
        assert held == {"young": quotas["young"] - 1, "old": quotas["old"]}
        it.settle()
        it.answer_all()
        it.settle()
        assert answered(it, belongs, 1) == quotas


def test_a_killed_draw_goes_on_within_the_quotas(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "ASKED_AT_ONCE", 5)
    real, calls = invitations_made, iter(range(100))

    def killed(*given: Any) -> Any:
        if next(calls) == 1:  # after the first chunk
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(collecting, "made", killed)
    with world(address, study()) as it:
        belongs = register(it, young=20, old=20)
        with pytest.raises(KeyboardInterrupt):
            ask(it)
        assert len(list(it.invited())) == 5
        it.settle()
        assert Counter(belongs[key] for key, _ in it.invited()) == ask(it)


def test_a_person_says_one_of_the_strata_and_keeps_it(tmp_path: Path) -> None:
    key = new_key()
    with world(str(tmp_path / "c.db"), study()) as it:
        for wrong in (None, "middle-aged", ""):
            with pytest.raises(Refusal, match="has the strata young, old; register with one of them") as refused:
                enrol(it.coordinator, STUDY, key, stratum=wrong)
            assert refused.value.status == 422
        assert it.status.registered == 0
        assert enrol(it.coordinator, STUDY, key, stratum="young")
        assert not enrol(it.coordinator, STUDY, key, stratum="young")
        with pytest.raises(Refusal, match="registered with another stratum; nothing was changed") as refused:
            enrol(it.coordinator, STUDY, key, stratum="old")
        assert refused.value.status == 409
        with it.coordinator.database.read() as connection:
            assert connection.execute(sa.select(people.c.stratum)).scalars().all() == ["young"]
    with (
        world(str(tmp_path / "d.db"), definition()) as it,
        pytest.raises(Refusal, match="has no strata; register without one"),
    ):
        enrol(it.coordinator, STUDY, key, stratum="young")


def test_a_device_says_its_stratum(tmp_path: Path) -> None:
    coordinator = Coordinator(open_store(str(tmp_path / "c.db"), "coordinator"), SECRET)
    made = Definition(
        problem(), make_policy("equal-split", people=4, arms=2), NoPrivacy(), strata=Strata({"jünger": 0.5, "ä": 0.5})
    )
    coordinator.create(STUDY, made)
    with served(CoordinatorApp(coordinator).guarded(RateLimit(0, 1), 2**20), "on") as url, httpx.Client() as http:
        for stratum in ("jünger", "ä"):
            Device(url, STUDY, Promise(), stratum=stratum, http=http).register()
        for given, said in ((None, "has the strata jünger, ä"), ("a", "register with one of them")):
            with pytest.raises(InputError, match=said) as call:
                Device(url, STUDY, Promise(), stratum=given, http=http).register()
            refusal(call)
    with coordinator.database.read() as connection:
        assert connection.execute(sa.select(people.c.stratum)).scalars().all() == ["jünger", "ä"]
    coordinator.database.close()


def test_the_strata_of_a_study_file_reach_the_service(tmp_path: Path) -> None:
    path = tmp_path / "tea.toml"
    path.write_text(FILE + "\n[strata]\nyoung = 0.25\nold = 0.75\n")
    _, made = read_definition(path)
    assert made.encode()["strata"] == SHARES
    again = Definition.decode(made.encode())
    assert again.strata == made.strata == Strata(SHARES)
    assert "strata" not in definition().encode()

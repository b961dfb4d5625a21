"""Waves that close although people do not answer: spare invitations, the deadline of a wave, and closing by hand."""

import heapq
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.test_http import KEY, Site, as_
from tests.service.world import STUDY, World, definition, own_shuffler, private, world
from voxpop.errors import InputError
from voxpop.io.schema import decode_release
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Privacy
from voxpop.service.refusals import Refusal
from voxpop.service.stores.schema import inbox, invitations
from voxpop.service.study.invitations import Invitations
from voxpop.service.study.life import Wanted, change
from voxpop.service.study.response import Response
from voxpop.service.study.steps import close_early

DEADLINE = 1000.0
PEOPLE = 40
MODELS: dict[str, Privacy] = {
    "none": NoPrivacy(),
    **{model: private(model, PEOPLE) for model in ("central", "local", "shuffle", "aggregate")},
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def play(it: World, rng: np.random.Generator, answers: float, quick: float, step: float = DEADLINE / 40) -> float:
    """Play one wave; return after how many deadlines it closed.

    Of those who are asked this share answers, at a uniform time within the first part `quick` of the deadline.
    """
    it.settle()
    it.play_all()
    it.settle()
    began, wave, due = it.clock.now, it.status.wave, list[tuple[float, int, str, Any]]()
    known = set[str]()
    while it.status.wave == wave and it.status.stage == "collecting":
        for key, invitation in list(it.invited()):
            if invitation["token"] not in known:
                known.add(invitation["token"])
                if rng.random() < answers:
                    heapq.heappush(due, (it.clock.now + quick * DEADLINE * rng.random(), len(known), key, invitation))
        it.clock.now += step
        while due and due[0][0] <= it.clock.now and it.status.wave == wave:
            _, _, key, invitation = heapq.heappop(due)
            it.answer(key, invitation)
            if it.shuffler is not None:
                it.forward()
        it.settle()
    return (it.clock.now - began) / DEADLINE


@pytest.mark.parametrize("quick", [1.0, 0.2])
def test_with_no_shows_a_wave_closes_soon_after_the_first_deadline(tmp_path: Path, model: str, quick: float) -> None:
    """Also the first wave, when nothing is known; later ones invite spare people from the beginning."""
    rng = np.random.default_rng(7)
    made = definition(MODELS[model], horizon=120, deadline=DEADLINE, most_invited=3)
    with own_shuffler(str(tmp_path / "s.db")) as shuffler:
        second = shuffler if MODELS[model].release_type.second else None
        with world(str(tmp_path / "c.db"), made, people=200, shuffler=second) as it:
            assert play(it, rng, 0.7, quick) <= 1.4  # of a dozen people or so: chance decides
            it.settle()
            if it.status.stage != "finished":
                assert play(it, rng, 0.7, quick) <= 1.1
            for closed in it.coordinator.snapshots.current(STUDY).closed:
                assert closed.feedback.count >= closed.plan.people  # noise is never used with fewer
                assert closed.feedback.count == len(it.reports[closed.plan.wave])  # who was told to count, counts


def collecting(it: World, answers: int) -> None:
    """Play the rounds of the wave, and let so many people answer."""
    it.settle()
    it.play_all()
    it.settle()
    for key, invitation in list(it.invited())[:answers]:
        assert it.answer(key, invitation) is True


@pytest.fixture
def it(tmp_path: Path) -> Iterator[World]:
    made = definition(private("central", 20), horizon=120, policy=make_policy("waves", most_people=60))
    with world(str(tmp_path / "c.db"), made, people=100) as found:
        yield found


def test_what_is_seen_of_a_wave_that_collects_agrees(it: World) -> None:
    collecting(it, 5)
    status = it.status
    assert status.closing is not None
    said = f"5 answers are in of wave 1; nothing is read before the wave closes. It lacks {status.people - 5}"
    assert (status.answered, status.closing.answers, status.closing.able) == (5, 5, True)
    assert [sentence for sentence in status.says if sentence.startswith(said)]
    assert f"wave 1 counts 5 answers of {status.people}" in status.closing.sentence
    assert "times as large as planned, and as the answers may have chosen the moment" in status.closing.sentence


def test_a_wave_is_closed_with_those_who_answered_and_later_certificates_pay(it: World) -> None:
    collecting(it, 7)
    (key, late), *_ = [(key, one) for key, one in it.invited() if 1 not in it.asked.get(key, [])]
    before = it.coordinator.snapshots.current(STUDY).state
    assert close_early(it.coordinator.context, STUDY, 1, "ada") is True
    assert close_early(it.coordinator.context, STUDY, 1, "ada") is False
    (closed,) = it.coordinator.snapshots.current(STUDY).closed
    assert closed.feedback.count == 7
    left = it.coordinator.snapshots.current(STUDY).state
    whole = before.closed_early(closed.plan.people).error_factor
    assert left.error_factor is not None
    assert whole is not None
    assert left.error_factor >= whole  # the levels that were spent are gone
    verdict = it.answer(key, late)
    assert isinstance(verdict, Refusal)
    assert verdict.status == 410
    with it.coordinator.database.read() as connection:
        assert connection.execute(sa.select(inbox)).all() == []
        assert Invitations(connection, STUDY, 1).funnel.answered == 7


def test_where_the_noise_was_made_for_all_a_wave_is_not_closed_with_fewer(tmp_path: Path) -> None:
    for model in ("shuffle", "aggregate"):
        made = definition(private(model))
        with (
            own_shuffler(str(tmp_path / f"{model}-s.db")) as shuffler,
            world(str(tmp_path / f"{model}.db"), made, 60, shuffler) as it,
        ):
            collecting(it, 11)
            it.settle()
            with pytest.raises(Refusal, match=r"its noise was made for 12 people, .*; wait for the others") as call:
                close_early(it.coordinator.context, STUDY, 1)
            assert call.value.status == 409
            assert it.status.closing is not None
            assert not it.status.closing.able
            assert it.coordinator.snapshots.current(STUDY).closed == ()


@pytest.mark.parametrize("answers", [0, 1])
def test_a_wave_without_answers_is_not_closed(it: World, answers: int) -> None:
    collecting(it, answers)
    with pytest.raises(Refusal, match="it takes at least 2 answers; wait for more"):
        close_early(it.coordinator.context, STUDY, 1)
    assert it.status.stage == "collecting"


def test_a_wave_that_is_not_open_is_not_closed(it: World) -> None:
    it.settle()
    for wave in (1, 2):  # its rounds are played; there is none
        with pytest.raises(Refusal, match=r"only one that collects can be closed|is not the open one"):
            close_early(it.coordinator.context, STUDY, wave)
    collecting(it, 4)
    change(it.coordinator.context, STUDY, Wanted.PAUSED)
    assert it.status.closing is not None
    assert "the study is paused; resume it first" in it.status.closing.sentence
    with pytest.raises(Refusal, match="is paused"):
        close_early(it.coordinator.context, STUDY, 1)


def test_a_wave_closed_in_the_moment_of_the_last_upload_counts_whom_it_told_so(it: World) -> None:
    collecting(it, 6)
    waiting = [(key, one) for key, one in it.invited() if 1 not in it.asked.get(key, [])][:4]
    start, verdicts = Barrier(len(waiting) + 1), list[Any]()

    def answer(key: str, invitation: Any) -> None:
        start.wait()
        verdicts.append(it.answer(key, invitation))

    threads = [Thread(target=answer, args=one) for one in waiting]
    for thread in threads:
        thread.start()
    start.wait()
    close_early(it.coordinator.context, STUDY, 1)
    for thread in threads:
        thread.join()
    (closed,) = it.coordinator.snapshots.current(STUDY).closed
    assert closed.feedback.count == 6 + verdicts.count(True)
    assert all(verdict is True or verdict.status == 410 for verdict in verdicts)


def test_a_wave_closes_at_its_own_deadline(tmp_path: Path) -> None:
    made = definition(private("local", 20), horizon=120, deadline=100.0, wave_deadline=150.0)
    with world(str(tmp_path / "c.db"), made, people=200) as it:
        collecting(it, 9)
        it.clock.now += 149
        it.settle()
        assert it.status.wave == 1
        it.clock.now += 2
        it.settle()
        assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 9


def test_a_wave_has_no_deadline_where_it_could_not_close() -> None:
    with pytest.raises(InputError, match=r"service.wave_deadline .* made for all of them; leave it out"):
        definition(private("shuffle"), wave_deadline=100.0)


@pytest.mark.parametrize("answered", [0, 40, 300])
def test_nobody_spare_is_invited_where_none_may_be(answered: int) -> None:
    given: dict[str, Any] = {
        "people": 100,
        "answered": answered,
        "held": 90,
        "older": 90,
        "left": 0.5,
        "before": (10.0, 100.0),
    }
    assert Response(**given, most=1).missing == 10
    assert Response(**given, most=3).missing <= 300


def test_spare_people_come_from_the_same_draw(tmp_path: Path) -> None:
    """They are not asked before others lapse if everybody has answered so far, and are of both blocks alike."""
    with world(str(tmp_path / "c.db"), definition(deadline=100.0, most_invited=3), people=300) as it:
        it.settle()
        it.play_all()
        it.settle()
        people = it.status.people
        assert it.status.funnel.asked == people
        it.clock.now += 101
        it.settle()
        asked = it.status.funnel.asked
        assert 2 * people < asked <= 4 * people
        with it.coordinator.database.read() as connection:
            found = connection.execute(sa.select(invitations.c.person, sa.func.count()).group_by("person")).all()
        assert {count for _, count in found} == {1}


def test_while_a_batch_of_shares_is_sealed_nobody_joins_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The helper seals the tokens that it is told first: whoever answered later would make the batch void."""
    made = definition(private("aggregate"), deadline=100.0, most_invited=3)
    with (
        own_shuffler(str(tmp_path / "s.db")) as shuffler,
        world(str(tmp_path / "c.db"), made, 200, shuffler) as it,
    ):
        collecting(it, 8)
        it.clock.now += 101  # the others lapse, and spare people are invited
        it.settle()
        waiting = [(key, one) for key, one in it.invited() if 1 not in it.asked.get(key, [])]
        lacking = it.status.people - 8
        assert len(waiting) > lacking
        for key, invitation in waiting[:lacking]:
            assert it.answer(key, invitation) is True
        late = waiting[lacking]
        sealed = shuffler.seal
        verdicts = list[Any]()

        def seal(name: str, tokens: Any) -> Any:
            found = sealed(name, tokens)
            verdicts.append(it.coordinate(late[1], it.shares(late[1], it.report_of(late[1]))[1]))
            return found

        monkeypatch.setattr(shuffler, "seal", seal)
        it.settle()
        assert [verdict.status for verdict in verdicts] == [410]
        (closed,) = it.coordinator.snapshots.current(STUDY).closed
        assert closed.feedback.count == len(it.reports[1]) == closed.plan.people


def test_operators_close_a_wave_over_http_and_the_page_says_what_the_api_says(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.collect()
    place = f"/v2/studies/{STUDY}"
    (first, second, *_) = site.invited()
    for one in (first, second):
        release = decode_release(one["wave"]["release"])
        assert site.put(one["token"], {"report": [0.1] * release.arms}).status_code == 201
    status = site.client.get(place, headers=as_(KEY)).json()
    assert (status["closing"]["answers"], status["closing"]["able"]) == (2, True)
    assert any(said.startswith("2 answers are in of wave 1; nothing is read") for said in status["says"])
    assert site.client.put(f"{place}/close", json={"wave": 1}).status_code == 401
    assert site.client.put(f"{place}/close", json={"wave": 0}, headers=as_(KEY)).status_code == 422
    assert site.client.put(f"{place}/close", json={"wave": 2}, headers=as_(KEY)).status_code == 409
    for changed in (True, False):
        done = site.client.put(f"{place}/close", json={"wave": 1}, headers=as_(KEY))
        assert (done.status_code, done.json()) == (200, {"study": STUDY, "wave": 1, "changed": changed})
    (closed,) = site.coordinator.snapshots.current(STUDY).closed
    assert closed.feedback.count == 2
    trail = site.client.get(f"/v2/audit?study={STUDY}", headers=as_(KEY)).json()["entries"]
    assert (trail[0]["action"], trail[0]["detail"]) == ("closed early", "wave 1, with 2 answers")
    site.close()


def test_answers_that_were_withdrawn_lately_are_no_pace() -> None:
    assert Response(10, answered=4, held=10, older=6, left=0.5, lately=(-3, 0.1)).pace == (0.0, 5.0)

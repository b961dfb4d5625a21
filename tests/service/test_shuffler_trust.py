"""What the shuffler and the coordinator check instead of trusting each other."""

import json
import math
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from tests.helpers_cli import main_of
from tests.service.served import served
from tests.service.test_helper_lies import signed
from tests.service.world import SECRET, STUDY, World, definition, encoded, own_shuffler, private, take_total, world
from voxpop.privacy.release import Batch
from voxpop.service import serve
from voxpop.service.keys import Keyring, digest_of, hash_key, new_key, sign, token_of
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import invitations, people, receipts, tokens, totals
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.shuffler_app import ShufflerApp

BATCH, KEY = "b" * 43, b"k" * 32


@pytest.fixture
def pair(address: str, tmp_path: Path):  # type: ignore[no-untyped-def]
    with (
        own_shuffler(str(tmp_path / "shuffler.db")) as shuffler,
        world(address, definition(private("shuffle"), deadline=100.0), 30, shuffler) as it,
    ):
        it.settle()
        it.play_all()
        it.settle()
        yield it, shuffler


def status_of(verdict: object) -> int:
    assert isinstance(verdict, Refusal)
    return verdict.status


@pytest.mark.parametrize(
    "lie",
    [{"size": 13}, {"size": 10**7}, {"size": 1}, {"coordinates": 2}, {"levels": 10**6}, {"trials": 1}, {"chance": 0.3}],
)
def test_noise_made_for_another_batch_is_refused(pair: tuple[World, Shuffler], lie: dict[str, float]) -> None:
    it, shuffler = pair
    _, invitation = next(it.invited())
    batch, report = invitation["upload"].rsplit("/", 1)[1], np.array([3.0])
    assert status_of(shuffler.store([encoded(batch, invitation, report, **lie)])[0]) == 422
    with shuffler.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM reports").scalar_one() == 0
        assert connection.exec_driver_sql("SELECT count(digest) FROM tokens").scalar_one() == 0
    assert shuffler.store([encoded(batch, invitation, report)]) == [True]


def test_a_batch_of_too_few_people_is_refused(tmp_path: Path) -> None:
    with own_shuffler(str(tmp_path / "s.db")) as shuffler:
        for least, size in ((2, 1), (50, 49)):
            shuffler.least_batch = least
            with pytest.raises(Refusal, match=f"at least {least} people") as call:
                shuffler.announce(BATCH, Batch(size, 1, 2, 3, 0.5), [], [])
            assert call.value.status == 422
        shuffler.announce(BATCH, Batch(50, 1, 2, 3, 0.5), [], [])


def test_an_upload_says_for_whom_its_noise_was_made(tmp_path: Path) -> None:
    database, token = open_store(str(tmp_path / "s.db"), "shuffler"), new_key()
    service = ShufflerApp(Shuffler(database, lambda kind, **values: None), "http://127.0.0.1:1", KEY)
    service.shuffler.announce(BATCH, Batch(2, 1, 2, 3, 0.1), [hash_key(token)], [])
    good: dict[str, Any] = {"report": [3], "size": 2, "coordinates": 1, "levels": 2, "trials": 3, "chance": 0.1}
    headers = {"authorization": f"Bearer {token}"}
    path = f"/v2/batches/{BATCH}"
    with served(service.guarded(RateLimit(0, 1), 4096)) as url, httpx.Client(base_url=url) as client:

        def put(document: dict[str, Any]) -> int:
            content = json.dumps(document)
            kind = {"content-type": "application/json"}
            answer = client.put(path + "/report", content=content, headers={**headers, **kind})
            assert set(answer.json()) == {"status" if answer.status_code < 300 else "error"}
            return answer.status_code

        for name in good:
            assert put({key: value for key, value in good.items() if key != name}) == 422
        lies: list[dict[str, Any]] = [
            {"size": 3},
            {"size": 2.0},
            {"size": "2"},
            {"coordinates": 2},
            {"levels": 3},
            {"levels": 3, "trials": 2},
            {"levels": True},
            {"trials": 2},
            {"trials": 0},
            {"chance": math.nextafter(0.1, 1.0)},
            {"chance": 0.0},
            {"chance": 1},
            {"chance": float("nan")},
            {"chance": "0.1"},
            {"bits": 5},
            {"more": 1},
            {"report": []},
            {"report": [True]},
            {"report": ["3"]},
            {"report": [float("nan")]},
            {"report": [float("inf")]},
            {"report": [10**400]},
            {"report": [3, 3]},
            {"report": 3},
        ]
        for lie in lies:
            is_json = not {"NaN", "Infinity"} & set(re.findall(r"\w+", json.dumps(lie)))
            assert put({**good, **lie}) == (422 if is_json else 400), lie
        assert [put(good), put(good), put({**good, "report": [4]})] == [201, 200, 409]
        encoding = {key: value for key, value in good.items() if key != "report"}
        one = json.dumps({**encoding, "size": 1, "tokens": [], "overdue": []}).encode()
        other = f"/v2/batches/{'c' * 43}"
        signature = {"content-type": "application/json", "x-voxpop-signature": sign(KEY, "PUT", other, one)}
        assert client.put(other, content=one, headers=signature).status_code == 422
    database.close()


@pytest.mark.parametrize(
    ("flags", "environment", "least"),
    [([], {}, 2), (["--least-batch", "40"], {}, 40), ([], {"VOXPOP_LEAST_BATCH": "50"}, 50)],
)
def test_the_least_batch_is_a_setting(
    flags: list[str],
    environment: dict[str, str],
    least: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[ShufflerApp] = []
    monkeypatch.setattr(serve, "run", lambda service, settings: started.append(service))
    for name, value in {"VOXPOP_SHUFFLER_KEY": new_key(), **environment}.items():
        monkeypatch.setenv(name, value)
    place = ["--database", str(tmp_path / "s.db"), "--coordinator-url", "http://127.0.0.1:1"]
    main_of(monkeypatch)("shuffler", *place, *flags)
    assert [service.shuffler.least_batch for service in started] == [least]
    started[0].shuffler.database.close()


def whole(it: World, shuffler: Shuffler) -> tuple[str, dict[str, Any]]:
    """Let everyone answer; return the batch and its total."""
    for key, invitation in list(it.invited()):
        assert it.answer(key, invitation) is True
    ((batch, total),) = shuffler.sealed()
    return batch, total


def charged(it: World) -> int:
    with it.coordinator.database.read() as connection:
        return int(connection.execute(sa.select(sa.func.sum(people.c.participations))).scalar_one())


def test_a_total_is_about_people_who_were_invited(pair: tuple[World, Shuffler]) -> None:
    it, shuffler = pair
    with it.coordinator.database.write() as connection:  # one whose invitation is over, and one of another wave
        rows = connection.execute(sa.select(invitations)).mappings().all()
        over, elsewhere = b"o" * 32, b"e" * 32
        for token, changes in ((over, {"expired": True}), (elsewhere, {"wave": 7})):
            row = {name: value for name, value in rows[0].items() if name != "id"}
            connection.execute(sa.insert(invitations).values(**{**row, "token_hash": token, **changes}))
    batch, total = whole(it, shuffler)
    names = total["tokens"]
    strangers = [hash_key(new_key()).hex() for _ in names]
    for wrong in (
        strangers,
        [strangers[0], *names[1:]],
        [over.hex(), *names[1:]],
        [elsewhere.hex(), *names[1:]],
        [*names, names[0]],
        [names[1], *names[1:]],
        names[1:],
    ):
        with pytest.raises(Refusal) as call:
            take_total(it.coordinator, batch, {**total, "tokens": wrong})
        assert call.value.status == 422
    with pytest.raises(Refusal, match="forward the whole batch"):
        take_total(it.coordinator, batch, {**total, "count": len(names) - 1, "tokens": names[1:]})
    it.settle()
    assert (it.status.wave, charged(it)) == (1, 0)
    it.forward()
    it.settle()
    assert (it.status.wave, charged(it)) == (2, 12)


def closed(it: World) -> int:
    return sum(event.kind == "closed" for event in it.coordinator.log(STUDY))


def test_a_total_that_was_lost_is_forwarded_again(pair: tuple[World, Shuffler]) -> None:
    it, shuffler = pair
    batch, total = whole(it, shuffler)
    answers = [410, 410, 201]

    def network(request: httpx.Request) -> httpx.Response:
        status = answers.pop(0)
        if len(answers) == 2:  # a proxy answers, which has no key, and the coordinator hears nothing
            return httpx.Response(status)
        if status == 201:  # the time before, it was one that a backup had made forgetful
            take_total(it.coordinator, request.url.path.split("/")[3], json.loads(request.content))
        return signed(request, status, keys=Keyring.of(KEY))

    service = ShufflerApp(shuffler, "http://coordinator", KEY)
    service._client = httpx.Client(transport=httpx.MockTransport(network))
    service._forward()
    assert shuffler.sealed() == [(batch, total)]
    service._forward()
    service._forward()
    assert (answers, shuffler.sealed()) == ([201], [])  # nothing more to do
    it.settle()
    assert shuffler.sealed() == [(batch, total)]
    service._forward()
    it.settle()
    assert (it.status.wave, closed(it), charged(it)) == (2, 1, 12)


def test_a_coordinator_that_lost_the_total_gets_it_again(pair: tuple[World, Shuffler]) -> None:
    it, shuffler = pair
    batch, total = whole(it, shuffler)
    it.forward()
    with it.coordinator.database.write() as connection:  # as in a backup of a moment before
        connection.execute(sa.delete(totals))
        connection.execute(sa.delete(receipts))
    it.clock.now += 1000
    it.settle()
    assert shuffler.sealed() == [(batch, total)]
    it.forward()
    it.settle()
    assert (it.status.wave, closed(it), charged(it)) == (2, 1, 12)


def test_a_total_that_comes_twice_is_released_once(pair: tuple[World, Shuffler]) -> None:
    it, shuffler = pair
    batch, total = whole(it, shuffler)
    current = it.coordinator.snapshots.current(STUDY).wave
    assert current is not None
    constants = current.release.batch
    assert constants is not None
    it.forward()
    # An announcement that was on its way when the total was taken.
    assert shuffler.announce(batch, constants, [], []).count == 12
    it.forward()
    assert take_total(it.coordinator, batch, total) is False
    it.settle()
    shuffler.announce(batch, constants, [], [])
    with pytest.raises(Refusal, match="no wave waits"):
        it.forward()
    it.settle()
    assert (it.status.wave, closed(it), charged(it)) == (2, 1, 12)


def kept(it: World, wave: int) -> tuple[set[bytes], set[bytes | None]]:
    """Return the nonces and the hashes of reports that the coordinator has of a wave."""
    joined = invitations.outerjoin(receipts, receipts.c.invitation == invitations.c.id)
    wanted = sa.select(invitations.c.nonce, receipts.c.digest).select_from(joined).where(invitations.c.wave == wave)
    with it.coordinator.database.read() as connection:
        rows = connection.execute(wanted).all()
    return {bytes(row.nonce) for row in rows}, {row.digest for row in rows}


@pytest.mark.parametrize("model", ["none", "central", "local", "shuffle", "aggregate"])
def test_reports_of_closed_waves_cannot_be_guessed_from_database_and_secret(
    model: str, address: str, tmp_path: Path
) -> None:
    made = definition(None if model == "none" else private(model), deadline=100.0)
    with own_shuffler(str(tmp_path / "shuffler.db")) as shuffler, world(address, made, 40, shuffler) as it:
        it.settle()
        it.play_all()
        it.settle()
        nonces, _ = kept(it, 1)
        assert len(nonces) == it.status.people
        sleeper = next(iter(it.invited()))  # lets the invitation pass, and is replaced
        for key, invitation in list(it.invited())[1:]:
            again = it.invitation(key)  # a check-in whose reply was lost
            assert again is not None
            assert {**again, "next_check_in": 0} == {**invitation, "next_check_in": 0}  # only that is drawn at random
            assert it.answer(key, invitation) is True
            report = np.array(it.reports[1][-1])
            assert it.upload(invitation, report) is False  # an upload whose reply was lost
            assert it.invitation(sleeper[0]) is not None
        it.clock.now += 101
        it.settle()
        (last,) = it.invited()
        it.answer(*last)
        it.settle()
        if model == "shuffle":
            assert it.upload(last[1], np.array(it.reports[1][-1])) is False  # whole, but not forwarded
            it.forward()
            it.settle()
        assert it.status.wave == 2
        left, marks = kept(it, 1)
        assert left == {b""}
        guesses = [np.array(report).tobytes() for report in it.reports[1]]
        guesses += [half.tobytes() for both in it.halves.values() for half in both]
        tokens_made = [token_of(SECRET, nonce) for nonce in left]
        assert marks.isdisjoint(digest_of(token, body) for token in tokens_made for body in guesses)
        late = it.upload(last[1], np.array(it.reports[1][-1]))
        assert late is False  # a device whose reply was lost learns even now that it was counted
        with shuffler.database.read() as connection:
            found = connection.execute(sa.select(tokens.c.digest)).scalars().all()
        assert set(found) <= {None, b""}
        it.play_all()
        it.settle()
        fresh, _ = kept(it, 2)
        assert len(fresh) == it.status.people
        assert b"" not in fresh
        it.coordinator.database.close()
        shuffler.database.close()
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("*.db*"))
        assert not [nonce for nonce in nonces if nonce in stored]


def test_a_batch_that_is_refused_is_noted_and_nobody_is_asked(tmp_path: Path) -> None:
    notes: list[tuple[str, Any]] = []
    with own_shuffler(str(tmp_path / "s.db")) as shuffler:
        shuffler.least_batch = 13
        service = ShufflerApp(shuffler, "http://127.0.0.1:1", KEY)
        with (
            served(service.guarded(RateLimit(0, 1), 10**6)) as url,
            httpx.Client() as client,
            world(str(tmp_path / "c.db"), definition(private("shuffle")), 30, shuffler) as it,
        ):
            it.coordinator.context.shuffler = HttpShuffler(url, Keyring.of(KEY), "https://shuffler.example", client)
            it.coordinator.context.note = lambda kind, **values: notes.append((kind, values.get("status")))
            it.settle()
            it.play_all()
            it.settle()
            assert notes[-1] == ("not_announced", 422)
            assert list(it.invited()) == []
            shuffler.least_batch = 12
            it.settle()
            assert len(list(it.invited())) == 12

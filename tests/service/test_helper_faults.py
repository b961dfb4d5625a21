"""Helpers that lie or forget, coordinators that are killed or restored: both count the same people, or nobody."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.test_helper import require_counted, rows
from tests.service.world import SECRET, STUDY, DirectShuffler, World, definition, own_shuffler, private, world
from voxpop.formats.releases import release_from_dict
from voxpop.privacy import Simulated
from voxpop.service.keyring import Keyring
from voxpop.service.keys import hash_key
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.study import asking, withdrawal
from voxpop.service.study.context import BatchProgress, Sealed
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.events import Kind
from voxpop.stores.database import Database
from voxpop.stores.schema import batches, inbox, invitations, people, receipts, reports, tokens, totals


def begun(stack: ExitStack, folder: Path, address: str | None = None, registered: int = 40, **rules: Any) -> World:
    """Begin a study of the aggregate model, with a helper of its own; phase 1 collects."""
    helper = stack.enter_context(own_shuffler(str(folder / "helper.db")))
    made = definition(private("aggregate"), **{"deadline": 100.0, **rules})
    it = stack.enter_context(world(address or str(folder / "c.db"), made, registered, helper))
    it.settle()
    it.play_all()
    it.settle()
    return it


@contextmanager
def answered(folder: Path, address: str | None = None, **rules: Any) -> Iterator[World]:
    """Yield a study of which everybody has answered, and nothing is sealed."""
    with ExitStack() as stack:
        it = begun(stack, folder, address, **rules)
        for key, invitation in list(it.invited()):
            assert it.answer(key, invitation) is True
        yield it


def replace_all(it: World) -> None:
    """Forget what the world noted of reports that count nothing, and let those who are asked instead answer."""
    it.reports[1].clear()
    it.asked.clear()
    it.settle()
    it.answer_all()
    it.settle()


def participations(it: World) -> list[int]:
    with it.coordinator.database.read() as connection:
        return sorted(connection.execute(sa.select(people.c.participations)).scalars(), reverse=True)


# -- a helper that lies

NONSENSE: list[Any] = [
    b"",
    b"<html>",
    [],
    None,
    {"total": [1]},
    {"missing": []},
    {"total": None, "missing": []},
    {"total": "1", "missing": []},
    {"total": [1.0], "missing": []},
    {"total": [True], "missing": []},
    {"total": ["1"], "missing": []},
    {"total": [None], "missing": []},
    {"total": [-1], "missing": []},
    {"total": [10**40], "missing": []},
    {"total": [65536], "missing": []},
    {"total": [], "missing": []},
    {"total": [1, 2], "missing": []},
    {"total": [1], "missing": None},
    {"total": [1], "missing": ["x"]},
    {"total": [], "missing": [7]},
    {"total": [], "missing": ["ff" * 32]},
    {"total": [1], "missing": ["ff" * 32, "00"]},
]


def test_nonsense_of_a_helper_changes_nothing_and_the_truth_is_taken_afterwards(tmp_path: Path) -> None:
    notes: list[tuple[str, Any]] = []
    with answered(tmp_path) as it:
        context = it.coordinator.context
        context.note = lambda kind, **values: notes.append((kind, values.get("status")))
        truth, replies = context.shuffler, list(NONSENSE)

        def lie(_: httpx.Request) -> httpx.Response:
            said = replies.pop(0)
            return httpx.Response(200, content=said if isinstance(said, bytes) else json.dumps(said).encode())

        liar = httpx.Client(transport=httpx.MockTransport(lie))
        context.shuffler = HttpShuffler("http://helper", Keyring.of(b"k" * 32), "http://helper", liar)
        while replies:
            assert it.coordinator.step(STUDY) is False
            assert notes[-1] == ("not_sealed", 502)
        assert rows(it.coordinator.database, totals, inbox, receipts) == [0, 12, 12]
        context.shuffler = truth
        it.settle()
        require_counted(it)


def test_a_helper_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    with answered(tmp_path) as it:
        context, truth = it.coordinator.context, it.coordinator.context.shuffler
        statuses = [400, 401, 403, 404, 413, 422, 429, 500, 502, 503]
        silent = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(statuses.pop(0))))
        context.shuffler = HttpShuffler("http://helper", Keyring.of(b"k" * 32), "http://helper", silent)
        while statuses:
            said = statuses[0]
            try:
                assert it.coordinator.step(STUDY) is False
            except httpx.HTTPStatusError:
                assert said not in (404, 422)
        assert rows(it.coordinator.database, totals, inbox, receipts) == [0, 12, 12]
        context.shuffler = truth
        it.settle()
        require_counted(it)


def lying(it: World, by: int) -> None:
    """Let the helper add this to its total, once."""
    assert it.shuffler is not None
    seal = it.shuffler.seal

    def lie(name: str, chosen: list[bytes]) -> dict[str, Any]:
        it.shuffler.seal = seal  # type: ignore[method-assign, union-attr]
        told = seal(name, chosen)
        return {**told, "total": [(number + by) % 65536 for number in told["total"]]}

    it.shuffler.seal = lie  # type: ignore[assignment, method-assign]


def require_void(it: World, spent: int) -> None:
    """See that a batch is void: nothing was released or is left, and its people are spent."""
    assert it.status["phase"] == 1
    assert [event.kind for event in it.coordinator.log(STUDY)] == [Kind.CREATED, Kind.OPENED]
    assert it.shuffler is not None
    assert rows(it.coordinator.database, inbox, totals, receipts) + rows(it.shuffler.database, reports) == [0] * 4
    assert participations(it) == [spent] * 12 + [0] * (len(it.keys) - 12)


@pytest.mark.parametrize("often", [1, 3])
def test_a_total_out_of_range_is_not_released_and_its_people_are_not_asked_again(
    address: str, tmp_path: Path, often: int
) -> None:
    with answered(tmp_path, address, participations=often, budget=50.0) as it:
        lying(it, 30_000)  # 12 people report 12 * 3368 at most, and have noise of 12 * 1634 on average
        before, first = set(it.asked), next(iter(it.halves))[0]
        it.coordinator.step(STUDY)  # the total comes
        it.coordinator.step(STUDY)  # and is void
        require_void(it, often)
        current = it.coordinator.snapshots.current(STUDY)
        with it.coordinator.database.read() as connection:
            assert asking.askable(connection, STUDY, current) == len(it.keys) - 12
        replace_all(it)
        assert before.isdisjoint(it.asked)
        require_counted(it)
        assert participations(it)[12:24] == [1] * 12
        with it.shuffler.database.read() as connection:  # type: ignore[union-attr]
            names = connection.execute(sa.select(batches.c.id, batches.c.state)).all()
            old = connection.execute(sa.select(tokens.c.batch).where(tokens.c.token_hash == hash_key(first)))
            assert [row.state for row in names] == ["forwarded", "forwarded"]
            assert old.scalar_one() in {row.id for row in names}


def test_shares_that_do_not_belong_together_make_a_batch_void(tmp_path: Path) -> None:
    with ExitStack() as stack:
        it = begun(stack, tmp_path)
        (_, bad), *others = it.invited()
        for key, invitation in others:
            assert it.answer(key, invitation) is True
        half, mine = it.shares(bad, np.array([[1000.0]]))
        assert it.help(bad, half) is True
        assert it.coordinate(bad, (mine + 30_000) % 65536) is True
        it.coordinator.step(STUDY)
        it.coordinator.step(STUDY)
        require_void(it, 1)
        replace_all(it)
        require_counted(it)


def test_a_void_batch_keeps_nothing_of_one_who_withdrew_but_that_they_took_part(tmp_path: Path) -> None:
    with answered(tmp_path) as it:
        lying(it, 30_000)
        it.coordinator.step(STUDY)
        gone = next(iter(it.asked))
        withdrawal.withdraw(it.coordinator.context, STUDY, gone)
        it.coordinator.step(STUDY)
        require_void(it, 1)
        with it.coordinator.database.read() as connection:
            (row,) = connection.execute(sa.select(people).where(people.c.withdrawn)).all()
            assert (row.key_hash, row.participations) == (hash_key(gone), 1)
            held = sa.select(sa.func.count()).select_from(invitations).where(invitations.c.person == row.id)
            assert connection.execute(held).scalar_one() == 0
        it.keys.remove(gone)
        replace_all(it)
        require_counted(it)


def test_a_void_batch_waits_for_people_who_have_not_answered(tmp_path: Path) -> None:
    with ExitStack() as stack:
        it = begun(stack, tmp_path, registered=20)
        it.answer_all()
        lying(it, 30_000)
        it.coordinator.step(STUDY)
        it.coordinator.step(STUDY)
        require_void(it, 1)
        replace_all(it)
        assert (it.status["answered"], it.status["short"]) == (8, 4)
        it.register(4)
        it.settle()
        it.play_all()  # for those who are new
        it.settle()
        it.answer_all()
        it.settle()
        require_counted(it)


class Claiming(DirectShuffler):
    """A helper that says of announcements what it likes."""

    said = BatchProgress(0, (), ())

    def announce(self, *told: Any) -> BatchProgress:
        super().announce(*told)
        return self.said


def test_what_a_helper_says_of_people_who_did_not_withdraw_is_not_heeded(tmp_path: Path) -> None:
    with ExitStack() as stack:
        it = begun(stack, tmp_path)
        assert it.shuffler is not None
        everybody = list(it.invited())
        for key, invitation in everybody[:-2]:
            assert it.answer(key, invitation) is True
        claiming = Claiming(it.shuffler)
        others = tuple(hash_key(invitation["token"]) for _, invitation in everybody[-2:])
        claiming.said = BatchProgress(99, others[:1], others[1:])
        it.coordinator.context.shuffler = claiming
        gone = everybody[0][0]
        withdrawal.withdraw(it.coordinator.context, STUDY, gone)
        it.reports[1].pop(0)
        it.keys.remove(gone)
        it.settle()
        assert it.status["answered"] == 9
        assert {key for key, _ in it.invited()} >= {key for key, _ in everybody[-2:]}
        it.coordinator.context.shuffler = DirectShuffler(it.shuffler)
        it.settle()
        it.answer_all()
        it.settle()
        require_counted(it)


# -- a helper that forgets


def lose(it: World, keys: list[str]) -> None:
    """Let the helper be as in a backup made before these tokens sent their shares."""
    assert it.shuffler is not None
    lost = [hash_key(key) for key in keys]
    with it.shuffler.database.write() as connection:
        connection.execute(sa.delete(reports).where(reports.c.token_hash.in_(lost)))
        connection.execute(sa.update(tokens).where(tokens.c.token_hash.in_(lost)).values(digest=None))


def lose_everything(it: World) -> None:
    assert it.shuffler is not None
    with it.shuffler.database.write() as connection:
        for table in (reports, tokens, batches):
            connection.execute(sa.delete(table))


def test_people_whose_shares_the_helper_lost_are_replaced(address: str, tmp_path: Path) -> None:
    with answered(tmp_path, address) as it:
        lose(it, [token for token, _ in it.halves][:3])
        del it.reports[1][:3]
        gone = [ours.tobytes() for _, ours in list(it.halves.values())[:3] if ours.min() > 1]
        it.coordinator.step(STUDY)
        assert not [half for half in gone if half in b"".join(one.read_bytes() for one in tmp_path.glob("coord*"))]
        it.settle()
        assert it.status["answered"] == 9
        fresh = dict(it.invited())
        assert len(fresh) == 3
        assert set(fresh).isdisjoint(it.asked)
        it.answer_all()
        it.settle()
        require_counted(it)
        assert participations(it)[:13] == [1] * 12 + [0]  # nothing is spent that was not counted


@pytest.mark.parametrize("when", ["answered", "half"])
def test_a_helper_that_lost_everything_begins_again(when: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        it = begun(stack, tmp_path)
        everybody = list(it.invited())
        for key, invitation in everybody[: 12 if when == "answered" else 6]:
            assert it.answer(key, invitation) is True
        lose_everything(it)
        if when == "half":
            late = it.upload(everybody[-1][1], np.array([[3.0]]))
            assert isinstance(late, Refusal)  # the helper does not know the token; nothing goes to the coordinator
            it.clock.now += 101
            it.settle()
            it.answer_all()
            del it.reports[1][:6]
        else:
            it.reports[1].clear()
        it.settle()
        it.answer_all()
        it.settle()
        require_counted(it)


def test_two_helpers_that_claim_one_batch_count_nobody_twice(tmp_path: Path) -> None:
    """As behind one address: half of the devices reach one, the others the other, and each knows the batch."""
    with ExitStack() as stack:
        it = begun(stack, tmp_path)
        first, second = it.shuffler, stack.enter_context(own_shuffler(str(tmp_path / "second.db")))
        assert first is not None
        everybody = list(it.invited())
        release = release_from_dict(everybody[0][1]["phase"]["release"])
        assert release.batch is not None
        name = everybody[0][1]["helper"].rsplit("/", 1)[1]
        second.announce(name, release.batch, [hash_key(one["token"]) for _, one in everybody], [])
        for number, (key, invitation) in enumerate(everybody):
            it.shuffler = (first, second)[number % 2]
            assert it.answer(key, invitation) is True
        it.shuffler = first
        it.reports[1] = it.reports[1][::2]
        it.settle()
        assert it.status["answered"] == 6
        it.answer_all()
        it.settle()
        require_counted(it)


# -- a coordinator that is killed, or restored


class Killed(BaseException):
    """The process ends here."""


class Death:
    """Kills the coordinator at a moment: before or after a commit, before or after the helper seals."""

    def __init__(self, moment: int, database: Database) -> None:
        self.left, self.database = moment, database

    def look(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise Killed

    @contextmanager
    def write(self, write: Callable[[], Any], database: Database) -> Iterator[sa.Connection]:
        if database is not self.database:
            with write() as connection:
                yield connection
            return
        with write() as connection:
            yield connection
            self.look()
        self.look()


class Mortal(DirectShuffler):
    """The link of a coordinator that dies before or after the helper has sealed."""

    death: Death

    def seal(self, name: str, chosen: list[bytes]) -> Sealed:
        self.death.look()
        sealed = super().seal(name, chosen)
        self.death.look()
        return sealed


def another(it: World, database: Database) -> None:
    """Start the coordinator again."""
    assert it.shuffler is not None
    it.coordinator = Coordinator(database, SECRET, DirectShuffler(it.shuffler), clock=it.clock)


def test_a_coordinator_killed_between_any_two_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one carries on, although somebody withdraws who is in the total if the helper has sealed."""
    died, write = 0, Database.write
    for moment in range(40):
        (tmp_path / str(moment)).mkdir()
        with answered(tmp_path / str(moment)) as it, monkeypatch.context() as patch:
            assert it.shuffler is not None
            database, mortal = it.coordinator.database, Mortal(it.shuffler)
            mortal.death = death = Death(moment, database)
            it.coordinator.context.shuffler = mortal
            patch.setattr(Database, "write", lambda own, death=death: death.write(lambda: write(own), own))
            try:
                it.settle()
            except Killed:
                died += 1
            patch.undo()
            another(it, database)
            phase, sealed = it.status["phase"], not rows(it.shuffler.database, reports)[0]
            if phase == 1:
                gone = next(iter(it.asked))
                withdrawal.withdraw(it.coordinator.context, STUDY, gone)
                it.keys.remove(gone)
                it.reports[1] = it.reports[1][0 if sealed else 1 :]
            it.settle()
            it.answer_all()
            it.settle()
            require_counted(it)
            if death.left >= 0:
                break
    assert died == moment >= 8


@pytest.mark.parametrize("sleepers", [0, 2])
def test_a_coordinator_restored_from_before_the_seal_begins_the_batch_again(sleepers: int, tmp_path: Path) -> None:
    """The helper has sealed, and the coordinator knows neither the total nor some of the shares."""
    with answered(tmp_path) as it:
        it.coordinator.step(STUDY)
        assert rows(it.coordinator.database, totals) == [1]
        with it.coordinator.database.write() as connection:
            connection.execute(sa.delete(totals))
            for table in (inbox, receipts):
                wanted = sa.select(table.c.invitation).order_by(table.c.invitation).limit(sleepers)
                connection.execute(sa.delete(table).where(table.c.invitation.in_(wanted)))
            connection.exec_driver_sql(f"UPDATE tallies SET answered = answered - {sleepers} WHERE answered > 0")
        another(it, it.coordinator.database)
        if sleepers:
            it.clock.now += 101  # their devices have been told that they were counted, and are silent
            it.settle()
            assert rows(it.coordinator.database, inbox, totals, receipts) == [0, 0, 0]
            assert participations(it)[:11] == [1] * 10 + [0]
            replace_all(it)
        it.settle()
        require_counted(it)


def test_a_withdrawal_does_not_stop_a_restored_coordinator(tmp_path: Path) -> None:
    with answered(tmp_path) as it:
        it.coordinator.step(STUDY)
        with it.coordinator.database.write() as connection:  # as in a backup made before anybody had answered
            for table in (totals, inbox, receipts):
                connection.execute(sa.delete(table))
            connection.exec_driver_sql("UPDATE tallies SET answered = 0")
        another(it, it.coordinator.database)
        gone = next(iter(it.asked))
        withdrawal.withdraw(it.coordinator.context, STUDY, gone)
        it.keys.remove(gone)
        it.settle()
        replace_all(it)
        require_counted(it)


# -- everything together


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_both_count_the_same_people(seed: int, tmp_path: Path) -> None:
    """Replies are lost, devices die between their uploads, shares are lost, people withdraw, and time passes."""
    rng, made = random.Random(seed), {}
    notes: list[str] = []
    with ExitStack() as stack:
        it = begun(stack, tmp_path, registered=140, participations=2, budget=50.0)
        assert it.shuffler is not None
        for noisy in (it.coordinator.context, it.shuffler):
            noisy.note = lambda kind, **values: notes.append(f"{kind} {values}")
        for _ in range(400):
            if it.status["phase"] > 1:
                break
            for key, invitation in list(it.invited()):
                fate, token = rng.random(), invitation["token"]
                if token not in made:
                    release = release_from_dict(invitation["phase"]["release"])
                    made[token] = release.randomize(np.array([[rng.random()]]), Simulated(it.rng))
                theirs, ours = it.shares(invitation, made[token])
                if fate < 0.05:
                    withdrawal.withdraw(it.coordinator.context, STUDY, key)
                    it.keys.remove(key)
                if fate < 0.7 and not isinstance(it.help(invitation, theirs), Refusal) and fate > 0.2:
                    it.coordinate(invitation, ours)  # otherwise the first reply was lost; later, both are sent again
            if it.halves and rng.random() < 0.2:
                lose(it, [rng.choice(list(it.halves))[0]])
            if rng.random() < 0.02:
                lose_everything(it)
            if rng.random() < 0.2:
                another(it, it.coordinator.database)
            it.clock.now += rng.choice([0, 30, -20, 3e8])
            it.settle()
        joined = invitations.join(receipts, receipts.c.invitation == invitations.c.id)
        with it.coordinator.database.read() as connection:
            wanted = sa.select(invitations.c.token_hash).select_from(joined).where(invitations.c.phase == 1)
            counted = set(connection.execute(wanted).scalars())
        it.reports[1] = [report[0].tolist() for token, report in made.items() if hash_key(token) in counted]
        require_counted(it)
    said = " ".join(notes)
    assert "sealed" in said
    secrets = [*made, *(hash_key(token).hex() for token in made), *it.keys]
    assert not [secret for secret in secrets if secret in said]
    numbers = {str(int(number)) for both in it.halves.values() for half in both for number in half.ravel()}
    assert not numbers & {word for word in said.replace("}", " ").split() if len(word) > 3}


# -- a helper of an earlier version


def test_a_shuffler_that_knows_no_shares_is_told_of_none(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []

    def earlier(request: httpx.Request) -> httpx.Response:
        said = json.loads(request.content)
        told.append(said)
        if set(said) - {"size", "coordinates", "levels", "trials", "chance", "tokens", "overdue", "forget"}:
            return httpx.Response(422)
        return httpx.Response(200, json={"count": 0, "withdrawn": [], "answered": []})

    for model, asked in (("shuffle", 12), ("aggregate", 0)):
        client = httpx.Client(transport=httpx.MockTransport(earlier))
        link = HttpShuffler("http://shuffler", Keyring.of(b"k" * 32), "https://shuffler.example", client)
        with own_shuffler(str(tmp_path / f"{model}-s.db")) as unused:
            made = definition(private(model))
            with world(str(tmp_path / f"{model}.db"), made, 30, unused) as it:
                it.coordinator.context.shuffler = link
                it.settle()
                it.play_all()
                it.settle()
                assert len(list(it.invited())) == asked
    assert [said.get("shared") for said in told if said["tokens"]] == [None, True]

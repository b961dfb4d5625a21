"""Helpers that forget, coordinators that are killed or restored: both count the same people, or nobody."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.test_helper import require_counted, rows
from tests.service.world import (
    SECRET,
    STUDY,
    DirectShuffler,
    World,
    definition,
    own_shuffler,
    private,
    take_step,
    world,
)
from voxpop.io.schema import decode_release
from voxpop.privacy import Simulated
from voxpop.service.keys import hash_key
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.batches import CheckedShares, SealedBatch
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import batches, inbox, invitations, people, receipts, reports, tokens, totals
from voxpop.service.study import participants
from voxpop.service.study.coordinator import Coordinator


def begun(stack: ExitStack, folder: Path, address: str | None = None, registered: int = 40, **rules: Any) -> World:
    """Begin a study of the aggregate model, with a helper of its own; wave 1 collects."""
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
        gone = [ours.tobytes() for _, ours in list(it.halves.values())[:3]]
        take_step(it.coordinator, STUDY)
        assert not [half for half in gone if half in b"".join(one.read_bytes() for one in tmp_path.glob("coord*"))]
        it.settle()
        assert it.status.answered == 9
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
        release = decode_release(everybody[0][1]["wave"]["release"])
        assert release.batch is not None
        name = everybody[0][1]["helper"].rsplit("/", 1)[1]
        second.announce(name, release.batch, [hash_key(one["token"]) for _, one in everybody], [])
        for number, (key, invitation) in enumerate(everybody):
            it.shuffler = (first, second)[number % 2]
            assert it.answer(key, invitation) is True
        it.shuffler = first
        it.reports[1] = it.reports[1][::2]
        it.settle()
        assert it.status.answered == 6
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
    """The link of a coordinator that dies before or after the helper has checked proofs, or sealed."""

    death: Death

    def verify(self, name: str, key: bytes, verifiers: Mapping[bytes, bytes]) -> CheckedShares:
        self.death.look()
        checked = super().verify(name, key, verifiers)
        self.death.look()
        return checked

    def seal(self, name: str, chosen: list[bytes]) -> SealedBatch:
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
            wave, sealed = it.status.wave, not rows(it.shuffler.database, reports)[0]
            if wave == 1:
                gone = next(iter(it.asked))
                participants.withdraw(it.coordinator.context, STUDY, gone)
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
        take_step(it.coordinator, STUDY)
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
        take_step(it.coordinator, STUDY)
        with it.coordinator.database.write() as connection:  # as in a backup made before anybody had answered
            for table in (totals, inbox, receipts):
                connection.execute(sa.delete(table))
            connection.exec_driver_sql("UPDATE tallies SET answered = 0")
        another(it, it.coordinator.database)
        gone = next(iter(it.asked))
        participants.withdraw(it.coordinator.context, STUDY, gone)
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
            if it.status.wave > 1:
                break
            for key, invitation in list(it.invited()):
                fate, token = rng.random(), invitation["token"]
                if token not in made:
                    release = decode_release(invitation["wave"]["release"])
                    made[token] = release.randomize(np.array([[rng.random()]]), Simulated(it.rng))
                theirs, ours = it.shares(invitation, made[token])
                if fate < 0.05:
                    participants.withdraw(it.coordinator.context, STUDY, key)
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
            wanted = sa.select(invitations.c.token_hash).select_from(joined).where(invitations.c.wave == 1)
            counted = set(connection.execute(wanted).scalars())
        it.reports[1] = [report[0].tolist() for token, report in made.items() if hash_key(token) in counted]
        require_counted(it)
    said = " ".join(notes)
    assert "sealed" in said
    secrets = [*made, *(hash_key(token).hex() for token in made), *it.keys]
    assert not [secret for secret in secrets if secret in said]
    numbers = {str(number) for both in it.halves.values() for half in both for number in half.view(np.uint64).tolist()}
    assert not numbers & {word for word in said.replace("}", " ").split() if len(word) > 3}

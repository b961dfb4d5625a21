"""Devices that lie in the aggregate model: a report out of range is refused alone, whoever is killed meanwhile."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.test_helper import require_counted, rows
from tests.service.test_helper_faults import (
    Death,
    Killed,
    Mortal,
    another,
    answered,
    begun,
    lose,
    participations,
    replace_all,
)
from tests.service.test_helper_lies import KEYS, lying, signed, true_check
from tests.service.world import STUDY, DirectShuffler, World, take_step
from voxpop.errors import Array
from voxpop.privacy import Simulated
from voxpop.privacy.field import Field64
from voxpop.privacy.prio3 import Prio3, SumVec
from voxpop.privacy.release import Batch
from voxpop.service.keys import hash_key
from voxpop.service.shuffler.batches import CheckedShares
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import inbox, invitations, people, receipts, reports, studies, tokens, totals
from voxpop.service.study import collecting

Shares = tuple[Array, Array]  # the helper's and the coordinator's, as words


class Free(SumVec):
    """A circuit that takes any number for the first bit of a report."""

    first = 0

    def encode(self, measurement: Any) -> Any:
        bits = super().encode(measurement)
        bits[0] = self.field.array(self.first % self.field.modulus)
        return bits


def crooked(batch: Batch, first: int) -> Shares:
    """Share a report whose first bit is this number, with the best proof that there is of it."""
    honest = batch.prio3
    circuit: Any = honest.circuit
    free = Free(circuit.numbers, circuit.most, circuit.chunk, circuit.field)
    object.__setattr__(free, "first", first)
    liar = Prio3(free, honest.algorithm, honest.proofs)
    random = Simulated(np.random.default_rng(first % 1000)).bytes(liar.random_bytes)
    ours, theirs = liar.shard([0] * batch.coordinates, random)
    return np.frombuffer(theirs, dtype="<f8"), np.frombuffer(ours, dtype="<f8")


def changed(half: Array, word: int) -> Array:
    """Change a bit of a share."""
    found = half.copy()
    found.view(np.uint64)[word] ^= np.uint64(1)
    return found


LIES: dict[str, Callable[[World, Any, Batch], Shares]] = {
    "two": lambda it, one, batch: crooked(batch, 2),
    "all that a total can hold": lambda it, one, batch: crooked(batch, batch.size * batch.bits),
    "less than nothing": lambda it, one, batch: crooked(batch, -1000),
    "another share of the helper": lambda it, one, batch: (
        it.shares(one, np.array([[7.0]]))[0],
        it.shares(one, np.array([[8.0]]))[1],
    ),
    "another bit at the coordinator": lambda it, one, batch: (
        it.shares(one, np.array([[7.0]]))[0],
        changed(it.shares(one, np.array([[7.0]]))[1], 12),
    ),
    "another proof": lambda it, one, batch: (
        it.shares(one, np.array([[7.0]]))[0],
        changed(it.shares(one, np.array([[7.0]]))[1], -6),
    ),
    "another randomness": lambda it, one, batch: (
        changed(it.shares(one, np.array([[7.0]]))[0], 3),
        it.shares(one, np.array([[7.0]]))[1],
    ),
    "another nonce": lambda it, one, batch: (
        changed(it.shares(one, np.array([[7.0]]))[0], 0),
        it.shares(one, np.array([[7.0]]))[1],
    ),
}


def batch_of(it: World) -> Batch:
    batch = it.coordinator.snapshots.current(STUDY).open_wave.release.batch
    assert batch is not None
    return batch


def lied(it: World, lie: str = "two") -> str:
    """Let one of those who are invited lie, and all others answer; return the key of the liar."""
    (liar, bad), *others = it.invited()
    for key, invitation in others:
        assert it.answer(key, invitation) is True
    theirs, ours = LIES[lie](it, bad, batch_of(it))
    assert it.help(bad, theirs) is True
    assert it.coordinate(bad, ours) is True
    return liar


def taken_part(it: World, key: str) -> int:
    with it.coordinator.database.read() as connection:
        wanted = sa.select(people.c.participations).where(people.c.key_hash == hash_key(key))
        return int(connection.execute(wanted).scalar_one())


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_is_refused_alone(tmp_path: Path, lie: str) -> None:
    notes: list[tuple[str, Any]] = []
    with ExitStack() as stack:
        it = begun(stack, tmp_path)
        it.coordinator.context.note = lambda kind, **values: notes.append((kind, values.get("people")))
        liar = lied(it, lie)
        it.settle()
        assert ("refused", 1) in notes
        assert (it.status.wave, it.status.answered) == (1, 11)
        assert participations(it) == [1] + [0] * 39  # nobody else is spent
        assert rows(it.coordinator.database, inbox, receipts, totals) == [11, 11, 0]
        ((other, _),) = it.invited()
        assert other != liar
        it.answer_all()
        it.settle()
        require_counted(it)
        assert participations(it) == [1] * 13 + [0] * 27


@pytest.mark.parametrize("often", [1, 3])
def test_a_liar_is_not_asked_again(address: str, tmp_path: Path, often: int) -> None:
    with ExitStack() as stack:
        it = begun(stack, tmp_path, address, registered=12, participations=often, budget=50.0)
        liar = lied(it)
        it.settle()
        assert taken_part(it, liar) == often
        assert (it.status.answered, it.status.short, list(it.invited())) == (11, 1, [])
        current = it.coordinator.snapshots.current(STUDY)
        with it.coordinator.database.read() as connection:
            assert collecting.askable(connection, current) == 11
        it.register(1)
        it.settle()
        it.play_all()  # for the one who is new
        it.settle()
        it.answer_all()
        it.settle()
        require_counted(it)


def test_many_liars_are_replaced_until_all_are_honest(tmp_path: Path) -> None:
    with ExitStack() as stack:
        it = begun(stack, tmp_path)
        batch = batch_of(it)
        for _ in range(3):
            for number, (key, invitation) in enumerate(list(it.invited())):
                if number % 2:
                    assert it.answer(key, invitation) is True
                else:
                    theirs, ours = crooked(batch, 5)
                    assert it.help(invitation, theirs) is True
                    assert it.coordinate(invitation, ours) is True
            it.settle()
        it.answer_all()
        it.settle()
        require_counted(it)


def test_a_device_moves_a_total_by_its_own_range_and_nothing_more(tmp_path: Path) -> None:
    """The largest report that is taken is g + b; of all that are larger, the total stays as it was."""
    with ExitStack() as stack:
        it = begun(stack, tmp_path)
        batch = batch_of(it)
        (_, extreme), *others = it.invited()
        for key, invitation in others:
            assert it.answer(key, invitation) is True
        most = float(batch.bits)
        theirs, ours = it.shares(extreme, np.array([[most]]))
        assert it.help(extreme, theirs) is True
        assert it.coordinate(extreme, ours) is True
        honest = np.sum(it.reports[1], axis=0)
        it.settle()
        it.reports[1].append([most])
        require_counted(it)
        closed = it.coordinator.snapshots.current(STUDY).closed[0]
        made: Any = closed.release
        bound = made.unit * batch.bits / batch.size  # of the average, in whitened coordinates
        without = made.unit * (honest / 12 - made.encoding.trials * made.encoding.chance) - made.ball.radius
        moved = made.ball.whiten(closed.feedback.mean[None, :])[0] - without
        assert np.abs(moved).max() <= bound * (1 + 1e-9)


# -- killed, and asked again


@pytest.mark.parametrize("wave", [1, 2])
def test_a_coordinator_killed_between_any_two_statements_while_proofs_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wave: int
) -> None:
    died, write = 0, Database.write
    for moment in range(60):
        (tmp_path / str(moment)).mkdir()
        with ExitStack() as stack, monkeypatch.context() as patch:
            it = begun(stack, tmp_path / str(moment), registered=90)
            if wave == 2:
                it.answer_all()
                it.settle()
                it.play_all()
                it.settle()
                assert it.status.wave == 2
            assert it.shuffler is not None
            liar = lied(it)
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
            it.settle()
            assert taken_part(it, liar) == 1
            it.answer_all()
            it.settle()
            closed = it.coordinator.snapshots.current(STUDY).closed
            assert len(closed) == wave
            release = closed[-1].release
            wanted = release.analyze(release.tally(np.array(it.reports[wave])), Simulated(np.random.default_rng(0)))
            np.testing.assert_array_equal(closed[-1].feedback.mean, wanted.mean)
            assert closed[-1].feedback.count == len(it.reports[wave])
            if death.left >= 0:
                break
    assert died == moment >= 8


def test_a_helper_whose_reply_was_lost_says_the_same_again(tmp_path: Path) -> None:
    with ExitStack() as stack:
        it = begun(stack, tmp_path)
        assert it.shuffler is not None
        liar = lied(it)
        asked: list[tuple[bytes, Mapping[bytes, bytes]]] = []
        told: list[CheckedShares] = []

        class Lossy(DirectShuffler):
            def verify(self, name: str, key: bytes, verifiers: Mapping[bytes, bytes]) -> CheckedShares:
                asked.append((key, verifiers))
                told.append(super().verify(name, key, verifiers))
                if len(told) < 3:
                    raise httpx.ReadError("lost")
                return told[-1]

        it.coordinator.context.shuffler = Lossy(it.shuffler)
        for _ in range(2):
            with pytest.raises(httpx.ReadError):
                take_step(it.coordinator, STUDY)
            another(it, it.coordinator.database)
            it.coordinator.context.shuffler = Lossy(it.shuffler)
        take_step(it.coordinator, STUDY)
        assert asked[0] == asked[1] == asked[2]  # under another key, verifier shares would tell more than that
        assert told[0] == told[1] == told[2]
        assert len(told[0].messages) == 11
        assert told[0].missing == []
        it.settle()
        assert taken_part(it, liar) == 1
        it.answer_all()
        it.settle()
        require_counted(it)


def test_each_batch_has_a_key_of_its_own(tmp_path: Path) -> None:
    def key(it: World) -> Any:
        with it.coordinator.database.read() as connection:
            return connection.execute(sa.select(studies.c.verify_key)).scalar_one()

    with answered(tmp_path) as it:
        keys = [key(it)]
        lying(it, 30_000)
        take_step(it.coordinator, STUDY)  # the total comes
        take_step(it.coordinator, STUDY)  # and is void
        keys.append(key(it))
        replace_all(it)
        assert it.status.wave == 2
        keys.append(key(it))
        assert [len(one) for one in keys] == [32] * 3
        assert len(set(keys)) == 3


def test_a_wrong_proof_can_be_tried_once(tmp_path: Path) -> None:
    """Whoever could try verifier shares against the helper's, again and again, would learn these."""
    with answered(tmp_path) as it:
        assert it.shuffler is not None
        token, _ = next(iter(it.halves))
        _, ours = it.halves[next(iter(it.halves))]
        name = next(iter(_batches(it)))
        key, hashed = bytes(32), hash_key(token)
        right = batch_of(it).prio3.verify(key, 0, [ours.tobytes()]).verifiers[0]
        assert it.shuffler.verify(name, key, {hashed: right}).messages
        for wrong in (bytes(len(right)), right[:-1], b"", right[:-1] + bytes([right[-1] ^ 1])):
            assert it.shuffler.verify(name, key, {hashed: wrong}) == CheckedShares({}, [])
            assert it.shuffler.verify(name, key, {hashed: right}) == CheckedShares({}, [])
        assert rows(it.shuffler.database, reports) == [11]
        with it.shuffler.database.read() as connection:
            gone = sa.select(tokens.c.digest, tokens.c.withdrawn).where(tokens.c.token_hash == hashed)
            assert tuple(connection.execute(gone).one()) == (None, True)
        unknown = b"u" * 32
        assert it.shuffler.verify(name, key, {unknown: right}).missing == [unknown.hex()]


def _batches(it: World) -> list[str]:
    with it.coordinator.database.read() as connection:
        return list(connection.execute(sa.select(studies.c.batch)).scalars())


# -- helpers that lie, and shares of an earlier version

NONSENSE: list[Any] = [
    b"",
    b"<html>",
    [],
    None,
    {},
    {"messages": {}},
    {"missing": []},
    {"messages": [], "missing": []},
    {"messages": {"x": "00" * 32}, "missing": []},
    {"messages": {"ff" * 32: "00" * 32}, "missing": []},
    {"messages": {}, "missing": ["ff" * 32]},
    {"messages": {}, "missing": [7]},
    {"messages": {}, "missing": None},
    {"messages": {"ff" * 32: 7}, "missing": []},
    {"messages": {}, "missing": [], "more": 1},
]


def test_nonsense_about_proofs_changes_nothing_and_the_truth_is_taken_afterwards(tmp_path: Path) -> None:
    notes: list[tuple[str, Any]] = []
    with answered(tmp_path) as it:
        context = it.coordinator.context
        context.note = lambda kind, **values: notes.append((kind, values.get("status")))
        truth, replies = context.shuffler, list(NONSENSE)

        def lie(request: httpx.Request) -> httpx.Response:
            said = replies.pop(0)
            return signed(request, 200, said if isinstance(said, bytes) else json.dumps(said).encode())

        liar = httpx.Client(transport=httpx.MockTransport(lie))
        context.shuffler = HttpShuffler("http://helper", KEYS, "http://helper", liar)
        while replies:
            assert take_step(it.coordinator, STUDY) is False
            assert notes[-1] == ("not_verified", 502)
        assert rows(it.coordinator.database, totals, inbox, receipts) == [0, 12, 12]
        context.shuffler = truth
        it.settle()
        require_counted(it)


def test_a_message_that_is_not_the_device_s_is_refused(tmp_path: Path) -> None:
    """The coordinator checks, too: a helper cannot let a report pass whose randomness was chosen."""
    with answered(tmp_path) as it:

        def lie(request: httpx.Request) -> httpx.Response:
            told = json.loads(true_check(it, request).read())
            first = next(iter(told["messages"]))
            told["messages"][first] = "00" * 32
            return signed(request, 200, json.dumps(told).encode())

        client = httpx.Client(transport=httpx.MockTransport(lie))
        it.coordinator.context.shuffler = HttpShuffler("http://h", KEYS, "http://h", client)
        take_step(it.coordinator, STUDY)
        assert it.status.answered == 11


def test_shares_without_a_proof_count_as_missing(tmp_path: Path) -> None:
    """As those of an earlier version, which are in the databases when the service is upgraded."""
    with answered(tmp_path) as it:
        assert it.shuffler is not None
        first, second, third, *_ = [hash_key(token) for token, _ in it.halves]
        with it.coordinator.database.write() as connection:
            chosen = sa.select(invitations.c.id).where(invitations.c.token_hash.in_([first, second]))
            connection.execute(sa.update(inbox).where(inbox.c.invitation.in_(chosen)).values(body=bytes(8)))
        with it.shuffler.database.write() as connection:
            connection.execute(sa.update(reports).where(reports.c.token_hash == third).values(body=bytes(8)))
        take_step(it.coordinator, STUDY)
        assert it.status.answered == 9
        assert participations(it) == [0] * 40


def test_a_wave_of_an_earlier_version_begins_again(tmp_path: Path) -> None:
    with answered(tmp_path) as it:
        with it.coordinator.database.write() as connection:
            connection.execute(sa.update(inbox).values(body=bytes(8)))
        take_step(it.coordinator, STUDY)
        assert (it.status.answered, participations(it)) == (0, [0] * 40)
        replace_all(it)
        require_counted(it)


def test_what_the_helper_lost_is_missing_and_not_wrong(tmp_path: Path) -> None:
    with answered(tmp_path) as it:
        lose(it, [token for token, _ in it.halves][:2])
        take_step(it.coordinator, STUDY)
        assert (it.status.answered, participations(it)) == (10, [0] * 40)


def test_the_link_says_what_the_helper_says(tmp_path: Path) -> None:
    with answered(tmp_path) as it:
        seen: list[Any] = []

        def note(request: httpx.Request) -> httpx.Response:
            seen.append(json.loads(request.content))
            return true_check(it, request)

        client = httpx.Client(transport=httpx.MockTransport(note))
        link = HttpShuffler("http://helper", KEYS, "http://helper", client)
        (name,) = _batches(it)
        verifier = b"v" * 100
        assert link.verify(name, bytes(32), {b"t" * 32: verifier}).missing == ["74" * 32]
        assert seen == [{"key": "00" * 32, "verifiers": {"74" * 32: b64encode(verifier).decode()}}]
        assert b64decode(seen[0]["verifiers"]["74" * 32]) == verifier


def test_the_field_is_large_enough_for_every_total() -> None:
    from voxpop.privacy.encoded import MOST_BITS, MOST_LEVELS

    assert Field64.modulus > MOST_BITS * (1 + MOST_LEVELS)

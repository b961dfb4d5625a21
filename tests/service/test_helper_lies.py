"""Helpers and devices that lie, and helpers of an earlier version: nothing that cannot be true is released."""

import json
from base64 import b64decode
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import sqlalchemy as sa

from tests.service.test_helper import require_counted, rows
from tests.service.test_helper_faults import answered, begun, participations, replace_all
from tests.service.world import STUDY, DirectShuffler, World, definition, own_shuffler, private, take_step, world
from voxpop.privacy.field import Field64
from voxpop.service.keys import Keyring, hash_key
from voxpop.service.shuffler.batches import BatchProgress, SealedBatch
from voxpop.service.shuffler.signed_http import HttpShuffler, reply_kind
from voxpop.service.stores.schema import batches, inbox, invitations, people, receipts, reports, tokens, totals
from voxpop.service.study import collecting, participants
from voxpop.service.study.stages import Kind

KEYS = Keyring.of(b"k" * 32)


def signed(request: httpx.Request, status: int, content: bytes = b"", keys: Keyring = KEYS) -> httpx.Response:
    """Reply as a second server that holds the key."""
    kind = reply_kind(status, request.headers["x-voxpop-signature"])
    signature = keys.sign(kind, request.url.path, content)
    return httpx.Response(status, stream=httpx.ByteStream(content), headers={"x-voxpop-signature": signature})


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
    {"total": [2**64 - 2**32 + 1], "missing": []},
    {"total": [], "missing": []},
    {"total": [1, 2], "missing": []},
    {"total": [1], "missing": None},
    {"total": [1], "missing": ["x"]},
    {"total": [], "missing": [7]},
    {"total": [], "missing": ["ff" * 32]},
    {"total": [1], "missing": ["ff" * 32, "00"]},
]


def true_check(it: World, request: httpx.Request) -> httpx.Response:
    """Answer a request to check proofs as an honest helper does."""
    assert it.shuffler is not None
    said = json.loads(request.content)
    shares = {bytes.fromhex(token): b64decode(share) for token, share in said["verifiers"].items()}
    told = it.shuffler.verify(request.url.path.split("/")[3], bytes.fromhex(said["key"]), shares)
    return signed(request, 200, msgspec.json.encode(told))


def test_nonsense_of_a_helper_changes_nothing_and_the_truth_is_taken_afterwards(tmp_path: Path) -> None:
    notes: list[tuple[str, Any]] = []
    with answered(tmp_path) as it:
        context = it.coordinator.context
        context.note = lambda kind, **values: notes.append((kind, values.get("status")))
        truth, replies = context.shuffler, list(NONSENSE)

        def lie(request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/verify"):
                return true_check(it, request)
            said = replies.pop(0)
            return signed(request, 200, said if isinstance(said, bytes) else json.dumps(said).encode())

        liar = httpx.Client(transport=httpx.MockTransport(lie))
        context.shuffler = HttpShuffler("http://helper", KEYS, "http://helper", liar)
        while replies:
            assert take_step(it.coordinator, STUDY) is False
            assert notes[-1] == ("not_sealed", 502)
        assert rows(it.coordinator.database, totals, inbox, receipts) == [0, 12, 12]
        context.shuffler = truth
        it.settle()
        require_counted(it)


def test_a_helper_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    with answered(tmp_path) as it:
        context, truth = it.coordinator.context, it.coordinator.context.shuffler
        statuses = [400, 401, 403, 404, 413, 422, 429, 500, 502, 503]
        silent = httpx.Client(transport=httpx.MockTransport(lambda request: signed(request, statuses.pop(0))))
        context.shuffler = HttpShuffler("http://helper", KEYS, "http://helper", silent)
        while statuses:
            said = statuses[0]
            try:
                assert take_step(it.coordinator, STUDY) is False
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

    def lie(name: str, chosen: list[bytes]) -> SealedBatch:
        it.shuffler.seal = seal  # type: ignore[method-assign, union-attr]
        told = seal(name, chosen)
        return SealedBatch([(number + by) % Field64.modulus for number in told.total], told.missing)

    it.shuffler.seal = lie  # type: ignore[assignment, method-assign]


def require_void(it: World, spent: int) -> None:
    """See that a batch is void: nothing was released or is left, and its people are spent."""
    assert it.status.wave == 1
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
        take_step(it.coordinator, STUDY)  # the total comes
        take_step(it.coordinator, STUDY)  # and is void
        require_void(it, often)
        current = it.coordinator.snapshots.current(STUDY)
        with it.coordinator.database.read() as connection:
            assert collecting.askable(connection, current) == len(it.keys) - 12
        replace_all(it)
        assert before.isdisjoint(it.asked)
        require_counted(it)
        assert participations(it)[12:24] == [1] * 12
        with it.shuffler.database.read() as connection:  # type: ignore[union-attr]
            names = connection.execute(sa.select(batches.c.id, batches.c.state)).all()
            old = connection.execute(sa.select(tokens.c.batch).where(tokens.c.token_hash == hash_key(first)))
            assert [row.state for row in names] == ["forwarded", "forwarded"]
            assert old.scalar_one() in {row.id for row in names}


def test_a_void_batch_keeps_nothing_of_one_who_withdrew_but_that_they_took_part(tmp_path: Path) -> None:
    with answered(tmp_path) as it:
        lying(it, 30_000)
        take_step(it.coordinator, STUDY)
        gone = next(iter(it.asked))
        participants.withdraw(it.coordinator.context, STUDY, gone)
        take_step(it.coordinator, STUDY)
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
        take_step(it.coordinator, STUDY)
        take_step(it.coordinator, STUDY)
        require_void(it, 1)
        replace_all(it)
        assert (it.status.answered, it.status.short) == (8, 4)
        it.register(4)
        it.settle()
        it.play_all()  # for those who are new
        it.settle()
        it.answer_all()
        it.settle()
        require_counted(it)


class Claiming(DirectShuffler):
    """A helper that says of announcements what it likes."""

    said = BatchProgress(0, [], [])

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
        others = [hash_key(invitation["token"]).hex() for _, invitation in everybody[-2:]]
        claiming.said = BatchProgress(99, others[:1], others[1:])
        it.coordinator.context.shuffler = claiming
        gone = everybody[0][0]
        participants.withdraw(it.coordinator.context, STUDY, gone)
        it.reports[1].pop(0)
        it.keys.remove(gone)
        it.settle()
        assert it.status.answered == 9
        assert {key for key, _ in it.invited()} >= {key for key, _ in everybody[-2:]}
        it.coordinator.context.shuffler = DirectShuffler(it.shuffler)
        it.settle()
        it.answer_all()
        it.settle()
        require_counted(it)


# -- a helper of an earlier version


def test_a_shuffler_that_knows_no_shares_is_told_of_none(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []

    def earlier(request: httpx.Request) -> httpx.Response:
        said = json.loads(request.content)
        told.append(said)
        if set(said) - {"size", "coordinates", "levels", "trials", "chance", "tokens", "overdue", "forget"}:
            return signed(request, 422)
        return signed(request, 200, b'{"count":0,"withdrawn":[],"answered":[]}')

    for model, asked in (("shuffle", 12), ("aggregate", 0)):
        client = httpx.Client(transport=httpx.MockTransport(earlier))
        link = HttpShuffler("http://shuffler", KEYS, "https://shuffler.example", client)
        with own_shuffler(str(tmp_path / f"{model}-s.db")) as unused:
            made = definition(private(model))
            with world(str(tmp_path / f"{model}.db"), made, 30, unused) as it:
                it.coordinator.context.shuffler = link
                it.settle()
                it.play_all()
                it.settle()
                assert len(list(it.invited())) == asked
    assert [said.get("shared") for said in told if said["tokens"]] == [None, True]

"""The shuffler without HTTP: it waits for a whole batch of reports and forwards the number of ones per coordinate.

It knows a batch's random name, how its reports are encoded, and which tokens may send one. It knows neither the study
nor the people. What it forwards is exactly what shuffled bits reveal. When a batch is sealed, its reports are added up
and deleted, and only their total is kept.

It is also the helper of the aggregate model: then reports are shares, which mean nothing by themselves. It checks their
proofs together with the coordinator, forgets those that are wrong, and tells the total of the others once, to the
coordinator, for the tokens that it names.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import add
from typing import Annotated, Any

import sqlalchemy as sa

from voxpop.privacy.release import HELPING, Batch
from voxpop.service.keys import digest_of, hash_key
from voxpop.service.messages import Count, Hash, Reply, says
from voxpop.service.refusals import Refusal
from voxpop.service.reports import FORWARDED, UNKNOWN_TOKEN, Verdict, check, judge, matrix
from voxpop.service.stores.database import Database, scrub_after
from voxpop.service.stores.schema import batches, reports, tokens

CHUNK = 2_000  # reports added up at a time, and tokens per statement
LEAST_BATCH = 2  # people: the total of a single report would be that report


class BatchStage(StrEnum):
    """How far a batch is."""

    COLLECTING = "collecting"
    SEALED = "sealed"  # whole: only its total is left, to be forwarded
    FORWARDED = "forwarded"
    CALLED_OFF = "called off"  # nothing will be released: nothing but its name is left


class BatchProgress(Reply, frozen=True):
    """How far a batch is."""

    count: Annotated[Count, says("Reports so far.")]
    withdrawn: Annotated[list[Hash], says("Of the overdue and forgotten tokens, those that can no longer answer.")]
    answered: Annotated[list[Hash], says("Of the overdue and forgotten tokens, those whose reports are counted.")]


class CheckedShares(Reply, frozen=True):
    """What the helper finds of proofs, given the coordinator's verifier shares."""

    messages: Annotated[dict[Hash, Hash], says("By token: the verifier message of a proof that is right.")]
    missing: Annotated[list[Hash], says("Tokens without a share; the proofs of others without a message are wrong.")]


class SealedBatch(Reply, frozen=True):
    """The total of the shares, or the tokens without a share; then nothing was added up."""

    total: list[int]
    missing: list[Hash]


def constants_of(row: Any) -> Batch:
    """Return the batch that a row describes."""
    levels = row.levels or 0  # NULL in a batch of the first version, which is announced and uploaded to in vain
    return Batch(row.size, row.coordinates, levels, row.bits - levels, row.chance, row.shared)


def add_up(connection: sa.Connection, batch: Any, stage: BatchStage) -> None:
    """Add up the reports of a whole batch, keep the total, and delete the reports."""
    wanted = sa.select(reports.c.body).where(reports.c.batch == batch.id)
    bodies = connection.execute(wanted).scalars().partitions(CHUNK)
    constants = constants_of(batch)
    parts = (constants.gather(matrix(part, constants.words(HELPING))) for part in bodies)
    tally = reduce(add, parts)
    assert tally.count >= batch.size, "only a whole batch is sealed"
    took_part = sa.select(tokens.c.token_hash).where(tokens.c.batch == batch.id, tokens.c.digest.is_not(None))
    # Sorted by hash, so that their order does not reveal who answered first.
    names = sorted(token.hex() for token in connection.execute(took_part).scalars())
    numbers = [number % constants.modulus for number in tally.total]
    total = json.dumps({"count": tally.count, "total": numbers, "tokens": names})
    connection.execute(sa.update(batches).where(batches.c.id == batch.id).values(state=stage, total=total))
    connection.execute(sa.delete(reports).where(reports.c.batch == batch.id))
    if stage is BatchStage.FORWARDED:
        erase_digests(connection, batch.id)
    scrub_after(connection)


def delete_reports(connection: sa.Connection, hashes: list[bytes]) -> None:
    """Delete the reports of these tokens, and what could be compared with guesses of them."""
    if not hashes:
        return
    given = [{"token": hashed} for hashed in hashes]
    connection.execute(sa.delete(reports).where(reports.c.token_hash == sa.bindparam("token")), given)
    unmarked = sa.update(tokens).where(tokens.c.token_hash == sa.bindparam("token"))
    connection.execute(unmarked.values(digest=None), given)
    scrub_after(connection)


def erase_digests(connection: sa.Connection, batch: str) -> None:
    """Erase what could be compared with guesses of reports; empty digests remain, and show who answered."""
    marked = sa.update(tokens).where(tokens.c.batch == batch, tokens.c.digest.is_not(None))
    connection.execute(marked.values(digest=FORWARDED))


@dataclass(frozen=True)
class EncodedReport:
    """A report for a batch, with the token that allows it."""

    batch: str
    token: str
    body: bytes
    made_for: Batch  # the batch and encoding for which the device made its noise


@dataclass
class Shuffler:
    """A shuffler; it keeps everything in its own database."""

    database: Database
    note: Callable[..., None]
    least_batch: int = LEAST_BATCH

    def announce(
        self, name: str, batch: Batch, fresh: list[bytes], overdue: list[bytes], forget: Sequence[bytes] = ()
    ) -> BatchProgress:
        """Register a batch and its new tokens, and withdraw the overdue tokens that have not answered.

        Tokens to `forget` are withdrawn with their reports, unless the batch is whole: then they are in its total.
        """
        if batch.size < self.least_batch:
            raise Refusal(
                422, f"a batch needs at least {self.least_batch} people here, got {batch.size}; ask more people"
            )
        with self.database.write() as connection:
            row = self._row(connection, name)
            self._know(connection, name, row, batch)
            mine = dict(
                connection.execute(sa.select(tokens.c.token_hash, tokens.c.digest).where(tokens.c.batch == name)).all()
            )
            # A token to forget may be unknown, and its announcement under way: then it must not become valid later.
            new = [token for token in dict.fromkeys((*fresh, *forget)) if token not in mine]
            self._refuse_used(connection, new)
            if new:
                rows = [{"token_hash": token, "batch": name, "withdrawn": False} for token in new]
                connection.execute(sa.insert(tokens), rows)
            whole = row is not None and row.state != BatchStage.COLLECTING
            if not whole:
                delete_reports(connection, [token for token in forget if mine.pop(token, None) is not None])
            ended = [*(() if whole else overdue), *forget]  # in a whole batch nobody needs to be replaced
            withdrawn = [token for token in ended if mine.get(token) is None]
            if withdrawn:
                self._shut(connection, withdrawn)
        count = sum(digest is not None for digest in mine.values())
        answered = [token.hex() for token in (*overdue, *forget) if mine.get(token) is not None]
        return BatchProgress(count, [token.hex() for token in withdrawn], answered)

    def _refuse_used(self, connection: sa.Connection, fresh: list[bytes]) -> None:
        """Refuse tokens of another batch: one report must never be in two totals."""
        for start in range(0, len(fresh), CHUNK):
            used = sa.select(tokens.c.batch).where(tokens.c.token_hash.in_(fresh[start : start + CHUNK])).limit(1)
            if connection.execute(used).first() is not None:
                raise Refusal(409, "a token was announced for another batch before; make a new one for each")

    def _know(self, connection: sa.Connection, name: str, row: Any, batch: Batch) -> None:
        """Register a batch that is announced, or compare it with what is known."""
        if row is None:
            names = ("size", "coordinates", "bits", "levels", "chance", "shared")  # trials: the bits beyond the levels
            columns = {part: getattr(batch, part) for part in names}
            connection.execute(sa.insert(batches).values(id=name, state=BatchStage.COLLECTING, **columns))
            self.note("announced", size=batch.size)
        elif row.state == BatchStage.CALLED_OFF:
            raise _called_off()
        elif constants_of(row) != batch:
            raise Refusal(409, "this batch was announced with other constants; nothing was changed")
        elif row.shared and row.total is not None:
            raise Refusal(409, "this batch of shares is sealed; nobody joins or leaves it any more")
        elif row.state == BatchStage.FORWARDED and row.total is not None:
            # A coordinator that still announces the batch does not have the total: forward it again.
            connection.execute(sa.update(batches).where(batches.c.id == name).values(state=BatchStage.SEALED))
            self.note("forward_again")

    def call_off(self, name: str) -> None:
        """Delete everything of a batch but its name: an announcement that comes late must not begin it again."""
        with self.database.write() as connection:
            row = self._row(connection, name)
            if row is None:
                nothing = {"size": 0, "coordinates": 0, "bits": 0}
                connection.execute(sa.insert(batches).values(id=name, state=BatchStage.CALLED_OFF, **nothing))
                return
            for table in (reports, tokens):
                connection.execute(sa.delete(table).where(table.c.batch == name))
            gone = sa.update(batches).where(batches.c.id == name)
            connection.execute(gone.values(state=BatchStage.CALLED_OFF, total=None))
            scrub_after(connection)
        if row.state != BatchStage.CALLED_OFF:
            self.note("called_off", size=row.size)

    def store(self, uploads: list[EncodedReport]) -> list[Verdict]:
        """Store the valid reports and seal the batches that are whole, in one transaction; return the verdicts."""
        verdicts: list[Verdict] = [Refusal(401, UNKNOWN_TOKEN)] * len(uploads)
        groups: dict[str, list[int]] = defaultdict(list)
        for index, upload in enumerate(uploads):
            groups[upload.batch].append(index)
        with self.database.write() as connection:
            for batch in sorted(groups):
                row = self._row(connection, batch)
                if row is None:
                    continue
                chosen = [uploads[index] for index in groups[batch]]
                over = row.state == BatchStage.CALLED_OFF
                found = [_called_off()] * len(chosen) if over else self._store(connection, row, chosen)
                for index, verdict in zip(groups[batch], found, strict=True):
                    verdicts[index] = verdict
        return verdicts

    def _store(self, connection: sa.Connection, stored: Any, uploads: list[EncodedReport]) -> list[Verdict]:
        hashes = [hash_key(upload.token) for upload in uploads]
        wanted = sa.select(tokens).where(tokens.c.token_hash.in_(hashes))
        known = {row.token_hash: row for row in connection.execute(wanted)}
        batch = constants_of(stored)
        bodies = {index: upload.body for index, upload in enumerate(uploads)}
        problems = check(batch.accept, batch.words(HELPING), bodies)
        # With the noise of the others, that for another batch or encoding may be too little.
        sentence = "the noise of this report was made for a batch other than the one announced; check in again"
        problems |= {index: Refusal(422, sentence) for index, upload in enumerate(uploads) if upload.made_for != batch}
        room = self._room(connection, stored)
        new: dict[bytes, tuple[bytes, bytes]] = {}
        verdicts: list[Verdict] = []
        for index, (upload, hashed) in enumerate(zip(uploads, hashes, strict=True)):
            digest = digest_of(upload.token, upload.body)
            row, (_, before) = known.get(hashed), new.get(hashed, (None, None))
            belongs, over = row is not None and row.batch == stored.id, row is None or row.withdrawn or room <= 0
            verdict = judge("batch", row, digest, before, belongs, over, problems.get(index))
            verdicts.append(verdict)
            if verdict is True:
                new[hashed] = (upload.body, digest)
                room -= 1
        if new:
            rows = [{"token_hash": token, "batch": stored.id, "body": body} for token, (body, _) in new.items()]
            connection.execute(sa.insert(reports), rows)
            mark = sa.update(tokens).where(tokens.c.token_hash == sa.bindparam("token"))
            marks = [{"token": token, "mark": digest} for token, (_, digest) in new.items()]
            connection.execute(mark.values(digest=sa.bindparam("mark")), marks)
            if room == 0:
                add_up(connection, stored, BatchStage.SEALED)
                self.note("sealed", size=batch.size)
        return verdicts

    def _room(self, connection: sa.Connection, batch: Any) -> float:
        """Return how many more reports a batch takes; of shares, as many as there are tokens, until it is sealed."""
        if batch.state != BatchStage.COLLECTING:
            return 0
        if batch.shared:
            return math.inf
        here = sa.select(sa.func.count()).select_from(reports).where(reports.c.batch == batch.id)
        return int(batch.size - connection.execute(here).scalar_one())

    def verify(self, name: str, key: bytes, verifiers: Mapping[bytes, bytes]) -> CheckedShares:
        """Check proofs with the coordinator's verifier shares by token, under its key, and forget the wrong ones.

        Nothing is noted of proofs that are right: whoever asks again gets the same answer. A share whose proof is wrong
        is deleted, so that verifier shares can be tried once, and its token stays refused.
        """
        with self.database.read() as connection:
            row: Any = connection.execute(sa.select(batches).where(batches.c.id == name)).first()
            if row is None:  # of a batch that was lost here, everybody's share is missing
                return CheckedShares({}, [token.hex() for token in verifiers])
            if row.state == BatchStage.CALLED_OFF:
                raise _called_off()
            if not row.shared or row.total is not None:
                raise Refusal(409, "this batch is sealed, or one of whole reports; there is nothing to verify")
            held, shut = self._held(connection, row, list(verifiers))
        prio3 = constants_of(row).prio3
        check = prio3.verify(key, HELPING, list(held.values()))
        found = prio3.messages([verifiers[token] for token in held], check.verifiers)
        right = {
            token.hex(): seed.hex()
            for token, seed, message in zip(held, check.seeds, found, strict=True)
            if message == seed
        }
        wrong = [token for token in held if token.hex() not in right]
        if wrong:
            with self.database.write() as connection:
                delete_reports(connection, wrong)
                self._shut(connection, wrong)
            self.note("refused", people=len(wrong))
        return CheckedShares(right, [token.hex() for token in verifiers if token not in held and token not in shut])

    def _held(
        self, connection: sa.Connection, batch: Any, chosen: list[bytes]
    ) -> tuple[dict[bytes, bytes], set[bytes]]:
        """Return the shares of these tokens that have a proof, and those of the tokens that are shut."""
        held, shut, size = dict[bytes, bytes](), set[bytes](), 8 * constants_of(batch).words(HELPING)
        for start in range(0, len(chosen), CHUNK):
            ours = tokens.c.batch == batch.id, tokens.c.token_hash.in_(chosen[start : start + CHUNK])
            joined = tokens.outerjoin(reports, reports.c.token_hash == tokens.c.token_hash)
            wanted = sa.select(tokens.c.token_hash, tokens.c.withdrawn, reports.c.body).select_from(joined)
            for token, withdrawn, body in connection.execute(wanted.where(*ours)):
                shut |= {token} if withdrawn else set()
                held |= {token: body} if body is not None and len(body) == size else {}
        return held, shut

    def _shut(self, connection: sa.Connection, withdrawn: list[bytes]) -> None:
        """Let these tokens send nothing more."""
        shut = sa.update(tokens).where(tokens.c.token_hash == sa.bindparam("token")).values(withdrawn=True)
        connection.execute(shut, [{"token": token} for token in withdrawn])

    def seal(self, name: str, chosen: Sequence[bytes]) -> SealedBatch:
        """Add up the shares of exactly these tokens, once; if some have none, say which, and add up nothing.

        Of two totals that differ in one person, the difference would be that person's report. So whoever asks for a
        batch that is sealed gets the same total for the same tokens, and nothing for others.
        """
        with self.database.write() as connection:
            row = self._row(connection, name)
            if row is None:  # of a batch that was lost here, everybody's share is missing
                return SealedBatch([], [token.hex() for token in chosen])
            if not row.shared:
                raise Refusal(404, "this batch is one of whole reports, whose total is forwarded; nothing is sealed")
            if row.state == BatchStage.CALLED_OFF:
                raise _called_off()
            if row.total is None:
                if not len(set(chosen)) == len(chosen) >= row.size:  # more people make more noise
                    sentence = f"this batch has at least {row.size} people, got {len(set(chosen))} tokens; name all"
                    raise Refusal(422, f"{sentence} of them")
                held = set(connection.execute(sa.select(reports.c.token_hash).where(reports.c.batch == name)).scalars())
                missing = [token.hex() for token in chosen if token not in held]
                if missing:
                    return SealedBatch([], missing)
                # Shares that are not added up are deleted, and no more taken: their twins were refused, or never sent.
                delete_reports(connection, list(held - set(chosen)))
                silent = sa.update(tokens).where(tokens.c.batch == name, tokens.c.digest.is_(None))
                connection.execute(silent.values(withdrawn=True))
                add_up(connection, row, BatchStage.FORWARDED)
                self.note("sealed", size=row.size)
                row = self._row(connection, name)
            known = json.loads(row.total)
            if known["tokens"] != sorted(token.hex() for token in chosen):
                raise Refusal(409, "this batch was sealed with other tokens; it has one total and no other")
        return SealedBatch(known["total"], [])

    def sealed(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the batches whose totals are waiting to be forwarded, with the totals."""
        wanted = sa.select(batches.c.id, batches.c.total).where(batches.c.state == BatchStage.SEALED)
        with self.database.read() as connection:
            return [(row.id, json.loads(row.total)) for row in connection.execute(wanted)]

    def taken(self, batch: str) -> None:
        """Stop forwarding a total that was acknowledged, but keep it in case the coordinator loses its copy.

        The total reveals nothing beyond the release. The digests of the reports are erased, because anyone with the
        tokens could test guesses against them; empty digests remain and show who answered.
        """
        with self.database.write() as connection:
            done = sa.update(batches).where(batches.c.id == batch, batches.c.state == BatchStage.SEALED)
            connection.execute(done.values(state=BatchStage.FORWARDED))
            erase_digests(connection, batch)
        self.note("forwarded")

    def _row(self, connection: sa.Connection, batch: str) -> Any:
        return connection.execute(sa.select(batches).where(batches.c.id == batch).with_for_update()).first()


def _called_off() -> Refusal:
    return Refusal(410, "this batch was called off; nothing is counted any more")

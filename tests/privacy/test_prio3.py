"""Prio3 against the draft's own vectors, malformed reports included, and against liars."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.privacy.vdaf_circuits import FIELD64, FIELD128, prio3_of
from voxpop.errors import InputError
from voxpop.privacy.field import Field64, doubled, lagrange, root_powers, transform
from voxpop.privacy.prio3 import NONCE, QUERY, Prio3, SumVec, sum_vec

FOLDER = Path(__file__).parent / "vdaf"
VECTORS = sorted(path.stem for path in FOLDER.glob("Prio3*.json"))
KEY = bytes(range(32))


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


def unhex(texts: list[str]) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


@pytest.mark.parametrize("small", [FIELD64, Field64()], ids=["integers", "words"])
@pytest.mark.parametrize("name", VECTORS)
def test_does_what_the_draft_does(name: str, small: Field64) -> None:
    vector = read(name)
    prio3 = prio3_of(name.removeprefix("Prio3").split("_")[0], vector, small)
    key, reports = bytes.fromhex(vector["verify_key"]), vector["reports"]
    holders, field = range(vector["shares"]), prio3.circuit.field
    done: dict[tuple[str, int], Any] = {}
    for step in vector["operations"]:
        what, index, holder = step["operation"], step.get("report_index", 0), step.get("aggregator_id", 0)
        if what in ("aggregate", "unshard"):
            continue  # below
        report = reports[index]
        nonce, public = bytes.fromhex(report["nonce"]), bytes.fromhex(report["public_share"])
        if what == "shard":
            found = prio3.shard(report["measurement"], nonce + bytes.fromhex(report["rand"]))
            assert found == [nonce + public + share for share in unhex(report["input_shares"])]
            assert len(public) == prio3.public_bytes
            assert [len(sent) for sent in found] == [prio3.upload_bytes(one) for one in holders]
        elif what == "verify_init":
            share = bytes.fromhex(report["input_shares"][holder])
            check = prio3.verify(key, holder, [nonce + public + share])
            assert check.verifiers == unhex([report["verifier_shares"][0][holder]])
            done[what, holder] = check
            done["out", holder] = prio3.outputs(holder, [nonce + public + share])
        elif what == "verifier_shares_to_message":
            shares = [[share] for share in unhex(report["verifier_shares"][0])]
            (message,) = prio3.messages(*shares)
            assert (message is not None) == step["success"]
            if step["success"]:
                assert message == bytes.fromhex(report["verifier_messages"][0])
        else:
            check = done["verify_init", holder]
            assert (check.seeds == unhex(report["verifier_messages"])) == step["success"]
            if step["success"]:
                assert field.encode(done["out", holder]) == bytes.fromhex(report["out_shares"][holder])
    if vector["agg_shares"]:
        outputs = [np.stack([field.words(bytes.fromhex(one["out_shares"][i])) for one in reports]) for i in holders]
        totals = [field.total(some, axis=0) for some in outputs]
        assert [field.encode(one) for one in totals] == unhex(vector["agg_shares"])
        assert field.total(np.stack(totals), axis=0).tolist() == np.atleast_1d(vector["agg_result"]).tolist()


def test_vectors_are_all_here() -> None:
    assert len(VECTORS) == 17
    assert sum("_bad_" in name for name in VECTORS) == 8


def test_seeds_are_expanded_as_in_the_draft() -> None:
    from Crypto.Hash import TurboSHAKE128

    vector = read("XofTurboShake128")
    tag, seed, binder = (bytes.fromhex(vector[part]) for part in ("dst", "seed", "binder"))
    stream = TurboSHAKE128.new(domain=1, data=len(tag).to_bytes(2, "little") + tag + bytes([32]) + seed + binder)
    found = stream.read(16 * vector["length"])
    assert found.hex() == vector["expanded_vec_field128"]
    assert found[:32].hex() == vector["derived_seed"]
    assert (FIELD128.words(found) < FIELD128.modulus).all()


def shared(prio3: Prio3, measurements: Any) -> list[list[bytes]]:
    """Share measurements; return what each server is sent."""
    sent = [prio3.shard(one, os.urandom(prio3.random_bytes)) for one in measurements]
    return [list(some) for some in zip(*sent, strict=True)]


def verified(prio3: Prio3, *sent: list[bytes]) -> tuple[list[bool], np.ndarray]:
    """Verify reports; return verdicts and totals of those that are in range."""
    checks = [prio3.verify(KEY, holder, some) for holder, some in enumerate(sent)]
    said = prio3.messages(*(one.verifiers for one in checks))
    good = [all(one.seeds[i] == message for one in checks) for i, message in enumerate(said)]
    field = prio3.circuit.field
    right = [[one for one, taken in zip(some, good, strict=True) if taken] for some in sent]
    outputs = np.stack([prio3.outputs(holder, some) for holder, some in enumerate(right)])
    return good, field.total(field.total(outputs, axis=0), axis=0)


def test_many_reports_are_verified_and_added_up_at_once() -> None:
    rng = np.random.default_rng(1)
    prio3 = sum_vec(5, 1000)
    numbers = rng.integers(0, 1001, size=(40, 5))
    numbers[0], numbers[1] = 0, 1000
    good, total = verified(prio3, *shared(prio3, numbers))
    assert all(good)
    assert total.tolist() == numbers.sum(axis=0).tolist()


@pytest.mark.parametrize("numbers", [1, 2, 20])
@pytest.mark.parametrize("most", [1, 2, 3, 1337, 2**20])
def test_all_sizes_are_shared(numbers: int, most: int) -> None:
    prio3 = sum_vec(numbers, most)
    good, total = verified(prio3, *shared(prio3, [[most] * numbers, [0] * numbers, [most // 2] * numbers]))
    assert good == [True] * 3
    assert total.tolist() == [most + most // 2] * numbers


@pytest.mark.parametrize("number", [-1, 1001, 2**40])
def test_a_number_out_of_range_is_not_shared(number: int) -> None:
    with pytest.raises(InputError, match="from 0 to 1000"):
        sum_vec(2, 1000).shard([1, number], bytes(144))


class Liar(SumVec):
    """A circuit whose first bit is what a liar likes."""

    lie = 2

    def encode(self, measurement: Any) -> Any:
        honest = super().encode(measurement)
        honest[0] = self.field.array(self.lie)
        return honest


@pytest.mark.parametrize("lie", [2, 2**32, Field64.modulus - 1])
def test_a_liar_is_refused_alone(lie: int) -> None:
    prio3 = sum_vec(3, 1000)
    circuit: Any = prio3.circuit
    crooked = Liar(circuit.numbers, circuit.most, circuit.chunk, circuit.field)
    object.__setattr__(crooked, "lie", lie)
    parts = shared(prio3, [[1, 2, 3]] * 9)
    for mine, theirs in zip(parts, shared(Prio3(crooked, prio3.algorithm, prio3.proofs), [[1, 2, 3]]), strict=True):
        mine[4] = theirs[0]
    good, total = verified(prio3, *parts)
    assert good == [True] * 4 + [False] + [True] * 4
    assert total.tolist() == [8, 16, 24]


def test_no_byte_of_a_report_can_be_changed() -> None:
    prio3 = sum_vec(2, 3)
    honest = [part[0] for part in shared(prio3, [[1, 2]])]
    cases: list[list[bytes]] = []
    for part, data in enumerate(honest):
        own = NONCE + 32 * part  # where a server states what it hashes itself
        for place in (*range(own), *range(own + 32, len(data))):
            changed = bytearray(data)
            changed[place] ^= 1
            cases.append([*honest[:part], bytes(changed), *honest[part + 1 :]])
    good, _ = verified(prio3, *map(list, zip(*cases, strict=True)))
    assert not any(good)
    assert len(good) > 300


def test_a_share_of_one_report_is_not_taken_for_another() -> None:
    prio3 = sum_vec(2, 1000)
    ours, theirs = shared(prio3, [[1, 2], [3, 4], [5, 6]])
    theirs[0], theirs[1] = theirs[1], theirs[0]
    assert verified(prio3, ours, theirs)[0] == [False, False, True]


def test_numbers_beyond_the_field_are_refused() -> None:
    prio3 = sum_vec(2, 1000)
    ours, theirs = shared(prio3, [[1, 2], [3, 4]])
    start = NONCE + prio3.public_bytes
    ours[0] = ours[0][:start] + b"\xff" * 8 + ours[0][start + 8 :]
    assert [bool(one) for one in prio3.verify(KEY, 0, ours).verifiers] == [False, True]
    assert verified(prio3, ours, theirs)[0] == [False, True]
    verifiers = [prio3.verify(KEY, holder, some).verifiers for holder, some in enumerate((ours, theirs))]
    verifiers[1][1] = b"\xff" * 8 + verifiers[1][1][8:]
    assert prio3.messages(*verifiers) == [None, None]


def test_a_message_of_another_report_is_refused() -> None:
    prio3 = sum_vec(2, 1000)
    checks = [prio3.verify(KEY, holder, some) for holder, some in enumerate(shared(prio3, [[1, 2], [1, 2]]))]
    first, second = prio3.messages(*(one.verifiers for one in checks))
    assert checks[0].seeds == checks[1].seeds == [first, second]
    assert first != second


def test_words_are_the_whole_numbers_modulo_the_modulus() -> None:
    rng = np.random.default_rng(2)
    words, modulus = Field64(), Field64.modulus
    edges = [0, 1, 2**32 - 1, 2**32, 2**63, modulus - 1, modulus - 2**32, modulus - 2**32 - 1]
    numbers = edges + [int(one) % modulus for one in rng.integers(0, 2**64, size=500, dtype=np.uint64)]
    a, b = (words.array(side) for side in zip(*((x, y) for x in numbers for y in numbers[:60]), strict=True))
    x, y = a.astype(object), b.astype(object)
    for ours, theirs in ((words.add, FIELD64.add), (words.sub, FIELD64.sub), (words.mul, FIELD64.mul)):
        assert (ours(a, b).astype(object) == theirs(x, y)).all()
    assert int(words.total(a, axis=0)) == sum(x.tolist()) % modulus


@pytest.mark.parametrize("field", [Field64(), FIELD128], ids=["words", "128 bits"])
def test_polynomials_have_the_values_that_they_should(field: Field64) -> None:
    rng = np.random.default_rng(3)
    coefficients = [int(one) for one in rng.integers(0, 2**62, size=8)]

    def value(point: int) -> int:
        return sum(one * pow(point, power, field.modulus) for power, one in enumerate(coefficients)) % field.modulus

    values = transform(field, field.array(coefficients))
    assert values.tolist() == [value(int(root)) for root in root_powers(field, 8, 8)]
    assert transform(field, values, inverse=True).tolist() == coefficients
    assert doubled(field, values).tolist() == [value(int(root)) for root in root_powers(field, 16, 16)]
    point = 123456789
    assert int(field.total(field.mul(values, lagrange(field, field.array(point), 8)), axis=-1)) == value(point)


def test_words_and_whole_numbers_prove_the_same() -> None:
    prio3 = sum_vec(4, 777)
    slow = Prio3(SumVec(4, 777, prio3.circuit.chunk, FIELD64), prio3.algorithm, prio3.proofs)
    random = os.urandom(prio3.random_bytes)
    quick = prio3.shard([0, 1, 500, 777], random)
    assert quick == slow.shard([0, 1, 500, 777], random)
    for holder, sent in enumerate(quick):
        ours, theirs = (one.verify(KEY, holder, [sent]) for one in (prio3, slow))
        assert (ours.seeds, ours.verifiers) == (theirs.seeds, theirs.verifiers)
        assert prio3.outputs(holder, [sent]).tolist() == slow.outputs(holder, [sent]).tolist()


def test_each_proof_is_checked() -> None:
    """Three proofs are three: a wrong one is found, whichever it is."""
    prio3 = sum_vec(2, 1000)
    ours, theirs = shared(prio3, [[1, 2]] * prio3.proofs)
    start = (NONCE + prio3.public_bytes) // 8 + prio3.circuit.length
    rest = prio3.upload_bytes(0) // 8 - 4 - start
    for proof in range(prio3.proofs):
        words = np.frombuffer(ours[proof], dtype="<u8").copy()
        words[start + (proof + 1) * rest // prio3.proofs - 1] ^= 1
        ours[proof] = words.tobytes()
    assert verified(prio3, ours, theirs)[0] == [False] * prio3.proofs


def test_a_point_at_a_root_of_unity_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, a verifier share would hold inputs of the gadget, which are the bits of the report."""
    prio3 = sum_vec(2, 1000)
    ours, _ = shared(prio3, [[1, 2]] * 3)
    expand = Prio3._expand

    def forced(self: Prio3, count: int, usage: int, seeds: Any, binders: Any) -> Any:
        found = expand(self, count, usage, seeds, binders)
        if usage == QUERY:
            found[1, 0] = root_powers(self.circuit.field, 4, 2)[1]
        return found

    monkeypatch.setattr(Prio3, "_expand", forced)
    check = prio3.verify(KEY, 0, ours)
    assert [bool(verifier) for verifier in check.verifiers] == [True, False, True]

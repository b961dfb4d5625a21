"""Both devices share a report with the same proof, to the last byte, and what they share verifies."""

from __future__ import annotations

import json
import os
from random import Random

import pytest
from Crypto.Hash import TurboSHAKE128

from tests.clients_js.oracle import Oracle
from tests.privacy.test_prio3 import FOLDER, KEY
from voxpop.privacy.prio3 import sum_vec

SIZES = [(1, 1), (1, 2), (2, 1), (3, 3), (5, 1000), (1, 2**24), (12, 777), (20, 2**20 - 1), (20, 2**20), (60, 4120)]


@pytest.mark.parametrize(("numbers", "most"), SIZES)
def test_the_same_shares_come_of_the_same_bytes(other: Oracle, numbers: int, most: int) -> None:
    prio3, draw = sum_vec(numbers, most), Random(numbers)
    for values in ([0] * numbers, [most] * numbers, [draw.randint(0, most) for _ in range(numbers)]):
        random = os.urandom(prio3.random_bytes)
        theirs = [bytes.fromhex(one) for one in other.ask(shares=[values, most, random.hex()])]
        assert theirs == prio3.shard(values, random)


def test_what_the_other_device_shares_verifies(other: Oracle) -> None:
    prio3, values = sum_vec(4, 9999), [0, 1, 5000, 9999]
    parts = [other.ask(shares=[values, 9999, os.urandom(prio3.random_bytes).hex()]) for _ in range(30)]
    sent = [[bytes.fromhex(one[holder]) for one in parts] for holder in (0, 1)]
    checks = [prio3.verify(KEY, holder, some) for holder, some in enumerate(sent)]
    messages = prio3.messages(*(one.verifiers for one in checks))
    assert all(one.seeds[i] == message for one in checks for i, message in enumerate(messages))
    outputs = [prio3.outputs(holder, some) for holder, some in enumerate(sent)]
    totals = prio3.circuit.field.total(prio3.circuit.field.add(*outputs), axis=0)
    assert totals.tolist() == [30 * value for value in values]


def test_seeds_are_expanded_as_in_the_draft_and_as_by_another_library(other: Oracle) -> None:
    vector = json.loads((FOLDER / "XofTurboShake128.json").read_text())
    tag, seed = bytes.fromhex(vector["dst"]), bytes.fromhex(vector["seed"])
    said = len(tag).to_bytes(2, "little") + tag + bytes([32]) + seed + bytes.fromhex(vector["binder"])
    assert other.ask(turboShake=[said.hex(), 16 * vector["length"]]) == [vector["expanded_vec_field128"]]
    for length in (0, 1, 166, 167, 168, 169, 335, 336, 1000):
        message = os.urandom(length)
        stream = TurboSHAKE128.new(domain=1, data=message)
        wanted = [stream.read(count).hex() for count in (1, 167, 300, 40)]
        assert other.ask(turboShake=[message.hex(), 1, 167, 300, 40]) == wanted

"""The draft's other field and circuits, in plain whole numbers; the code that they share with `SumVec` runs on them."""

from typing import Any

import numpy as np

from voxpop.privacy.field import Elements, Field64
from voxpop.privacy.prio3 import Prio3, SumVec


class Integers(Field64):
    """A field whose elements are Python's whole numbers."""

    def __init__(self, modulus: int, size: int) -> None:
        self.modulus, self.size = modulus, size

    def array(self, numbers: Any) -> Elements:
        return np.array(numbers, dtype=object)

    def add(self, a: Elements, b: Elements) -> Elements:
        return (a + b) % self.modulus

    def sub(self, a: Elements, b: Elements) -> Elements:
        return (a - b) % self.modulus

    def mul(self, a: Elements, b: Elements) -> Elements:
        return a * b % self.modulus

    def total(self, a: Elements, axis: int) -> Elements:
        return np.asarray(a.sum(axis=axis) % self.modulus, dtype=object)

    def words(self, data: bytes) -> Elements:
        starts = range(0, len(data), self.size)
        numbers = [int.from_bytes(data[start : start + self.size], "little") for start in starts]
        found = np.empty(len(numbers), dtype=object)
        found[:] = numbers
        return found

    def encode(self, a: Elements) -> bytes:
        return b"".join(int(number).to_bytes(self.size, "little") for number in a.reshape(-1))


FIELD64 = Integers(2**64 - 2**32 + 1, 8)
FIELD128 = Integers(2**66 * 4611686018427387897 + 1, 16)


class Count(SumVec):
    """A single bit."""

    arity = 2
    joint = 0

    def __init__(self, field: Field64) -> None:
        super().__init__(1, 1, 1, field)

    def encode(self, measurement: Any) -> Elements:
        return self.field.array([measurement])

    def truncate(self, encoded: Elements) -> Elements:
        return encoded

    def wires(self, encoded: Elements, joint: Elements, shares: int) -> Elements:
        return np.stack([encoded, encoded], axis=-1)

    def gadget(self, wires: Elements) -> Elements:
        return self.field.mul(wires[..., 0], wires[..., 1])

    def output(self, encoded: Elements, outputs: Elements, shares: int) -> Elements:
        return self.field.sub(outputs, encoded)


class Sum(SumVec):
    """A number, of which each bit is checked by a call of its own of the polynomial x^2 - x."""

    arity = 1
    joint = 0

    def __init__(self, most: int, field: Field64) -> None:
        super().__init__(1, most, 1, field, most.bit_length())

    def encode(self, measurement: Any) -> Elements:
        return super().encode([measurement])

    def wires(self, encoded: Elements, joint: Elements, shares: int) -> Elements:
        return encoded[..., None]

    def gadget(self, wires: Elements) -> Elements:
        return self.field.sub(self.field.mul(wires[..., 0], wires[..., 0]), wires[..., 0])

    def output(self, encoded: Elements, outputs: Elements, shares: int) -> Elements:
        return outputs


class Histogram(SumVec):
    """A choice: bits of which one is set."""

    def __init__(self, length: int, chunk: int, field: Field64) -> None:
        super().__init__(length, 1, chunk, field, 2)

    def encode(self, measurement: Any) -> Elements:
        return super().encode([int(place == measurement) for place in range(self.length)])

    def output(self, encoded: Elements, outputs: Elements, shares: int) -> Elements:
        one = self.field.array(pow(shares, -1, self.field.modulus))
        ones = self.field.sub(self.field.total(encoded, axis=-1), one)
        return np.stack([self.field.total(outputs, axis=-1), ones], axis=-1)


def prio3_of(name: str, vector: dict[str, Any], small: Field64 = FIELD64) -> Prio3:
    """Return what a vector of this name is for."""
    number = {"Count": 1, "Sum": 2, "SumVec": 3, "Histogram": 4}[name]
    circuit: Any
    if name == "Count":
        circuit = Count(small)
    elif name == "Sum":
        circuit = Sum(vector["max_measurement"], small)
    elif name == "SumVec":
        circuit = SumVec(vector["length"], vector["max_measurement"], vector["chunk_length"], FIELD128)
    else:
        circuit = Histogram(vector["length"], vector["chunk_length"], FIELD128)
    return Prio3(circuit, number, 1, vector["shares"], bytes.fromhex(vector["ctx"]))

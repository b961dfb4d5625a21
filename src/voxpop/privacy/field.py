"""Arithmetic modulo 2^64 - 2^32 + 1, the Field64 of the VDAF draft, on arrays of 64-bit words.

With e = 2^32 - 1, the modulus is 2^64 - e. So 2^64 is e, and 2^96 is -1: a product of 128 bits is reduced by shifts,
one multiplication by e, and one addition or subtraction of e for each carry or borrow.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Elements = NDArray[Any]  # whole numbers from 0 to the modulus, which is not among them

HALF = np.uint64(32)
LOW = np.uint64(2**32 - 1)  # the low half of a word, and e


class Field64:
    """The field of 2^64 - 2^32 + 1 elements; tests have one of whole numbers of any size in its place."""

    modulus = 2**64 - 2**32 + 1
    size = 8  # bytes of an encoded element

    def array(self, numbers: Any) -> Elements:
        """Return whole numbers below the modulus as elements."""
        return np.array(numbers, dtype=np.uint64)

    def add(self, a: Elements, b: Elements) -> Elements:
        found = a + b
        return found + LOW * ((found < a) | (found >= self._modulus))  # modulo 2^64, adding e subtracts the modulus

    def sub(self, a: Elements, b: Elements) -> Elements:
        return a - b - LOW * (a < b)

    def mul(self, a: Elements, b: Elements) -> Elements:
        a, b = np.broadcast_arrays(a, b)
        a0, a1, b0, b1 = a & LOW, a >> HALF, b & LOW, b >> HALF
        low = a0 * b0
        middle = a0 * b1 + (low >> HALF)
        other = a1 * b0 + (middle & LOW)
        high = a1 * b1 + (middle >> HALF) + (other >> HALF)
        low = (other << HALF) | (low & LOW)
        # low + 2^64 high, where 2^64 is e and 2^96 is -1
        top, rest = high >> HALF, (high & LOW) * LOW
        found: Elements = low - top - LOW * (low < top)
        found += rest
        found += LOW * (found < rest)
        found += LOW * (found >= self._modulus)
        return found

    def total(self, a: Elements, axis: int) -> Elements:
        """Add elements up along an axis."""
        low, high = (part.sum(axis=axis, dtype=np.uint64) % self._modulus for part in (a & LOW, a >> HALF))
        return self.add(low, self.mul(high, self.array(2**32)))

    def words(self, data: bytes) -> Elements:
        """Return the numbers that these bytes hold, of which some may be no elements."""
        return np.frombuffer(data, dtype="<u8").astype(np.uint64)

    def encode(self, a: Elements) -> bytes:
        """Encode elements, the lowest byte of each first."""
        return a.astype("<u8").tobytes()

    _modulus = np.uint64(modulus)


def root_powers(field: Field64, order: int, count: int, inverse: bool = False) -> Elements:
    """Return the first powers of a root of unity, whose order is a power of two; 7 generates both fields' roots."""
    root = pow(7, (field.modulus - 1) // order, field.modulus)
    root = pow(root, -1, field.modulus) if inverse else root
    return field.array([pow(root, power, field.modulus) for power in range(count)])


def transform(field: Field64, values: Elements, inverse: bool = False) -> Elements:
    """Evaluate polynomials at the roots of unity, given their coefficients along the last axis; or the inverse."""
    size = values.shape[-1]
    places = np.zeros(1, dtype=int)
    while len(places) < size:
        places = np.concatenate([2 * places, 2 * places + 1])  # in reversed order of bits
    found, half = values[..., places], 1
    while half < size:
        pairs = found.reshape(*values.shape[:-1], size // (2 * half), 2, half)
        first = pairs[..., 0, :]
        second = field.mul(pairs[..., 1, :], root_powers(field, 2 * half, half, inverse))
        found = np.stack([field.add(first, second), field.sub(first, second)], axis=-2).reshape(values.shape)
        half *= 2
    return field.mul(found, field.array(pow(size, -1, field.modulus))) if inverse else found


def doubled(field: Field64, values: Elements) -> Elements:
    """Return the values of polynomials at twice as many roots of unity, given those at as many as coefficients."""
    size = values.shape[-1]
    shifted = field.mul(transform(field, values, inverse=True), root_powers(field, 2 * size, size))
    return np.stack([values, transform(field, shifted)], axis=-1).reshape(*values.shape[:-1], 2 * size)


def lagrange(field: Field64, points: Elements, size: int) -> Elements:
    """Return by which factors values at the roots of unity are to be multiplied, to add up to the value at a point.

    The factor of the root a is a / size times the product of point - b for all other roots b. (…, size)
    """
    roots = root_powers(field, size, size)
    gaps = field.sub(np.broadcast_to(points[..., None], (*points.shape, size)), roots)
    before = [np.broadcast_to(field.array(1), points.shape)]
    after = list(before)
    for place in range(size - 1):
        before.append(field.mul(before[-1], gaps[..., place]))
        after.append(field.mul(after[-1], gaps[..., size - 1 - place]))
    others = field.mul(np.stack(before, axis=-1), np.stack(after[::-1], axis=-1))
    return field.mul(others, field.mul(roots, field.array(pow(size, -1, field.modulus))))

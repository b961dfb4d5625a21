"""Prio3 of draft-irtf-cfrg-vdaf-20: a report in shares, with a proof that it is in range, which is checked in shares.

A measurement is encoded as field elements, for `SumVec` the bits of its numbers. A circuit, which is zero for every
measurement in range and for no other (up to a small chance), calls one gadget of degree two several times. The proof is
the polynomial of the gadget's outputs, in values at roots of unity, and a random seed for each of the gadget's wires.
The first server gets its shares as they are, every other one a seed from which it expands its own.

Each server evaluates its share of circuit and polynomials at a random point that devices cannot foresee: its verifier
share. Together they show that the polynomial is right at this point and the circuit zero, and nothing else: the wires'
seeds hide the rest. Nor can devices choose the circuit's randomness: it is a hash of all shares, which servers compare.

Servers work on many reports at a time; the first axis of arrays is the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from voxpop.errors import InputError
from voxpop.privacy.field import Elements, Field64, doubled, lagrange, root_powers

VERSION = 18  # of the draft's domain separation, which is older than the draft
SEED, NONCE = 32, 16  # bytes
MEASUREMENT, PROOF, JOINT, PROVE, QUERY, JOINT_SEED, JOINT_PART = range(1, 8)  # what a seed is expanded for


@dataclass(frozen=True)
class SumVec:
    """Vectors of numbers from 0 to `most`, whose bits are checked, `chunk` of them with each call of the gadget.

    The bits of a number weigh 1, 2, 4 and so on; the last weighs what makes `most` of all of them together. Tests have
    the draft's other circuits, which call one gadget of degree two as well.
    """

    numbers: int
    most: int
    chunk: int
    field: Field64
    checks: int = 1  # elements that must be zero

    @property
    def bits(self) -> int:
        return self.most.bit_length()

    @property
    def length(self) -> int:
        """The elements of an encoded measurement."""
        return self.numbers * self.bits

    @property
    def calls(self) -> int:
        """How often the gadget is called."""
        return -(-self.length // self.chunk)

    joint = calls  # the random elements of the circuit

    @property
    def arity(self) -> int:
        return 2 * self.chunk

    @cached_property
    def weights(self) -> list[int]:
        """What the bits of a number weigh."""
        powers = [2**bit for bit in range(self.bits - 1)]
        return [*powers, self.most - sum(powers)]

    def encode(self, measurement: Sequence[int]) -> Elements:
        """Encode a measurement, or refuse it."""
        bits: list[int] = []
        for number in map(int, measurement):
            if not 0 <= number <= self.most:
                raise InputError(f"a number to share is from 0 to {self.most}, got {number}; encode it again")
            last = int(number >= 2 ** (self.bits - 1))
            rest = number - last * self.weights[-1]
            bits += [rest >> bit & 1 for bit in range(self.bits - 1)] + [last]
        if len(bits) != self.length:
            raise InputError(f"{self.numbers} numbers are shared at a time, got {len(measurement)}; encode it again")
        return self.field.array(bits)

    def truncate(self, encoded: Elements) -> Elements:
        """Return what is added up of encoded measurements, or of shares of them."""
        bits = encoded.reshape(*encoded.shape[:-1], self.numbers, self.bits)
        return self.field.total(self.field.mul(bits, self.field.array(self.weights)), axis=-1)

    def wires(self, encoded: Elements, joint: Elements, shares: int) -> Elements:
        """Return the gadget's inputs, (…, calls, arity): r^j b and b - 1 / shares for the j-th bit b of a call."""
        field = self.field
        rest = _zeros(field, *encoded.shape[:-1], self.calls * self.chunk - self.length)
        bits = np.concatenate([encoded, rest], axis=-1).reshape(*encoded.shape[:-1], self.calls, self.chunk)
        powers = [joint]
        for _ in range(1, self.chunk):
            powers.append(field.mul(powers[-1], joint))
        scaled = field.mul(np.stack(powers, axis=-1), bits)
        lowered = field.sub(bits, field.array(pow(shares, -1, field.modulus)))
        pairs = np.stack([scaled, np.broadcast_to(lowered, scaled.shape)], axis=-1)
        return pairs.reshape(*scaled.shape[:-1], self.arity)

    def gadget(self, wires: Elements) -> Elements:
        """Evaluate the gadget on inputs along the last axis."""
        return self.field.total(self.field.mul(wires[..., ::2], wires[..., 1::2]), axis=-1)

    def output(self, encoded: Elements, outputs: Elements, shares: int) -> Elements:
        """Return what must be zero, (…, checks), given the gadget's outputs, (…, calls)."""
        return self.field.total(outputs, axis=-1)[..., None]


@dataclass(frozen=True)
class Verification:
    """What one server finds out about shares of reports by itself."""

    seeds: list[bytes]  # of the joint randomness, which the message must confirm
    verifiers: list[bytes]  # its verifier shares; empty for a share that is malformed


@dataclass(frozen=True)
class Prio3:
    """Prio3 with this circuit. The context separates applications."""

    circuit: SumVec
    algorithm: int
    proofs: int = 1
    shares: int = 2
    context: bytes = b"voxpop"

    @property
    def _size(self) -> int:
        """The roots of unity at which wires have their values: p of the draft."""
        return 1 << self.circuit.calls.bit_length()

    @property
    def _proof(self) -> int:
        """The elements of a proof: the wires' seeds, and values of a polynomial whose degree is 2 (p - 1)."""
        return self.circuit.arity + 2 * self._size - 1

    def upload_bytes(self, holder: int) -> int:
        """Return how many bytes a device sends to a server; the first server has number 0."""
        elements = self.circuit.length + self.proofs * self._proof
        return NONCE + self.public_bytes + (SEED if holder else elements * self.circuit.field.size) + self._seed_bytes

    @property
    def public_bytes(self) -> int:
        """The bytes of the public share."""
        return self.shares * self._seed_bytes

    @property
    def verifier_bytes(self) -> int:
        """The bytes of a verifier share."""
        return self.proofs * (self.circuit.arity + 2) * self.circuit.field.size + self._seed_bytes

    @property
    def random_bytes(self) -> int:
        """The random bytes that it takes to share a measurement."""
        return NONCE + self.shares * (SEED + self._seed_bytes)

    @property
    def _seed_bytes(self) -> int:
        return SEED if self.circuit.joint else 0

    # -- expanding seeds

    def _stream(self, usage: int, seed: bytes, binder: bytes = b"") -> Any:
        tag = bytes([VERSION, 0]) + self.algorithm.to_bytes(4, "big") + usage.to_bytes(2, "big") + self.context
        said = len(tag).to_bytes(2, "little") + tag + bytes([len(seed)]) + seed + binder
        return _turbo_shake()(domain=1, data=said)

    def _expand(self, count: int, usage: int, seeds: Sequence[bytes], binders: Sequence[bytes]) -> Elements:
        """Expand each seed into so many elements; numbers that are none are left out, as the draft says."""
        field = self.circuit.field
        rows = []
        for seed, binder in zip(seeds, binders, strict=True):
            stream = self._stream(usage, seed, binder)
            row = field.words(stream.read(count * field.size))
            while len(row := row[row < field.array(field.modulus)]) < count:
                row = np.concatenate([row, field.words(stream.read((count - len(row)) * field.size))])
            rows.append(row)
        return np.stack(rows) if rows else _zeros(field, 0, count)

    def _part(self, holder: int, blind: bytes, nonce: bytes, encoded: Elements) -> bytes:
        """Hash a share of the measurement into its part of the joint randomness."""
        said = bytes([holder]) + nonce + self.circuit.field.encode(encoded)
        return bytes(self._stream(JOINT_PART, blind, said).read(SEED))

    def _joint_seed(self, parts: bytes) -> bytes:
        return bytes(self._stream(JOINT_SEED, bytes(SEED), parts).read(SEED)) if parts else b""

    def _joint(self, seeds: Sequence[bytes]) -> Elements:
        """Return the random elements of the circuit, (reports, proofs, joint)."""
        found = self._expand(self.proofs * self.circuit.joint, JOINT, seeds, [bytes([self.proofs])] * len(seeds))
        return found.reshape(len(seeds), self.proofs, self.circuit.joint)

    def _expanded(self, holder: int, seeds: Sequence[bytes]) -> tuple[Elements, Elements]:
        """Expand the seeds of another server than the first to its shares of measurements and proofs."""
        encoded = self._expand(self.circuit.length, MEASUREMENT, seeds, [bytes([holder])] * len(seeds))
        binders = [bytes([self.proofs, holder])] * len(seeds)
        return encoded, self._expand(self.proofs * self._proof, PROOF, seeds, binders)

    # -- on the device

    def shard(self, measurement: Any, random: bytes) -> list[bytes]:
        """Share a measurement and proofs that it is in range, with fresh random bytes: a nonce, and seeds.

        What is sent to each server is the nonce, the public share, and the server's share.
        """
        if len(random) != self.random_bytes:
            raise InputError(f"a report takes {self.random_bytes} random bytes, got {len(random)}; draw as many")
        circuit, field, nonce = self.circuit, self.circuit.field, random[:NONCE]
        seeds = [random[start : start + SEED] for start in range(NONCE, len(random), SEED)]
        others, prove = range(1, self.shares), seeds.pop()
        leader_blind = seeds.pop() if circuit.joint else b""
        shares, blinds = (seeds[::2], seeds[1::2]) if circuit.joint else (seeds, [b""] * len(seeds))
        encoded = circuit.encode(measurement)
        wires = self._expand(self.proofs * circuit.arity, PROVE, [prove], [bytes([self.proofs])])
        first, parts = encoded, b""
        expanded = [self._expanded(holder, [share]) for holder, share in zip(others, shares, strict=True)]
        for holder, (theirs, _) in zip(others, expanded, strict=True):
            first = field.sub(first, theirs[0])
            parts += self._part(holder, blinds[holder - 1], nonce, theirs[0]) if circuit.joint else b""
        parts = self._part(0, leader_blind, nonce, first) + parts if circuit.joint else b""
        joint = self._joint([self._joint_seed(parts)])[0]
        proof = self._prove(encoded, wires.reshape(self.proofs, circuit.arity), joint).reshape(-1)
        for _, theirs in expanded:
            proof = field.sub(proof, theirs[0])
        leader = field.encode(first) + field.encode(proof) + leader_blind
        return [nonce + parts + share for share in (leader, *map(bytes.__add__, shares, blinds))]

    def _prove(self, encoded: Elements, seeds: Elements, joint: Elements) -> Elements:
        """Return the proofs, (proofs, elements), given the wires' seeds and the circuit's randomness for each."""
        repeated = np.broadcast_to(encoded, (self.proofs, len(encoded)))
        wires = self._padded(seeds, self.circuit.wires(repeated, joint, 1))  # (proofs, p, arity)
        values = doubled(self.circuit.field, np.moveaxis(wires, -1, -2))
        outputs = self.circuit.gadget(np.moveaxis(values, -1, -2))  # at all roots but the last, which follows
        return np.concatenate([seeds, outputs[..., :-1]], axis=-1)

    def _padded(self, seeds: Elements, wires: Elements) -> Elements:
        """Return the values of the wires' polynomials, (…, p, arity): their seeds, their inputs, and zeros."""
        rest = _zeros(self.circuit.field, *wires.shape[:-2], self._size - 1 - self.circuit.calls, self.circuit.arity)
        return np.concatenate([seeds[..., None, :], wires, rest], axis=-2)

    # -- on the servers

    @property
    def at_once(self) -> int:
        """How many reports are verified at a time, so that memory stays bounded."""
        return max(1, 2**17 // self.circuit.length)

    def outputs(self, holder: int, uploads: Sequence[bytes]) -> Elements:
        """Return a server's shares of what is added up, (reports, numbers); refuse a share of numbers too large."""
        encoded, proofs = self._encoded(holder, uploads)
        limit = self.circuit.field.array(self.circuit.field.modulus)
        if (encoded >= limit).any() or (proofs >= limit).any():
            raise InputError("a share holds a number that is too large for its field; share the report again")
        return self.circuit.truncate(encoded)

    def _encoded(self, holder: int, uploads: Sequence[bytes]) -> tuple[Elements, Elements]:
        """Return shares of measurements and of proofs."""
        shares = [sent[NONCE + self.public_bytes : len(sent) - self._seed_bytes] for sent in uploads]
        if holder:
            return self._expanded(holder, shares)
        elements = self.circuit.length + self.proofs * self._proof
        both = self.circuit.field.words(b"".join(shares)).reshape(len(shares), elements)
        return both[:, : self.circuit.length], both[:, self.circuit.length :]

    def verify(self, key: bytes, holder: int, uploads: Sequence[bytes]) -> Verification:
        """Compute a server's verifier shares of what devices sent to it, under a key that devices do not know."""
        circuit, field, count = self.circuit, self.circuit.field, len(uploads)
        nonces = [sent[:NONCE] for sent in uploads]
        blinds = [sent[len(sent) - self._seed_bytes :] for sent in uploads]
        encoded, proofs = self._encoded(holder, uploads)
        # Numbers that are no elements may be anything: such a report is not sound.
        whole = (encoded < field.array(field.modulus)).all(axis=-1) & (proofs < field.array(field.modulus)).all(axis=-1)
        parts, seeds = [b""] * count, [b""] * count
        if circuit.joint:
            parts = [self._part(holder, blinds[i], nonces[i], encoded[i]) for i in range(count)]
            mine, end = NONCE + holder * SEED, NONCE + self.public_bytes
            both = zip(uploads, parts, strict=True)
            seeds = [self._joint_seed(sent[NONCE:mine] + part + sent[mine + SEED : end]) for sent, part in both]
        binders = [bytes([self.proofs]) + nonce for nonce in nonces]
        points = 1 + (circuit.checks if circuit.checks > 1 else 0)
        queries = self._expand(self.proofs * points, QUERY, [key] * count, binders).reshape(count, self.proofs, points)
        verifiers = self._query(
            np.broadcast_to(encoded[:, None], (count, self.proofs, circuit.length)),
            proofs.reshape(count, self.proofs, self._proof),
            queries,
            self._joint(seeds),
        )
        # At a root of unity a verifier share would show the gadget's inputs.
        powers = queries[..., -1]
        for _ in range(self._size.bit_length() - 1):
            powers = field.mul(powers, powers)
        sound = (whole & (powers != field.array(1)).all(axis=-1)).tolist()
        encodings = [field.encode(verifiers[i]) + parts[i] if sound[i] else b"" for i in range(count)]
        return Verification(seeds, encodings)

    def _query(self, encoded: Elements, proofs: Elements, queries: Elements, joint: Elements) -> Elements:
        """Evaluate shares of circuit, wires and proofs at the random points, (reports, proofs, elements)."""
        circuit, field, size = self.circuit, self.circuit.field, self._size
        seeds, values = proofs[..., : circuit.arity], proofs[..., circuit.arity :]
        # The polynomial has one coefficient less than the roots: the sum of all values times their roots is zero.
        roots = root_powers(field, 2 * size, 2 * size)
        last = field.mul(field.total(field.mul(values, roots[:-1]), axis=-1), field.array(int(roots[1])))
        values = np.concatenate([values, field.sub(_zeros(field, *last.shape), last)[..., None]], axis=-1)
        outputs = values[..., 2 : 2 * circuit.calls + 1 : 2]
        checks = circuit.output(encoded, outputs, self.shares)
        if circuit.checks > 1:
            checks = field.total(field.mul(checks, queries[..., :-1]), axis=-1)[..., None]
        points = queries[..., -1]
        wires = self._padded(seeds, circuit.wires(encoded, joint, self.shares))
        at_point = field.total(field.mul(wires, lagrange(field, points, size)[..., None]), axis=-2)
        value = field.total(field.mul(values, lagrange(field, points, 2 * size)), axis=-1)[..., None]
        return np.concatenate([checks, at_point, value], axis=-1)

    def messages(self, *verifiers: Sequence[bytes]) -> list[bytes | None]:
        """Put verifier shares together: the seed that each server must have, too; None for a report out of range."""
        circuit, field, count = self.circuit, self.circuit.field, len(verifiers[0])
        size = self.verifier_bytes - self._seed_bytes
        whole = [all(len(share) == self.verifier_bytes for share in shares) for shares in zip(*verifiers, strict=True)]
        both = _zeros(field, count, self.proofs, circuit.arity + 2)
        for shares in verifiers:
            cut = [share[:size] if fits else bytes(size) for share, fits in zip(shares, whole, strict=True)]
            words = field.words(b"".join(cut)).reshape(both.shape)
            fits = np.all(words < field.array(field.modulus), axis=(1, 2))
            whole = [one and other for one, other in zip(whole, fits.tolist(), strict=True)]
            both = field.add(both, words)
        right = (both[..., 0] == field.array(0)) & (circuit.gadget(both[..., 1:-1]) == both[..., -1])
        good = right.all(axis=-1) & np.array(whole, dtype=bool)
        parts = [b"".join(share[size:] for share in shares) for shares in zip(*verifiers, strict=True)]
        return [self._joint_seed(part) if right else None for part, right in zip(parts, good, strict=True)]


@cache
def _turbo_shake() -> Any:
    try:
        from Crypto.Hash import TurboSHAKE128
    except ImportError:
        raise InputError("shared reports need pycryptodome; install it with: pip install 'voxpop[privacy]'") from None
    return TurboSHAKE128.new


def _zeros(field: Field64, *shape: int) -> Elements:
    return np.broadcast_to(field.array(0), shape)


PROOFS = 3  # because the field is small: docs/privacy.md says how hard they are to deceive
REPEATED = 0xFFFFFFFF  # the number that the draft leaves to variants such as this one


@lru_cache(maxsize=64)
def sum_vec(numbers: int, most: int) -> Prio3:
    """Return the sharing of vectors of numbers from 0 to `most`, with chunks for which proofs are short."""
    bits = numbers * most.bit_length()
    sizes = [1 << power for power in range(1, bits.bit_length() + 1)]  # calls and one seed fit into so many roots
    size = min(sizes, key=lambda size: 2 * -(-bits // (size - 1)) + 2 * size)
    return Prio3(SumVec(numbers, most, -(-bits // (size - 1)), Field64()), REPEATED, PROOFS)

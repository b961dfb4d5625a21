"""Arrays in the binary format of PostgreSQL: with them, one planned statement takes any number of rows.

The driver looks at every element to find the type of a list, which takes as long as storing a group of reports.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

HEAD = struct.Struct("!iiiii")  # dimensions, whether there is NULL, type of an element, length, first index
LENGTH = struct.Struct("!i")
BIGINT, BYTEA, TEXT = 20, 17, 25  # the numbers that PostgreSQL gives its types
ARRAYS = {BIGINT: 1016, BYTEA: 1001, TEXT: 1009}  # and those of their arrays


class _Encoded(bytes):
    """The bytes of an array; each type of element has a class of its own, by which the driver knows it."""


class _BigInts(_Encoded): ...


class _ByteStrings(_Encoded): ...


class _Texts(_Encoded): ...


def big_ints(values: Sequence[int]) -> bytes:
    """Encode whole numbers as bigint[]."""
    length = len(values)
    pairs = (part for value in values for part in (8, value))
    return _BigInts(HEAD.pack(1, 0, BIGINT, length, 1) + struct.pack("!" + "iq" * length, *pairs))


def byte_strings(values: Sequence[bytes]) -> bytes:
    """Encode byte strings as bytea[]."""
    return _ByteStrings(_variable(BYTEA, values))


def texts(values: Sequence[str]) -> bytes:
    """Encode strings as text[]."""
    return _Texts(_variable(TEXT, [value.encode() for value in values]))


def _variable(element: int, values: Sequence[bytes]) -> bytes:
    parts = [part for value in values for part in (LENGTH.pack(len(value)), value)]
    return HEAD.pack(1, 0, element, len(values), 1) + b"".join(parts)


class _Verbatim(Dumper):
    """Sends an array as it is."""

    format = Format.BINARY

    def dump(self, obj: Any) -> Buffer | None:
        return bytes(obj)


for encoded, element in ((_BigInts, BIGINT), (_ByteStrings, BYTEA), (_Texts, TEXT)):
    dumper = type(f"{encoded.__name__}Dumper", (_Verbatim,), {"oid": ARRAYS[element]})
    psycopg.adapters.register_dumper(encoded, dumper)

"""Arrays in PostgreSQL's binary format arrive as they were sent."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from voxpop.service.study.inbox import big_ints, byte_strings, texts


@pytest.mark.parametrize(
    ("encode", "kind", "values"),
    [
        (big_ints, "bigint", [1, -1, 0, 2**63 - 1, -(2**63)]),
        (big_ints, "bigint", []),
        (byte_strings, "bytea", [b"", b"\x00\xff", b"x" * 1000]),
        (byte_strings, "bytea", []),
        (texts, "text", ["", "tea", "Tee für zwei", "{},\"'"]),
        (texts, "text", []),
    ],
)
def test_what_is_sent_arrives(postgres: str, encode: Callable[[Any], bytes], kind: str, values: list[Any]) -> None:
    with closing(psycopg.connect(postgres)) as connection:
        row = connection.execute(f"SELECT %s::{kind}[], cardinality(%s)", (encode(values), encode(values))).fetchone()
    assert row == (values, len(values))

"""Arrays of byte strings arrive at PostgreSQL as they were sent."""

from contextlib import closing

import psycopg
import pytest

from voxpop.service.study.inbox import array_of


@pytest.mark.parametrize("values", [[], [b""], [b"", b"\x00\xff", b"x" * 1000, b"{},\"'\\"]])
def test_what_is_sent_arrives(postgres: str, values: list[bytes]) -> None:
    with closing(psycopg.connect(postgres)) as connection:
        assert connection.execute("SELECT %s::bytea[]", (array_of(values),)).fetchone() == (values,)

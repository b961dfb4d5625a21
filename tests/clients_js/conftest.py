"""One process of the other implementation for all questions of a module."""

from collections.abc import Iterator

import pytest

from tests.clients_js.oracle import Oracle, oracle


@pytest.fixture(scope="module")
def other() -> Iterator[Oracle]:
    """The implementation for browsers and Node."""
    with oracle() as started:
        yield started

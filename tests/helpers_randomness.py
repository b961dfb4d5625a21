"""Stand-ins for the operating system's generator and for OpenDP, to see what depends on them and on nothing else."""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import pytest
from opendp import measurements

from voxpop.privacy import sources

Drawn = TypeVar("Drawn")


class Sealed(dict[str, str]):
    """An environment that nobody may read."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("a draw depends on the environment")

    __getitem__ = __contains__ = __iter__ = get = items = keys = values = copy = _refuse


@contextmanager
def urandom(give: Callable[[int], bytes]) -> Iterator[None]:
    """Let the operating system's generator give these bytes; `secrets` takes them from a name in `random`."""
    with patch.object(os, "urandom", give), patch.object(random, "_urandom", give):
        yield


@contextmanager
def scripted(seed: int) -> Iterator[list[int]]:
    """Let the operating system's generator repeat itself; yield the list of how many bytes it was asked for."""
    script, asked = random.Random(seed), list[int]()

    def give(count: int) -> bytes:
        asked.append(count)
        return script.randbytes(count)

    with urandom(give):
        yield asked


def assert_from_the_operating_system(draw: Callable[[], Drawn], bits: int) -> None:
    """Check that a draw follows from the operating system's generator alone, and from at least this many bits of it.

    All other generators are seeded: in the same way if the operating system gives other bytes, and in another way if
    it gives the same ones.
    """

    def drawn(script: int, seed: int) -> Drawn:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        with scripted(script) as asked, patch.object(os, "environ", Sealed()):
            made = draw()
        assert 8 * sum(asked) >= bits, "too few random bits were asked for"
        return made

    first = drawn(script=1, seed=1)
    assert drawn(script=1, seed=2) == first
    assert drawn(script=2, seed=1) != first


@contextmanager
def opendp(numbers: Iterator[int]) -> Iterator[list[float]]:
    """Let OpenDP's Gaussian measurements give these numbers; yield the list of the scales that were asked for."""
    scales = list[float]()
    make: Any = measurements.make_gaussian

    def make_gaussian(*space: Any, scale: float) -> Callable[[Sequence[int]], list[int]]:
        # The real measurement exists, and hides a person who moves the sum by one as a Gaussian of this scale does.
        assert make(*space, scale=scale).map(1.0) == pytest.approx(1 / (2 * scale**2))
        scales.append(scale)

        def measure(zeros: Sequence[int]) -> list[int]:
            assert set(zeros) == {0}
            return [next(numbers) for _ in zeros]

        return measure

    sources._discrete_gaussian.cache_clear()
    try:
        with patch.object(measurements, "make_gaussian", make_gaussian):
            yield scales
    finally:
        sources._discrete_gaussian.cache_clear()

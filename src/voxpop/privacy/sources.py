"""Sources of noise: the operating system for real people, a NumPy generator for simulated ones.

`Secure` takes no seed and has no debug mode. `Simulated` must be chosen explicitly, with a generator; code that serves
real people never does so.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from voxpop.errors import Array, InputError

Integers = NDArray[np.int64]

MOST_NOISE = 2.0**55
BLOCK = 1_000_000


class Source(Protocol):
    """A source of integer noise: integers have no low-order bits through which a floating-point sampler would leak."""

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        """Draw discrete Gaussian noise of this standard deviation."""

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        """Draw numbers of successes."""

    def bernoulli(self, chances: Array) -> Integers:
        """Draw ones with the given chances, and zeros otherwise."""

    def bytes(self, count: int) -> bytes:
        """Draw random bytes."""


@dataclass(frozen=True)
class Simulated:
    """Noise for simulation: reproducible, and therefore no protection at all."""

    source: np.random.Generator | Callable[[], np.random.Generator]

    @cached_property
    def rng(self) -> np.random.Generator:
        """The generator, which is made on first use if the source is a function."""
        return self.source if isinstance(self.source, np.random.Generator) else self.source()

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        _check_size(std)
        return np.rint(self.rng.normal(0.0, std, size=(rows, columns))).astype(np.int64)

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        return self.rng.binomial(trials, chance, size=(rows, columns)).astype(np.int64)

    def bernoulli(self, chances: Array) -> Integers:
        return (self.rng.random(chances.shape) < chances).astype(np.int64)

    def bytes(self, count: int) -> bytes:
        return self.rng.bytes(count)


class Secure:
    """Noise for real people: OpenDP's exact discrete Gaussian, and the operating system's random bits."""

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        _check_size(std)
        measurement = _discrete_gaussian(std)
        return np.array([measurement([0] * columns) for _ in range(rows)], dtype=np.int64)

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        draw = partial(self._trials, chance=chance) if chance != 0.5 else _coins
        cells = max(1, BLOCK // trials)  # at a time, so that memory stays bounded; the order of the bytes is the same
        counts = [draw(min(cells, rows * columns - start), trials) for start in range(0, rows * columns, cells)]
        return np.concatenate(counts).reshape(rows, columns)

    def _trials(self, cells: int, trials: int, chance: float) -> Integers:
        """Count the successes of trials with any chance, a few at a time."""
        total = np.zeros(cells, dtype=np.int64)
        for start in range(0, trials, BLOCK):
            total += self.bernoulli(np.full((cells, min(BLOCK, trials - start)), chance)).sum(axis=1)
        return total

    def bernoulli(self, chances: Array) -> Integers:
        words = np.frombuffer(os.urandom(8 * chances.size), dtype=np.uint64).reshape(chances.shape)
        return ((words >> np.uint64(11)).astype(float) * 2.0**-53 < chances).astype(np.int64)

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)


def _coins(cells: int, trials: int) -> Integers:
    """Count the ones among fair coins, which are random bits: exact, and a word of 64 bits is 64 of them."""
    coins = np.frombuffer(os.urandom(cells * -(-trials // 8)), dtype=np.uint8).reshape(cells, -1).copy()
    if trials % 8:
        coins[:, -1] &= 2 ** (trials % 8) - 1
    return np.asarray(np.bitwise_count(coins).sum(axis=1), dtype=np.int64)


def _check_size(std: float) -> None:
    if std > MOST_NOISE:
        raise InputError(f"noise of {std:.3g} steps does not fit 64 bits; ask for a larger epsilon or delta")


@lru_cache(maxsize=256)
def _discrete_gaussian(std: float) -> Any:
    try:
        import opendp.prelude as dp
    except ImportError:
        raise InputError("private releases need opendp; install it with: pip install 'voxpop[privacy]'") from None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return dp.m.make_gaussian(*space, scale=std)

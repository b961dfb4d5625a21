"""Random streams of a simulation: one for each role and wave, independent of what the others draw.

The stream of (seed, role, wave) is NumPy's `PCG64(SeedSequence(seed, spawn_key=(role, wave)))`. A policy may have a
wave every round, and making that sequence takes longer than the round does; so the words with which it seeds a
generator are computed for many waves at once. A test compares them with NumPy's. A wave that is drawn in chunks, side
by side, has a stream for each: that of `spawn_key=(role, wave, chunk)`.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise, repeat
from typing import Any, cast

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from voxpop.errors import require_integer

NAMES = ("layout", "truth", "people", "pilot", "devices", "agent", "order", "schedule", "weather")
ROLES = {name: number for number, name in enumerate(NAMES)}
WORD = 2**32
BLOCK = 256  # waves whose words are computed together

Words = NDArray[np.uint32]


def stream(seed: int, role: str, wave: int = 0, chunk: int | None = None) -> np.random.Generator:
    """Return the random generator of one role in one wave, or in one chunk of it."""
    require_integer("seed", seed, least=0)
    key = ROLES[role]
    if chunk is not None:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key, wave, chunk))))
    if seed < WORD and 0 <= wave < WORD:
        block, place = divmod(wave, BLOCK)
        return np.random.Generator(np.random.PCG64(cast(Any, Seeded(_seeds(seed, key, block)[place]))))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key, wave))))


class Seeded(ISeedSequence):
    """A seed sequence whose words are known."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[np.uint64]:
        """Return the words; a PCG64 asks for four of 64 bits."""
        return self._words


@lru_cache(maxsize=16)
def _seeds(seed: int, key: int, block: int) -> NDArray[np.uint64]:
    """Compute what `SeedSequence(seed, spawn_key=(key, wave)).generate_state(4, uint64)` is for a block of waves."""
    waves = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.uint32)
    entropy = [np.full(BLOCK, word, dtype=np.uint32) for word in (seed, 0, 0, 0, key)] + [waves]
    powers = _powers(0x43B0D7E5, 0x931E8875)
    pool = [_hash(word, powers) for word in entropy[:4]]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = _mix(pool[target], _hash(pool[source], powers))
    for word in entropy[4:]:
        pool = [_mix(part, _hash(word, powers)) for part in pool]
    powers = _powers(0x8B51F9DD, 0x58F38DED)
    return np.stack([_hash(pool[i % 4], powers) for i in range(8)], axis=1).astype("<u4").view("<u8")


def _powers(start: int, factor: int) -> Iterator[tuple[np.uint32, np.uint32]]:
    """Yield successive pairs of start, start * factor, start * factor^2, ... modulo 2^32."""
    return pairwise(map(np.uint32, accumulate(repeat(factor), lambda x, y: x * y % WORD, initial=start)))


def _hash(words: Words, powers: Iterator[tuple[np.uint32, np.uint32]]) -> Words:
    """Hash words with the next pair of powers."""
    first, second = next(powers)
    hashed = (words ^ first) * second
    return np.asarray(hashed ^ (hashed >> np.uint32(16)))


def _mix(x: Words, y: Words) -> Words:
    """Mix two words into one."""
    mixed = np.uint32(0xCA01F9DD) * x - np.uint32(0x4973F715) * y
    return np.asarray(mixed ^ (mixed >> np.uint32(16)))

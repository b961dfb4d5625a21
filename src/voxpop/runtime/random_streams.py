"""Random streams of a simulation: one for each role and phase, independent of what the others draw."""

import numpy as np

from voxpop.core.errors import require_integer

ROLES = {"layout": 0, "truth": 1, "people": 2, "pilot": 3, "devices": 4, "agent": 5}
WORD = 2**32


def stream(seed: int, role: str, phase: int = 0) -> np.random.Generator:
    """Return the random generator of one role in one phase."""
    require_integer("seed", seed, least=0)
    key = ROLES[role]
    if seed < WORD and 0 <= phase < WORD:
        # These are the words that NumPy assembles from a seed and a spawn key; passing them directly is faster.
        words = np.array((seed, 0, 0, 0, key, phase), dtype=np.uint32)
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key, phase))))

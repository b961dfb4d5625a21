"""Random streams of a simulation: one for each role and phase, independent of what the others drew."""

import numpy as np

from voxpop.errors import require_integer

ROLES = {"layout": 0, "truth": 1, "users": 2, "pilot": 3, "devices": 4, "agent": 5}


def stream(seed: int, role: str, phase: int = 0) -> np.random.Generator:
    """The generator of one role in one phase."""
    require_integer("seed", seed, least=0)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(ROLES[role], phase))))

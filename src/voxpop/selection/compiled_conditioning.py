"""Conditioning on batches in machine code.

Import this only where numba is installed: see `factor.fastest_conditioning`.
"""

from __future__ import annotations

import numpy as np

from voxpop.core.errors import Array, Numbers
from voxpop.runtime.compiling import compiled

STRIP = 512  # actions that are conditioned together


@compiled
def narrow(wide: Numbers, out: Numbers, flush: float) -> None:
    """Round to the precision of `out`; numbers smaller than `flush` become zero."""
    for i in range(len(wide)):
        for j in range(wide.shape[1]):
            value = wide[i, j]
            out[i, j] = value if abs(value) >= flush else 0.0


@compiled
def condition(root: Numbers, columns: Numbers, variance: Array, flush: float) -> None:
    """Solve root V' = columns in place, (batches, actions), and subtract the squares of V from the variances.

    It takes a few hundred actions at a time, so that their numbers stay in the fastest cache.
    """
    batches, actions = columns.shape
    number = root.dtype.type  # mixed precision would not run on vector registers
    one, zero, least = number(1.0), number(0.0), number(flush)
    for left in range(0, actions, STRIP):
        right = min(left + STRIP, actions)
        rest = variance[left:right]
        for i in range(batches):
            row = columns[i, left:right]
            for k in range(i):
                factor, other = root[i, k], columns[k, left:right]
                for j in range(len(row)):
                    row[j] -= factor * other[j]
            scale = one / root[i, i]
            for j in range(len(row)):
                value = row[j] * scale
                row[j] = value if abs(value) >= least else zero
            for j in range(len(row)):
                wide = np.float64(row[j])
                rest[j] -= wide * wide
        for j in range(len(rest)):
            rest[j] = max(rest[j], 0.0)

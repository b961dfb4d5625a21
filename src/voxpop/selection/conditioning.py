"""Conditioning many actions on batches: the two loops over the whole factor V.

The code here is readable; `compiled_conditioning` does the same for large problems, one strip of actions at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import get_blas_funcs

from voxpop.core.errors import Array, Numbers


def narrow(wide: Numbers, out: Numbers, flush: float) -> None:
    """Round to the precision of `out`; numbers smaller than `flush` become zero."""
    out[:] = np.where(np.abs(wide) < flush, 0.0, wide)


def condition(root: Numbers, columns: Numbers, variance: Array, flush: float) -> None:
    """Solve root V' = columns in place, (batches, actions), and subtract the squares of V from the variances."""
    # In place: BLAS stores matrices by columns, so it sees these as transposes.
    solve = get_blas_funcs("trsm", (columns,))
    solve(1.0, root, columns.T, side=1, lower=1, trans_a=1, overwrite_b=1)
    columns[np.abs(columns) < flush] = 0.0
    variance -= np.einsum("ij,ij->j", columns, columns, dtype=np.float64)
    np.maximum(variance, 0.0, out=variance)


@dataclass(frozen=True)
class Conditioning:
    """The code that rounds numbers and conditions on batches."""

    narrow: Callable[[Numbers, Numbers, float], None]
    condition: Callable[[Numbers, Numbers, Array, float], None]


PLAIN_CONDITIONING = Conditioning(narrow, condition)

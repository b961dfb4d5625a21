"""Squared distances in machine code. Import this only where numba is installed: see `distances.fast_distances`."""

from voxpop.errors import Array
from voxpop.runtime.machine import exactly


@exactly
def squared_distances(x: Array, y: Array, rates: Array, out: Array) -> None:
    """Compute squared distances as `plain_distances` does, to the last bit."""
    for i in range(len(x)):
        row = out[i]
        for k in range(len(rates)):
            left, rate, right = x[i, k], rates[k], y[:, k]
            if k == 0:
                for j in range(len(right)):
                    step = (left - right[j]) * rate
                    row[j] = step * step
            else:
                for j in range(len(right)):
                    step = (left - right[j]) * rate
                    row[j] += step * step

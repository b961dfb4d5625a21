"""What a selection computes, counted: it depends on the problem alone, while seconds depend on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from voxpop.errors import Array
from voxpop.gp.factor import Factor
from voxpop.gp.posterior import DensePosterior


@dataclass
class Effort:
    """Operations so far."""

    flops: float = 0.0
    kernel_values: int = 0

    def column(self, actions: int, before: int) -> None:
        """Count one more column of the factor of some actions."""
        self.kernel_values += actions
        self.flops += 2.0 * actions * (before + 1)

    def columns(self, actions: int, start: int, stop: int) -> None:
        """Count some more columns."""
        for before in range(start, stop):
            self.column(actions, before)


@contextmanager
def counted() -> Iterator[Effort]:
    """Count what lazy selection computes inside a context, action by action and column by column."""
    effort = Effort()
    extend, observe = Factor.extend, DensePosterior.observe

    def extended(self: Factor, root: Array, arms: list[int]) -> None:
        effort.columns(self.size, self.columns, len(arms))
        extend(self, root, arms)

    def observed(self: DensePosterior, position: int, rounds: int) -> None:
        effort.column(len(self.candidates), len(self.factor))
        observe(self, position, rounds)

    with patch.object(Factor, "extend", extended), patch.object(DensePosterior, "observe", observed):
        yield effort

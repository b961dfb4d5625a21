"""How far a reproduction is, on a terminal and in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from voxpop.cli import display

LINES = 20  # of progress, where there is no terminal to draw a bar on


@contextmanager
def counted_progress(total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show how much is done, as the function that is yielded counts it: a bar, or a line now and then."""
    quiet, done = not display.errors.is_terminal, 0

    def advance(count: int) -> None:
        nonlocal done
        before, done = done, done + count
        if quiet and done * LINES // total > before * LINES // total:
            say()
        bar.advance(task, count)

    def say() -> None:
        display.errors.print(f"{done:,} of {total:,} {unit}", highlight=False, soft_wrap=True)

    with display.progress(total, unit) as (bar, task):
        if quiet and total > 1:
            say()
        yield advance

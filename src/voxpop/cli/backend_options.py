"""What commands that compute many runs share: their options, and a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated, Protocol, TypeVar

import typer

from voxpop.cli.display import progress
from voxpop.errors import InputError
from voxpop.simulation.sweep import Backend, sweep

WORTHWHILE = 4.0  # seconds of work from which starting worker processes pays off

BackendOption = Annotated[
    str, typer.Option(help="Where to compute: local, or an installed cluster backend such as dask.")
]
AddressOption = Annotated[str | None, typer.Option(help="The scheduler of the cluster, such as tcp://HOST:8786.")]
JobsOption = Annotated[int | None, typer.Option(help="Processes on this machine; all cores unless given.")]
DataOption = Annotated[
    Path | None, typer.Option(help="A folder of light-sensor readings, to use instead of the shipped figures.")
]


class Repeatable(Protocol):
    """A description of one run."""

    @property
    def policy(self) -> str: ...

    @property
    def seed(self) -> int: ...


Described = TypeVar("Described", bound=Repeatable)
Result = TypeVar("Result")


def run_all(
    function: Callable[[Described], Result], trials: Sequence[Described], where: Backend
) -> dict[Described, Result]:
    """Do every run with a progress bar; the first one runs here, so that a bad choice is reported at once."""
    begin = perf_counter()
    results = {trials[0]: function(trials[0])}
    if where == Backend() and (perf_counter() - begin) * len(trials) < WORTHWHILE:
        where = Backend(jobs=1)
    with progress(len(trials), "runs") as (bar, task):
        bar.advance(task)
        for done in sweep(function, trials[1:], where):
            if done.result is None:
                trial = done.item
                raise InputError(f"the run of policy {trial.policy!r} with seed {trial.seed} failed: {done.error}")
            results[done.item] = done.result
            bar.advance(task)
    return results

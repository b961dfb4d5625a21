"""A wave that outgrows one process: people answer in chunks, on all cores of this machine or on a cluster.

Every chunk has random streams of its own, and its tally is a few whole numbers. So it does not matter which worker
draws which chunk, nor in which order the tallies are added: the total is the same to the last bit. On Dask they are
added up on the workers, a few at a time, so that no process ever holds more than a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial, reduce
from operator import add

from voxpop.errors import InputError
from voxpop.journal.wave import Wave
from voxpop.model.waves import Tally
from voxpop.privacy import Simulated
from voxpop.privacy.crowds import chunks
from voxpop.runtime.random_streams import stream
from voxpop.simulation.simulator import FinitePopulation, Population, ask
from voxpop.simulation.sweep import Backend, dask_client, sweep

FAN = 8  # tallies that are added up at a time

Chunk = tuple[int, int]  # its number, and how many people are in it


def collect_in_chunks(wave: Wave, population: Population, seed: int, backend: Backend | None = None) -> Tally:
    """Ask the people of a wave, every one of them, and add their reports up wherever the backend computes.

    The people are others than those of `drivers.simulate.collect`, whose one stream cannot be drawn side by side.
    """
    if isinstance(population, FinitePopulation):
        raise InputError(
            f"a list of {len(population):,} people cannot be asked in chunks that do not know of each other; "
            "simulate them in one process"
        )
    people = list(enumerate(chunks(wave.plan.people, len(wave.plan.arms))))
    return added(partial(tally_of, wave, population, seed), people, backend or Backend())


def tally_of(wave: Wave, population: Population, seed: int, chunk: Chunk) -> Tally:
    """Ask the people of one chunk and add their reports up."""
    number, people = chunk
    rng, noise = (partial(stream, seed, role, wave.plan.wave, number) for role in ("people", "devices"))
    return ask(wave, population, people, rng(), Simulated(noise))


def added(function: Callable[[Chunk], Tally], people: Sequence[Chunk], backend: Backend) -> Tally:
    """Add up what a function makes of every chunk."""
    if backend.name == "dask":
        return _on_dask(function, people, str(backend.address))
    parts = list[Tally]()
    for done in sweep(function, people, backend):
        if done.result is None:
            raise InputError(f"chunk {done.item[0]} of the wave failed: {done.error}")
        parts = [reduce(add, [*parts, done.result])]
    return parts[0]


def _on_dask(function: Callable[[Chunk], Tally], people: Sequence[Chunk], address: str) -> Tally:
    with closing(dask_client(address)) as client:
        from distributed import KilledWorker

        parts = client.map(function, people, pure=False)
        while len(parts) > 1:
            groups = [parts[start : start + FAN] for start in range(0, len(parts), FAN)]
            parts = client.map(partial(reduce, add), groups, pure=False)
        try:
            total: Tally = parts[0].result()
        except KilledWorker:
            raise InputError(
                "the workers that drew a chunk of the wave died, perhaps for lack of memory; give each more of it"
            ) from None
        return total

"""voxpop on a Dask cluster: sweeps of many runs, and waves of more people than one process can draw.

Installed beside voxpop, it is the backend `dask`: voxpop compare pricing --backend dask --address tcp://HOST:8786.

A wave that outgrows one process is asked in chunks. Every chunk has random streams of its own, and its tally is a few
whole numbers. So it does not matter which worker draws which chunk, nor in which order the tallies are added: the total
is the same to the last bit. They are added up on the workers, a few at a time, so that no process ever holds more than
a few of them.
"""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial, reduce
from operator import add
from typing import Any, TypeVar

from distributed import Client, KilledWorker, as_completed

from voxpop.errors import InputError
from voxpop.journal.wave import Wave
from voxpop.model.waves import Tally
from voxpop.privacy import Simulated
from voxpop.privacy.crowds import chunks
from voxpop.runtime.random_streams import stream
from voxpop.simulation.simulator import FinitePopulation, Population, ask
from voxpop.simulation.sweep import LOCAL, Backend, SweepResult, attempt
from voxpop.simulation.sweep import sweep as sweep_anywhere

PATIENCE = 10  # seconds to wait for a cluster
FAN = 8  # tallies that are added up at a time

Item = TypeVar("Item")
Result = TypeVar("Result")
Chunk = tuple[int, int]  # its number, and how many people are in it


def sweep(
    function: Callable[[Item], Result], items: Sequence[Item], address: str
) -> Iterator[SweepResult[Item, Result]]:
    """Apply a function to every item, and yield each as soon as it is done, in any order.

    It uses Dask's own client: joblib's never returns when a worker dies or cannot load the function.
    """
    with closing(client_of(address)) as client:
        futures = {client.submit(attempt, function, item, pure=False): item for item in items}
        try:
            for future in as_completed(list(futures), loop=client.loop):  # type: ignore[no-untyped-call]
                if future.status == "finished":
                    yield future.result()
                else:
                    yield SweepResult(futures[future], error=_line(future.exception() or RuntimeError(future.status)))
        finally:
            client.cancel(list(futures))


def collect_in_chunks(wave: Wave, population: Population, seed: int, backend: Backend | None = None) -> Tally:
    """Ask the people of a wave, every one of them, and add their reports up wherever the backend computes.

    The people are others than those of the simulator, whose one stream cannot be drawn side by side.
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
    if backend.name != LOCAL:
        return _added_there(function, people, str(backend.address))
    parts = list[Tally]()
    for done in sweep_anywhere(function, people, backend):
        if done.result is None:
            raise InputError(f"chunk {done.item[0]} of the wave failed: {done.error}")
        parts = [reduce(add, [*parts, done.result])]
    return parts[0]


def _added_there(function: Callable[[Chunk], Tally], people: Sequence[Chunk], address: str) -> Tally:
    with closing(client_of(address)) as client:
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


def client_of(address: str) -> Any:
    """Return a client of a cluster that has a worker at least, or say what is missing."""
    _require_listener(address)
    try:
        client: Any = Client(address, timeout=PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise _unreachable(address, error) from None
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        client.close()
        raise InputError(
            f"the Dask scheduler at {address!r} has no workers; start one: dask worker {address}"
        ) from None
    return client


def _require_listener(address: str) -> None:
    """Refuse an address where nobody listens, before Dask tries for long."""
    scheme, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if scheme not in ("", "tcp") or not host or not port.isdigit():
        raise InputError(f"the address of a Dask scheduler is HOST:PORT, got {address!r}; such as tcp://127.0.0.1:8786")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> InputError:
    return InputError(f"no Dask scheduler at {address!r} ({_line(error)}); start one, or correct the address")


def _line(error: BaseException) -> str:
    """Return the first line of a library's error message."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__

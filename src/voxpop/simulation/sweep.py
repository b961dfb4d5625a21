"""Many runs side by side: on all cores of this machine, or on a cluster for which a package is installed."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from multiprocessing import resource_tracker
from typing import Generic, TypeVar
from warnings import catch_warnings, simplefilter

from voxpop.errors import InputError, require_integer

Item = TypeVar("Item")
Result = TypeVar("Result")

LOCAL = "local"
# Entry points of this group are generators like `sweep`, with the address of a cluster in place of the backend.
GROUP = "voxpop.backends"


def clusters() -> dict[str, EntryPoint]:
    """Return the backends of packages that are installed beside voxpop, by name."""
    return {found.name: found for found in entry_points(group=GROUP)}


@dataclass(frozen=True)
class Backend:
    """Where runs are computed."""

    name: str = LOCAL
    address: str | None = None  # of the cluster's scheduler
    jobs: int | None = None  # processes on this machine; all cores unless given

    def __post_init__(self) -> None:
        if self.name != LOCAL and self.name not in (known := clusters()):
            raise InputError(
                f"unknown backend {self.name!r}; known: {', '.join((LOCAL, *sorted(known)))}; dask comes with: "
                "pip install voxpop-dask"
            )
        if self.jobs is not None:
            require_integer("jobs", self.jobs, least=1)
        if self.name == LOCAL and self.address is not None:
            raise InputError(f"address {self.address!r} needs a cluster; add --backend, such as --backend dask")
        if self.name != LOCAL and self.address is None:
            raise InputError(f"the {self.name} backend needs its cluster's address, such as --address tcp://HOST:8786")


@dataclass(frozen=True)
class SweepResult(Generic[Item, Result]):
    """An item with its result, or with what went wrong."""

    item: Item
    result: Result | None = None
    error: str = ""


def sweep(
    function: Callable[[Item], Result], items: Sequence[Item], backend: Backend | None = None
) -> Iterator[SweepResult[Item, Result]]:
    """Apply a function to every item, and yield each as soon as it is done, in any order.

    An item that fails is reported like the others. What was yielded stays valid if the rest fails.

    >>> sorted(done.result for done in sweep(abs, [-1, 2], Backend(jobs=1)))
    [1, 2]
    """
    backend = backend or Backend()
    if items and backend.name == LOCAL:
        yield from _here(function, items, backend.jobs)
    elif items:
        yield from clusters()[backend.name].load()(function, items, backend.address)


def _here(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int | None
) -> Iterator[SweepResult[Item, Result]]:
    """Work on the cores of this machine."""
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    jobs = -1 if jobs is None else jobs
    with _uninterrupted() if jobs != 1 else nullcontext():  # the workers that start here leave Ctrl-C to us
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
        running = parallel(delayed(attempt)(function, item) for item in items)
    try:
        for done in running:  # noqa: UP028  `yield from` would close it before the warning is silenced
            yield done
    except BrokenProcessPool as error:
        raise InputError(
            f"a worker process died ({error.__class__.__name__}), perhaps for lack of memory; what was finished is "
            "kept: run the command again, with fewer --jobs"
        ) from None
    finally:
        with catch_warnings():  # about runs that are given up
            simplefilter("ignore", UserWarning)
            running.close()


def attempt(function: Callable[[Item], Result], item: Item) -> SweepResult[Item, Result]:
    """Apply the function to an item, and keep its result or its error."""
    try:
        return SweepResult(item, function(item))
    except Exception as error:  # one failed run must not lose the others
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        return SweepResult(item, error=f"{kind}{error}")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Make Ctrl-C wait inside a context: for this thread, and for good in the processes that it starts.

    The standard library's resource tracker lets signals through again when it starts, so it must be running before.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

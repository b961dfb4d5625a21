"""Many runs side by side: on all cores of this machine, or on a Dask or Ray cluster."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any, Generic, TypeVar
from warnings import catch_warnings, simplefilter

from voxpop.errors import InputError, require_choice, require_integer

Item = TypeVar("Item")
Result = TypeVar("Result")

BACKENDS = ("local", "dask", "ray")
PATIENCE = 10  # seconds to wait for a cluster
BLOCK = 256


@dataclass(frozen=True)
class Backend:
    """Where runs are computed."""

    name: str = "local"
    address: str | None = None  # of the cluster's scheduler
    jobs: int | None = None  # processes on this machine; all cores unless given

    def __post_init__(self) -> None:
        require_choice("backend", self.name, BACKENDS)
        if self.jobs is not None:
            require_integer("jobs", self.jobs, least=1)
        if self.name == "local" and self.address is not None:
            raise InputError(f"address {self.address!r} needs a cluster; add --backend dask or ray")
        if self.name == "dask" and self.address is None:
            raise InputError("the dask backend needs the address of its scheduler, such as --address tcp://HOST:8786")


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
    if items:
        yield from {"local": _here, "dask": _on_dask, "ray": _on_ray}[backend.name](function, items, backend)


def _here(
    function: Callable[[Item], Result], items: Sequence[Item], backend: Backend
) -> Iterator[SweepResult[Item, Result]]:
    """Work on the cores of this machine."""
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    jobs = -1 if backend.jobs is None else backend.jobs
    with _uninterrupted() if jobs != 1 else nullcontext():  # the workers that start here leave Ctrl-C to us
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
        running = parallel(delayed(_attempt)(function, item) for item in items)
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


def _on_ray(
    function: Callable[[Item], Result], items: Sequence[Item], backend: Backend
) -> Iterator[SweepResult[Item, Result]]:
    """Work a block at a time: Ray's joblib backend returns lists only."""
    from joblib import Parallel, delayed, parallel_config

    _start_ray(backend.address)
    jobs = -1 if backend.jobs is None else backend.jobs
    for start in range(0, len(items), BLOCK):
        block = items[start : start + BLOCK]
        with parallel_config(backend="ray"):
            found = Parallel(n_jobs=jobs)(delayed(_attempt)(function, item) for item in block)
        yield from found


def _on_dask(
    function: Callable[[Item], Result], items: Sequence[Item], backend: Backend
) -> Iterator[SweepResult[Item, Result]]:
    """Work through Dask's own client: joblib's never returns when a worker dies or cannot load the function."""
    with closing(dask_client(str(backend.address))) as client:
        from distributed import as_completed

        futures = {client.submit(_attempt, function, item, pure=False): item for item in items}
        try:
            for future in as_completed(list(futures), loop=client.loop):  # type: ignore[no-untyped-call]
                if future.status == "finished":
                    yield future.result()
                else:
                    yield SweepResult(futures[future], error=_line(future.exception() or RuntimeError(future.status)))
        finally:
            client.cancel(list(futures))


def _attempt(function: Callable[[Item], Result], item: Item) -> SweepResult[Item, Result]:
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


def dask_client(address: str) -> Any:
    """Return a client of a Dask cluster that has a worker at least, or say what is missing."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError("the dask backend needs Dask; install it with: pip install 'voxpop[cluster]'") from None
    _require_listener("Dask scheduler", address)
    try:
        client: Any = Client(address, timeout=PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise _unreachable("Dask scheduler", address, error) from None
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        client.close()
        raise InputError(
            f"the Dask scheduler at {address!r} has no workers; start one: dask worker {address}"
        ) from None
    return client


def _start_ray(address: str | None) -> None:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise InputError("the ray backend needs Ray; install it with: pip install ray") from None
    if address is not None and address != "auto":
        _require_listener("Ray cluster", address)  # Ray itself keeps trying for minutes
    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreachable("Ray cluster", address, error) from None
    register_ray()


def _require_listener(kind: str, address: str) -> None:
    """Refuse an address where nobody listens, before a library tries for long."""
    scheme, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if scheme not in ("", "tcp", "ray") or not host or not port.isdigit():
        raise InputError(f"the address of a {kind} is HOST:PORT, got {address!r}; such as tcp://127.0.0.1:8786")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(kind, address, error) from None


def _unreachable(kind: str, address: str | None, error: Exception) -> InputError:
    return InputError(f"no {kind} at {address!r} ({_line(error)}); start one, or correct the address")


def _line(error: BaseException) -> str:
    """Return the first line of a library's error message."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__

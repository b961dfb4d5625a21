"""Many runs side by side: on all cores of this machine, or on a Dask or Ray cluster by name."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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
class Done(Generic[Item, Result]):
    """An item with its result, or with what went wrong."""

    item: Item
    result: Result | None = None
    error: str = ""


def sweep(
    function: Callable[[Item], Result], items: Sequence[Item], backend: Backend | None = None
) -> Iterator[Done[Item, Result]]:
    """Apply a function to every item, and yield each as soon as it is done, in any order.

    An item that fails is reported like the others. What was yielded is safe whatever happens to the rest.

    >>> sorted(done.result for done in sweep(abs, [-1, 2], Backend(jobs=1)))
    [1, 2]
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    backend = backend or Backend()
    with _connected(backend):
        jobs = -1 if backend.jobs is None else backend.jobs
        try:
            if backend.name == "ray":  # its joblib backend returns lists only, so results come a block at a time
                for start in range(0, len(items), BLOCK):
                    block = items[start : start + BLOCK]
                    yield from Parallel(n_jobs=jobs)(delayed(_attempt)(function, item) for item in block)
            else:
                parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
                with closing(parallel(delayed(_attempt)(function, item) for item in items)) as found:
                    yield from found
        except BrokenProcessPool as error:
            raise InputError(
                f"a worker process died ({error.__class__.__name__}), perhaps for lack of memory; what was finished "
                "is kept: run the command again, with fewer --jobs"
            ) from None


def _attempt(function: Callable[[Item], Result], item: Item) -> Done[Item, Result]:
    try:
        return Done(item, function(item))
    except Exception as error:  # one failed run must not lose the others
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        return Done(item, error=f"{kind}{error}")


@contextmanager
def _connected(backend: Backend) -> Iterator[None]:
    """Let joblib use the cluster, if one is named."""
    from joblib import parallel_config

    if backend.name == "local":
        yield
    elif backend.name == "dask":
        with closing(_dask_client(str(backend.address))) as client, parallel_config(backend="dask", client=client):
            yield
    else:
        _start_ray(backend.address)
        with parallel_config(backend="ray"):
            yield


def _dask_client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise InputError("the dask backend needs Dask; install it with: pip install 'voxpop[cluster]'") from None
    try:
        client: Any = Client(address, timeout=PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler at {address!r} ({_line(error)}); start one, or mend the address") from None
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
    try:
        if address is not None and ":" in address:  # Ray itself keeps trying for minutes
            host, port = address.removeprefix("ray://").rsplit(":", 1)
            socket.create_connection((host, int(port)), PATIENCE).close()
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"no Ray cluster at {address!r} ({_line(error)}); start one, or mend the address") from None
    register_ray()


def _line(error: BaseException) -> str:
    """The first line of what a library says."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__

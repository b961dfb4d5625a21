"""Threads: one for small problems, which more would slow down, and all of them for large ones."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Run linear algebra on one thread inside a context."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limit


@dataclass(frozen=True)
class Pool:
    """Workers that do independent pieces of work side by side; NumPy releases the interpreter lock meanwhile."""

    workers: int
    executor: ThreadPoolExecutor | None

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Do the work on every item, and return the results in the order of the items."""
        if self.executor is None:
            return [work(item) for item in items]
        return list(self.executor.map(work, items))


@contextmanager
def pool() -> Iterator[Pool]:
    """Start as many workers as linear algebra had threads, each with linear algebra on one thread."""
    libraries = _controller().info()
    workers = max((library["num_threads"] for library in libraries if library["user_api"] == "blas"), default=1)
    if workers == 1:
        yield Pool(1, None)
        return
    with one_thread(), ThreadPoolExecutor(workers) as executor:
        yield Pool(workers, executor)

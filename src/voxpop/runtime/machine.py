"""What the machine offers: compiled loops, memory, threads, and processes that end with the one that started them.

Machine code for the loops of large problems is made by numba where it is installed (the extra `fast`).

Importing numba takes half a second, more than a small study does. So numba is imported only on demand, by code for
large problems. Compiled code is kept on disk for the next process.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController

from voxpop.errors import InputError

PR_SET_PDEATHSIG = 1  # of prctl
Function = TypeVar("Function", bound=Callable[..., Any])


@cache
def numba_installed() -> bool:
    """Return True if numba is installed; this imports it."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def compiled(function: Function) -> Function:
    """Compile a function whose sums may be reordered, so that they run on vector registers.

    Infinities and NaN keep their meaning.
    """
    return _compile(function, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})


def exactly(function: Function) -> Function:
    """Compile a function with every operation rounded as written."""
    return _compile(function)


def _compile(function: Function, **options: Any) -> Function:
    from numba import njit

    return cast(Function, njit(cache=True, nogil=True, **options)(function))


SHARE = 0.8  # of the machine's memory
SETTING = "VOXPOP_MEMORY"  # gigabytes, instead of the machine's own


@cache
def memory_limit() -> int:
    """Return the number of bytes that one computation may take."""
    given = os.environ.get(SETTING)
    if given is not None:
        try:
            return int(float(given) * 1e9)
        except ValueError:
            raise InputError(f"{SETTING} must be a number of gigabytes, got {given!r}") from None
    try:
        return int(SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):  # not known on this system
        return int(8e9)


def require_room(needed: float, actions: int, purpose: str, power: int = 1) -> None:
    """Refuse a computation that does not fit; its memory grows with this power of the number of actions."""
    limit = memory_limit()
    if needed > limit:
        fits = int(actions * (limit / needed) ** (1 / power))
        raise InputError(
            f"{actions:,} actions with {purpose} take {needed / 1e9:.3g} GB of memory and the limit is "
            f"{limit / 1e9:.3g} GB; at most {fits:,} actions fit (or raise {SETTING})"
        )


def statement(actions: int) -> str:
    """Say how much memory a selection among `actions` actions takes, before it is made."""
    each, limit = 8 * actions, memory_limit()
    return (
        f"{actions:,} actions: at most {each / 1e6:.3g} MB of memory for each batch of a wave; "
        f"the limit of {limit / 1e9:.3g} GB holds at least {limit // each:,} batches"
    )


Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Run linear algebra on one thread inside a context."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limit


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Do independent pieces of work on as many threads as linear algebra had, each with linear algebra on one thread.

    NumPy releases the interpreter lock meanwhile. Results come in the order of the items.
    """
    libraries = _controller().info()
    workers = max((library["num_threads"] for library in libraries if library["user_api"] == "blas"), default=1)
    if workers == 1:
        return [work(item) for item in items]
    with one_thread(), ThreadPoolExecutor(workers) as executor:
        return list(executor.map(work, items))


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None] | None:
    """Return what a child runs first so that it gets this signal when this process ends in any way (on Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # the parent has already ended
            os._exit(1)

    return ask

"""Machine code for the loops of large problems, made by numba where it is installed (the extra `fast`).

Importing numba takes half a second, more than a small study does. So numba is imported only on demand, by code for
large problems. Compiled code is kept on disk for the next process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

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

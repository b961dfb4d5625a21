"""Small matrices are slower with several BLAS threads than with one, and much slower on a busy machine."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """A context in which linear algebra runs on one thread."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limit

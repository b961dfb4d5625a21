"""The names of errors as the database or the operating system gives them; the messages may quote what is stored."""

from __future__ import annotations

import errno


def cause(error: BaseException) -> str:
    """Name the cause of an error, without the text of its message.

    >>> cause(OSError(28, "secret text"))
    'ENOSPC'
    """
    found = getattr(error, "orig", None) or error  # the driver's own error
    name = getattr(found, "sqlite_errorname", None)
    number = getattr(found, "errno", None)
    if name is None and isinstance(number, int):
        name = errno.errorcode.get(number)
    state = getattr(found, "sqlstate", None)  # of PostgreSQL
    return str(name or " ".join(filter(None, (state, type(found).__name__))))

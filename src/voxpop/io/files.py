"""Reading and writing whole files, with errors that people can act on."""

import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from voxpop.errors import InputError


def read_text(path: Path) -> str:
    """Return the text of a file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}; check the path") from None
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {str(path)!r}: byte {error.start} is not UTF-8 text; save it as UTF-8") from None


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, whatever it is."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}; check the path") from None


def write_atomically(path: Path, content: str | bytes, private: bool = False) -> None:
    """Replace a file in one step: after a crash it holds the old content or the new, never a part.

    A `private` file can be read by its owner only, from its first byte on.
    """
    data = content.encode() if isinstance(content, str) else content
    path = path.resolve()  # a link stays a link
    temporary = partial(path)
    try:
        with open(temporary, "xb", opener=_open_private if private else None) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}; nothing was changed") from None


def partial(path: Path) -> Path:
    """Make a name for a file that becomes this one when it is complete.

    It is random, because processes in two containers may have the same number and share a folder.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def write_durably(path: Path, content: str | bytes, private: bool = False) -> None:
    """Replace a file in one step; once this returns, the new content survives a loss of power."""
    write_atomically(path, content, private)
    try:
        sync_folder(path.resolve().parent)
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r} durably: {error.strerror}; try again") from None


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder survive a loss of power; Windows needs and offers nothing for this."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock while it is changed; refuse if another program holds it. A killed program holds no lock."""
    path = path.resolve()
    lock = path.with_name(f".{path.name}.lock")
    try:
        file = _lock(lock)
    except OSError as error:
        raise InputError(f"cannot write {str(lock)!r}: {error.strerror}; nothing was changed") from None
    if file is None:
        raise InputError(f"{str(path)!r} is being changed by another program; wait until it is done, then try again")
    try:
        yield
    finally:
        with suppress(OSError):  # Windows does not remove an open file
            lock.unlink()
        os.close(file)


def _lock(lock: Path) -> int | None:
    """Return an open file that is locked, or None if another program has locked it."""
    while True:
        file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
                return file
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The program that held the lock has removed its file, perhaps between our opening and our locking.
            if lock.exists() and os.path.samestat(os.fstat(file), lock.stat()):
                return file
        except OSError:
            os.close(file)
            return None
        os.close(file)


def append_durably(path: Path, size: int, data: bytes) -> None:
    """Cut a file to a size and append to it; once this returns, the data survives a loss of power."""
    try:
        new = not path.exists()
        with path.open("ab") as file:
            file.truncate(size)
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    file.truncate(size)
                raise
        if new:
            sync_folder(path.parent)
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}; nothing was changed") from None


def file_stem(name: str) -> str:
    """Make a file name of the name of a study.

    >>> file_stem("my tea / 2nd try")
    'my-tea-2nd-try'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "study"

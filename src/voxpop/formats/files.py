"""Reading and writing whole files, with errors that people can act on."""

import os
import re
from contextlib import suppress
from pathlib import Path

from voxpop.core.errors import InputError


def read_text(path: Path) -> str:
    """Return the text of a file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}; check the path") from None
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {str(path)!r}: byte {error.start} is not UTF-8 text; save it as UTF-8") from None


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file in one step: after a crash it holds the old content or the new, never a part."""
    data = content.encode() if isinstance(content, str) else content
    path = path.resolve()  # a link stays a link
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}; nothing was changed") from None


def file_stem(name: str) -> str:
    """Make a file name of the name of a study.

    >>> file_stem("my tea / 2nd try")
    'my-tea-2nd-try'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "study"

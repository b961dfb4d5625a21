"""What a form holds: its fields, files and numbers.

Files are read into memory and never onto a disk, as Starlette's own would be. A number that can be read in two ways is
refused: nobody would see what became of it.
"""

from __future__ import annotations

from email.message import EmailMessage
from typing import Self

from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request

from voxpop.errors import InputError
from voxpop.io.cells import amount_of
from voxpop.service.refusals import Refusal

MOST_FIELDS = 100
MOST_TEXT = 8 * 2**20  # bytes of one field
IN_MEMORY = 2**40  # bytes that a file may have before it is written to a disk: more than any route takes


class _Parser(MultiPartParser):
    spool_max_size = IN_MEMORY


class Form(dict[str, str | tuple[str, bytes]]):
    """The fields of a form by name; a file is its name and content."""

    @classmethod
    async def read(cls, request: Request) -> Self:
        """Read the form of a request, once; the route limits how large it is as a whole."""
        if not hasattr(request.state, "form"):
            try:
                request.state.form = cls(await _parts_of(request))
            except MultiPartException:  # too many fields, or too long ones, whatever the kind of form
                raise Refusal(400, "the form cannot be read; send it again from its page") from None
        found: Self = request.state.form
        return found

    def text(self, name: str) -> str:
        """Return a field without spaces around it; empty if there is none."""
        value = self.get(name, "")
        return value.strip() if isinstance(value, str) else ""

    def file(self, name: str) -> tuple[str, bytes]:
        """Return the name and the content of an uploaded file; both are empty if none was chosen."""
        value = self.get(name, "")
        return ("", b"") if isinstance(value, str) else value


async def _parts_of(request: Request) -> dict[str, str | tuple[str, bytes]]:
    """Read the parts of a form; files are closed whatever happens, and only their content is kept."""
    said = EmailMessage()
    said["content-type"] = request.headers.get("content-type", "") or "text/plain"
    kind = said.get_content_type()
    if said.get_content_charset("utf-8") != "utf-8":  # some of Python's make text that can be written nowhere
        raise Refusal(415, "a form is text in UTF-8; send it from its page")
    if kind == "application/x-www-form-urlencoded":
        found = await FormParser(request.headers, request.stream()).parse()
        return {name: str(value) for name, value in found.items()}
    if kind != "multipart/form-data":
        raise Refusal(415, "this takes a form; send it from its page")
    parser = _Parser(request.headers, request.stream(), max_files=2, max_fields=MOST_FIELDS, max_part_size=MOST_TEXT)
    try:
        form = await parser.parse()
        return {
            name: value if isinstance(value, str) else (value.filename or "", value.file.read())
            for name, value in form.items()
        }
    finally:
        for file in parser._files_to_close_on_error:
            file.close()


def whole(label: str, text: str) -> int:
    """Read a whole number; commas and spaces may stand between thousands, and nowhere else.

    >>> whole("Rounds", "20,000"), whole("Rounds", "1 000"), whole("Rounds", "7")
    (20000, 1000, 7)
    """
    amount = amount_of(text)
    value = None if amount is None or amount.unit or "." in text else amount.point
    if value is None or value % 1 or abs(value) > 2**53:  # beyond which digits would get lost
        raise InputError(f"{label} must be a whole number such as 20000, got {text!r:.40}")
    return int(value)


def decimal(label: str, text: str) -> float:
    """Read a number with a decimal point or comma.

    >>> decimal("Epsilon", "0.5"), decimal("Epsilon", "0,5"), decimal("Epsilon", "1 000")
    (0.5, 0.5, 1000.0)
    """
    amount = amount_of(text)
    read = (amount.point, amount.comma if "," in text else None) if amount is not None and not amount.unit else ()
    ways = {value for value in read if value is not None}
    if len(ways) == 2:
        written = f"{text.replace(',', '')} or {text.replace(',', '.')}"
        raise InputError(f"{label} must be a number that is read in one way; write {written} instead of {text}")
    if not ways:
        raise InputError(f"{label} must be a number such as 0.5, got {text!r:.40}")
    return ways.pop()

"""Forms and the files in them, read into memory and never onto a disk, as Starlette's own would be."""

from __future__ import annotations

from io import BytesIO

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request

from voxpop.service.refusals import Refusal

MOST_FIELDS = 100
MOST_TEXT = 8 * 2**20  # bytes of one field
IN_MEMORY = 2**40  # bytes that a file may have before it is written to a disk: more than any route takes


class _Parser(MultiPartParser):
    spool_max_size = IN_MEMORY


async def read_form(request: Request) -> FormData:
    """Read the form of a request, once; the route limits how large it is as a whole."""
    if request._form is not None:
        return request._form
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            found = await _read_parts(request)
        elif kind == "application/x-www-form-urlencoded":
            found = await FormParser(request.headers, request.stream()).parse()
        else:
            raise Refusal(415, "this takes a form; send it from its page")
    except MultiPartException:  # too many fields, or too long ones, whatever the kind of form
        raise Refusal(400, "the form cannot be read; send it again from its page") from None
    request._form = found  # so that `request.form()` finds it, too
    return found


async def _read_parts(request: Request) -> FormData:
    """Read a form with files. They are closed whatever happens, and only their content is kept."""
    parser = _Parser(request.headers, request.stream(), max_files=1, max_fields=MOST_FIELDS, max_part_size=MOST_TEXT)
    try:
        form = await parser.parse()
        return FormData([(name, await _content(value)) for name, value in form.multi_items()])
    finally:
        for file in parser._files_to_close_on_error:
            file.close()


async def _content(value: str | UploadFile) -> str | UploadFile:
    return value if isinstance(value, str) else UploadFile(BytesIO(await value.read()), filename=value.filename)


def text_of(given: FormData, name: str) -> str:
    """Return a field without spaces around it; empty if there is none."""
    value = given.get(name, "")
    return value.strip() if isinstance(value, str) else ""


async def file_of(given: FormData, name: str) -> tuple[str, bytes]:
    """Return the name and the content of an uploaded file, which is then closed; both are empty if none was chosen."""
    value = given.get(name)
    if not isinstance(value, UploadFile):
        return "", b""
    content = await value.read()
    await value.close()
    return value.filename or "", content

"""The endpoint for reports, written in plain ASGI: a framework would cost more than the work of this route."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.types import Message, Receive, Scope, Send

from voxpop.service.refusals import Refusal, too_large
from voxpop.service.reports import decode
from voxpop.service.web.body_limits import announced_length
from voxpop.service.web.request_parts import bearer_key, require_json
from voxpop.service.web.routes import ReportUpload

NUMBER_BYTES = 32  # the most that one number of a report may take as JSON
OTHER_BYTES = 1024  # for everything around the numbers


class UploadEndpoint:
    """The ASGI application of an upload route; it raises refusals, which the guard answers."""

    def __init__(self, path: str, upload: ReportUpload, most_bytes: int) -> None:
        self.path, self._upload, self._most_bytes = path, upload, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = token_of_head(scope)
        report = decode(await self._body(scope, receive))
        status, headers, body = RECEIPTS[await self._count(scope["path_params"], token, report)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _count(self, path: Mapping[str, str], token: str, report: bytes) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def done(new: bool | None, error: Exception | None) -> None:
            if not answer.done():  # otherwise the caller is gone
                answer.set_result(bool(new)) if error is None else answer.set_exception(error)

        self._upload.submit(path, token, report, done)
        return await answer

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Read a body that is short enough to be a report; a longer one is neither read to its end nor decoded."""
        limit = await self._limit(scope, False)
        length = announced_length(scope)
        parts, seen = [], 0
        while True:
            if max(seen, length) > limit:  # another coordinator may just have opened a wave
                limit = await self._limit(scope, True)
                if max(seen, length) > limit:
                    raise too_large(limit)
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                raise Refusal(400, "the connection ended before the body did; send it again")
            parts.append(message.get("body", b""))
            seen += len(parts[-1])
            if not message.get("more_body", False) and seen <= limit:
                return b"".join(parts)

    async def _limit(self, scope: Scope, again: bool) -> int:
        return min(self._most_bytes, most_bytes_of(await self._upload.most_numbers(scope["path_params"], again)))


def most_bytes_of(numbers: int) -> int:
    """Compute how many bytes the body of a report with this many numbers may have."""
    return NUMBER_BYTES * numbers + OTHER_BYTES


def token_of_head(scope: Scope) -> str:
    """Return the token in the head of an upload; refuse a head without one, or of a body that is not JSON."""
    authorization = content_type = b""
    for name, value in scope["headers"]:
        if name == b"authorization":
            authorization = value
        elif name == b"content-type":
            content_type = value
    token = bearer_key(authorization.decode("latin-1"))
    require_json(content_type.decode("latin-1"))
    return token


def _receipt(status: int, body: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    return status, [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())], body


RECEIPTS = {True: _receipt(201, b'{"status":"counted"}'), False: _receipt(200, b'{"status":"counted before"}')}

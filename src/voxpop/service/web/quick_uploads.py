"""Uploads whose request has arrived as a whole, as nearly all do at once: they need few of the layers of others.

A task, a scope that passes through guard and router, and two messages for a reply cost more than storing a report. Here
the same checks are made in one call. Whatever is unusual (a body that arrives slowly, a wrong header, a report that
cannot be read, a caller over the rate limit) is left to the ordinary way, which says what is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.types import Scope

from voxpop.service.refusals import Refusal
from voxpop.service.reports import decode
from voxpop.service.web.body_limits import HeldBytes
from voxpop.service.web.callers import caller_of
from voxpop.service.web.error_replies import error_reply
from voxpop.service.web.origins import Origins
from voxpop.service.web.rate_limit import RateLimit
from voxpop.service.web.routes import ReportUpload, pattern_of
from voxpop.service.web.telemetry import Telemetry
from voxpop.service.web.upload import RECEIPTS, most_bytes_of, token_of_head

Reply = Callable[[int, list[tuple[bytes, bytes]], bytes], None]  # takes the status, the headers and the body


class QuickUploads:
    """Takes uploads to addresses of one pattern."""

    def __init__(
        self, path: str, upload: ReportUpload, rate_limit: RateLimit, telemetry: Telemetry, origins: Origins
    ) -> None:
        self._path, self._upload, self._rate_limit, self._telemetry = path, upload, rate_limit, telemetry
        self._origins = origins
        self.held = HeldBytes()  # by these and by the requests that take the ordinary way
        self._pattern = pattern_of(path)

    def expects(self, scope: Scope) -> bool:
        """Return True for a request that is an upload, by its first line."""
        return scope["method"] == "PUT" and self._pattern.fullmatch(scope["path"]) is not None

    def take(self, scope: Scope, body: bytes, reply: Reply) -> bool:
        """Take a whole upload and reply once its report is stored; return False if it is for the ordinary way."""
        found = self._pattern.fullmatch(scope["path"])
        assert found is not None, "it is expected"
        start, path = time.perf_counter(), found.groupdict()
        try:
            token = token_of_head(scope)
            if len(body) > most_bytes_of(self._upload.known_numbers(path)):
                return False
            report = decode(body)
        except Refusal:
            return False
        caller = caller_of(scope["client"][0]) if scope.get("client") else ""
        try:
            self.held.take(caller, len(body))
        except Refusal:
            return False
        if self._rate_limit.take(caller) > 0:
            self.held.give(caller, len(body))
            return False

        def done(new: bool | None, error: Exception | None) -> None:
            self.held.give(caller, len(body))
            if error is None:
                status, headers, text = RECEIPTS[bool(new)]
            else:
                refused = error_reply(error, self._path, unread=False)
                status, headers, text = refused.status_code, refused.raw_headers, bytes(refused.body)
            readable = self._origins.headers(scope["path"], scope["headers"])
            reply(status, [*headers, *readable] if readable else headers, text)
            self._telemetry.request("PUT", self._path, status, time.perf_counter() - start)

        try:
            self._upload.submit(path, token, report, done)
        except Refusal as refusal:
            done(None, refusal)
        return True

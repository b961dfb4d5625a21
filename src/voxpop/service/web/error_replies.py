"""Errors as replies: every error in a request becomes a refusal, and a refusal is {"error": one sentence}."""

from __future__ import annotations

from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from voxpop.errors import InputError
from voxpop.service import logs
from voxpop.service.refusals import DATABASE_AWAY, Refusal, no_database

UNROUTED = {404: "there is nothing at this address", 405: "this address does not take this method"}


def refusal_of(error: Exception, route: str) -> Refusal:
    """Turn an error into the refusal that the caller gets; log it if the caller is not to blame."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, InputError):
        return Refusal(422, str(error))
    if isinstance(error, HTTPException):
        sentence = UNROUTED.get(error.status_code, "the request cannot be answered")
        return Refusal(error.status_code, f"{sentence}; see /openapi.json")
    if isinstance(error, DATABASE_AWAY):
        logs.fault("database", error, route=route)
        return no_database()
    logs.fault("fault", error, route=route)
    return Refusal(500, "something went wrong here; nothing was counted, try again")


def error_reply(
    error: Exception, route: str, unread: bool, page: Callable[[Refusal], Response | None] = lambda _: None
) -> Response:
    """Make the reply to a request that failed; `unread` means that part of its body was not received.

    `page` makes the reply for people, if it is people who have asked.
    """
    refusal = refusal_of(error, route)
    reply = page(refusal)
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if refusal.retry_after is not None:
        headers["retry-after"] = str(max(1, round(refusal.retry_after)))
    if refusal.status == 401 and reply is None:
        headers["www-authenticate"] = "Bearer"
    if refusal.status in (413, 503) and unread:
        headers["connection"] = "close"  # the rest of the body is not wanted
    if reply is None:
        return JSONResponse({"error": refusal.sentence}, refusal.status, headers)
    reply.headers.update(headers)
    return reply

"""Refusals for browsers: a page, a message on the page that is open, or the way to sign in."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from voxpop.service.console.entry import SignedOut, sign_in_address
from voxpop.service.console.live import STREAM_HEADERS, ended_events, gone_events
from voxpop.service.console.pages import html, redirect, render, render_part
from voxpop.service.console.shared import known_session
from voxpop.service.refusals import Refusal

TITLES = {  # of pages; a person need not know what HTTP calls it
    403: "This is not allowed",
    404: "There is no such page",
    405: "There is no such page",
    409: "This is not possible now",
    413: "This is too large",
    422: "This cannot be used",
    429: "Too many requests",
    500: "Something went wrong",
    503: "Not now",
}
FOR_PROGRAMS = "; see /openapi.json"


def refusal_page(scope: Scope, refusal: Refusal) -> Response | None:
    """Make the reply to a browser; None if a program has asked."""
    request = Request(scope)
    if request.url.path.startswith("/v1/") or "text/html" not in request.headers.get("accept", ""):
        return None
    session, path = known_session(request), request.url.path
    if isinstance(refusal, SignedOut):
        return _sign_in(request, refusal)
    if path.endswith("/live") and refusal.status == 404:  # as below
        return Response(gone_events(path), headers=STREAM_HEADERS)
    if "hx-request" in request.headers:
        return html(render_part("notice", session, path, notice=refusal.sentence, ended=False), refusal.status)
    title, sentence = TITLES.get(refusal.status, HTTPStatus(refusal.status).phrase), refusal.sentence
    said = sentence.removesuffix(FOR_PROGRAMS)
    return html(render("error", session, path, title=title, sentence=said), refusal.status)


def _sign_in(request: Request, refusal: SignedOut) -> Response:
    if request.url.path.endswith("/live"):  # a browser would try again for ever if this were an error
        return Response(ended_events(request.url.path), headers=STREAM_HEADERS)
    address = sign_in_address(request, refusal.ended)
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={"hx-redirect": address})
    return redirect(address)

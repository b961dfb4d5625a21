"""All pages of the console, and what browsers are shown instead of a refusal."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from voxpop.service.console.new_study import FieldRefusal, NewStudyScreen
from voxpop.service.console.pages import html, redirect, render, render_part, serve_asset
from voxpop.service.console.screen import STREAM_HEADERS, Console, is_stream, known_session, last_events
from voxpop.service.console.sign_in import SignedOut, SignIn, sign_in_address
from voxpop.service.console.studies import StudiesScreen
from voxpop.service.console.study import StudyScreen
from voxpop.service.console.system import SystemScreens
from voxpop.service.refusals import Refusal
from voxpop.service.web.routes import Route, routes_of

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


def console_routes(console: Console, sign_in: SignIn) -> list[Route]:
    """Declare every page, form and stream."""
    screens = [screen(console) for screen in (StudiesScreen, StudyScreen, NewStudyScreen, SystemScreens)]
    static = Route("GET", "/static/{file}", "anyone", {200: None}, documented=False, handler=serve_asset)
    return [static, *(route for screen in (sign_in, *screens) for route in routes_of(screen))]


def refusal_page(scope: Scope, refusal: Refusal) -> Response | None:
    """Make the reply to a browser: a page, a message on the page that is open, or the way to sign in.

    Return None if a program has asked.
    """
    request = Request(scope)
    session, path = known_session(request), request.url.path
    if path.startswith("/v2/") or "text/html" not in request.headers.get("accept", ""):
        return None
    if is_stream(request):  # a browser would try again for ever if these were errors
        if isinstance(refusal, SignedOut):
            return Response(last_events(path), headers=STREAM_HEADERS)
        if refusal.status == 404:
            return Response(last_events(path, gone=True), headers=STREAM_HEADERS)
    htmx = "hx-request" in request.headers
    if isinstance(refusal, SignedOut):
        address = sign_in_address(request, refusal.ended)
        return Response(status_code=401, headers={"hx-redirect": address}) if htmx else redirect(address)
    if htmx:
        field = refusal.field if isinstance(refusal, FieldRefusal) else ""
        notice = render_part("notice", session, path, notice=refusal.sentence, ended=False, field=field)
        return html(notice, refusal.status)
    title = TITLES.get(refusal.status, HTTPStatus(refusal.status).phrase)
    said = refusal.sentence.removesuffix(FOR_PROGRAMS)
    return html(render("error", session, path, title=title, sentence=said), refusal.status)

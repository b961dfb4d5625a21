"""Signing in and out, and the checks of who is signed in.

The key is sent once, in the body of a form; the browser keeps only a cookie that scripts cannot read. The cookie is
SameSite=Lax and not Strict: a link to a study in a mail must lead to the study. That is safe, because only POST changes
anything, and every POST must carry the session's token, which no other site can know.
"""

from __future__ import annotations

import hmac
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.service import operators
from voxpop.service.console.forms import Form
from voxpop.service.console.oidc import PATIENCE, Provider
from voxpop.service.console.pages import ASSET_HEADERS, assets, redirect
from voxpop.service.console.screen import Console, Screens, SignedOut, address_of, form, local_path, page
from voxpop.service.keys import MOST
from voxpop.service.operators import LONGEST_SECONDS, Principal, Session
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.study import life
from voxpop.service.web.limits import RateLimit, caller_of
from voxpop.service.web.routes import Role, RoleCheck, require_manager, require_seen, text_in

ANYONE = Session("", Principal("anyone", "anyone"))  # who looks at an open service without signing in
ATTEMPTS, PAUSE = 10, 6.0  # to sign in from one address at once, and the seconds until another one
CSRF_HEADER = "x-voxpop-csrf"


class SignIn(Screens):
    """The pages to sign in and out, and the role checks of all other pages."""

    def __init__(self, console: Console, provider: Provider | None = None) -> None:
        super().__init__(console)
        self._provider = provider
        self._attempts = RateLimit(1 / PAUSE, ATTEMPTS)

    # -- the role checks

    @property
    def checks(self) -> dict[Role, RoleCheck]:
        """The checks of the console's roles; `live` is for a page that updates itself."""
        managing, live = partial(self.signed_in, manages=True), partial(self.signed_in, live=True)
        return {"session": self.signed_in, "manager": managing, "live": live}

    async def signed_in(self, request: Request, manages: bool = False, live: bool = False) -> str:
        """Check that the browser is signed in, or that anyone may look; return the name of who it is.

        Only an operator, or the owner of the study, `manages`; a form of anybody else is not even read.
        """
        session = await run_in_threadpool(self._look_up, request, live)
        if session is None and not self.console.open_to_all:
            raise SignedOut(ended=cookie_name(request) in request.cookies)
        request.state.session = session = session or ANYONE
        if "study" in request.path_params:
            await run_in_threadpool(self._require_seen, session.principal, text_in(request.path_params, "study"))
        if manages and not session.cookie:
            raise SignedOut(ended=False)
        if manages:
            require_manager(session.principal, request.path_params.get("study"))
        await require_own_form(request, session)
        return session.principal.name

    def _require_seen(self, principal: Principal, study: str) -> None:
        """Refuse a study that who asks may not see: that of others, or a draft on an open service."""
        require_seen(principal, study)
        if life.is_draft(self.database, study) and not principal.sees_drafts:
            raise no_study(study)

    def _look_up(self, request: Request, live: bool = False) -> Session | None:
        cookie = request.cookies.get(cookie_name(request), "")
        if not cookie or len(cookie) > MOST:
            return None
        return operators.session_of(self.database, cookie, self.console.now, live)

    # -- the pages

    @page("/sign-in", "anyone")
    def ask(self, request: Request) -> Response:
        """Show the form that asks for a key."""
        wanted = local_path(request.query_params.get("next", ""))
        if self._look_up(request) is not None:
            return redirect(wanted)
        return self._form(request, wanted, ended="ended" in request.query_params)

    @form("/sign-in", "anyone")
    async def sign_in(self, request: Request, sent: Form) -> Response:
        """Take a key, and begin a session."""
        require_own_site(request)
        wanted = local_path(sent.text("next"))
        wait = self._attempts.take(caller_of(request.client.host if request.client else ""))
        if wait > 0:
            return self._form(request, wanted, 429, "there were too many attempts from here; wait a minute")
        try:
            session = await run_in_threadpool(operators.sign_in, self.database, sent.text("key"), self.console.now)
        except Refusal as refusal:
            return self._form(request, wanted, refusal.status, refusal.sentence)
        if session is None:
            return self._form(request, wanted, 401, "this is nobody's key; check it, or ask an operator for a new one")
        reply = redirect(wanted)
        _set_cookie(reply, request, session.cookie, round(LONGEST_SECONDS))
        return reply

    @page("/sign-in/oidc", "anyone")
    def ask_provider(self, request: Request) -> Response:
        """Send a browser to the identity provider."""
        if self._provider is None:
            raise Refusal(404, "no identity provider is known here; sign in with a key at /sign-in")
        wanted = local_path(request.query_params.get("next", ""))
        try:
            place, cookie = self._provider.begin(self.coordinator.context.secrets, wanted)
        except Refusal as refusal:
            return self._form(request, wanted, refusal.status, refusal.sentence)
        reply = redirect(place)
        reply.set_cookie(f"{cookie_name(request)}-oidc", cookie, PATIENCE, **_cookie(request))
        return reply

    @page("/sign-in/oidc/back", "anyone")
    def take_word(self, request: Request) -> Response:
        """Take what the identity provider says of who has signed in there, and begin a session."""
        name = f"{cookie_name(request)}-oidc"
        wait = self._attempts.take(caller_of(request.client.host if request.client else ""))
        try:
            if self._provider is None or wait > 0:
                raise Refusal(429, "there were too many attempts from here; wait a minute")
            given = (request.cookies.get(name, ""), dict(request.query_params))
            subject, email, wanted = self._provider.finish(self.coordinator.context.secrets, *given)
            session = operators.sign_in_as(self.database, subject, email, self.console.now)
        except Refusal as refusal:
            reply = self._form(request, "/", refusal.status, refusal.sentence)
        else:
            reply = redirect(local_path(wanted))
            _set_cookie(reply, request, session.cookie, round(LONGEST_SECONDS))
        reply.set_cookie(name, "", 0, **_cookie(request))
        return reply

    @form("/sign-out", "session")
    def sign_out(self, request: Request, session: Session) -> Response:
        """End the session."""
        if session.cookie:
            operators.sign_out(self.database, session, self.console.now)
        reply = self.console.moved(request, "/sign-in")
        _set_cookie(reply, request, "", 0)
        return reply

    @page("/static/{file}", "anyone")
    async def static(self, request: Request, file: str) -> Response:
        """Reply with a file, compressed for those who take it so."""
        asset = next((asset for asset in assets().values() if asset.file == file), None)
        if asset is None:
            raise Refusal(404, "there is no such file; reload the page")
        if "gzip" in request.headers.get("accept-encoding", ""):
            packed = {**ASSET_HEADERS, "content-encoding": "gzip"}
            return Response(asset.packed, headers=packed, media_type=asset.media_type)
        return Response(asset.body, headers=ASSET_HEADERS, media_type=asset.media_type)

    def _form(self, request: Request, wanted: str, status: int = 200, error: str = "", ended: bool = False) -> Response:
        host = request.url.hostname or ""
        plain = request.url.scheme != "https" and host not in ("127.0.0.1", "localhost", "::1")
        provider = "" if self._provider is None else urlsplit(self._provider.issuer).hostname
        given = {"provider": provider, "next": wanted, "error": error, "ended": ended and not error, "plain": plain}
        return self.console.show(request, "sign_in", status, **given, open_to_all=self.console.open_to_all)


def cookie_name(request: Request) -> str:
    """Return the cookie's name; browsers take __Host- cookies only from this server itself, and only encrypted."""
    return "__Host-voxpop" if request.url.scheme == "https" else "voxpop"


def _set_cookie(reply: Response, request: Request, value: str, seconds: int) -> None:
    reply.set_cookie(cookie_name(request), value, seconds, **_cookie(request))


def _cookie(request: Request) -> dict[str, Any]:
    return {"path": "/", "secure": request.url.scheme == "https", "httponly": True, "samesite": "lax"}


def require_own_site(request: Request) -> None:
    """Refuse a form that another site has sent.

    Browsers say so in Sec-Fetch-Site; only where they leave it out, without encryption, the Origin is compared with the
    Host, which a proxy may have changed.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "null")
    if site is not None:
        if site != "same-origin":
            raise Refusal(403, "the form was sent by another site; open the page here and send it again")
    elif origin != "null" and address_of(origin).netloc != request.headers.get("host", ""):
        raise Refusal(
            403,
            "the form was sent by another site, or a proxy does not pass on the Host header with its port; open the "
            "page here and send it again",
        )


async def require_own_form(request: Request, session: Session) -> None:
    """Refuse a form that no page of this session has sent; it is not read if there is no session."""
    if request.method != "POST":
        return
    require_own_site(request)
    stranger = Refusal(403, "the form is not from this session; reload the page and send it again")
    if not session.cookie:
        raise stranger
    given = request.headers.get(CSRF_HEADER) or (await Form.read(request)).text("csrf")
    if not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise stranger

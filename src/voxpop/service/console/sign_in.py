"""Signing in with a key or with an identity provider, signing out, and the checks of who is signed in.

The key is sent once, in the body of a form; the browser keeps only a cookie that scripts cannot read. The cookie is
SameSite=Lax and not Strict: a link to a study in a mail must lead to the study. That is safe, because only POST changes
anything, and every POST must carry the session's token, which no other site can know.

With a provider it is OpenID Connect, by the authorization code with PKCE. What the browser must bring back (state,
nonce, the verifier of PKCE) is in a cookie for ten minutes, signed with the secret of the service, so that no other
browser can finish what this one has begun. The provider's word is checked by joserfc: its signature, for whom it is,
when, and for which attempt.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.errors import InputError
from voxpop.service import operators
from voxpop.service.console.pages import ASSET_HEADERS, assets, redirect
from voxpop.service.console.screen import Console, Form, Screens, SignedOut, address_of, form, local_path, page
from voxpop.service.keys import MOST, Keyring
from voxpop.service.operators import LONGEST_SECONDS, Principal, Session
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.shuffler.signed_http import require_private_url
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


# An identity provider


BACK = "/sign-in/oidc/back"  # where the provider sends browsers
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
PATIENCE = 600  # seconds that somebody has to sign in there
SECONDS = 10.0  # that the provider has for a reply
MOST_BYTES = 2**20  # of one
LEEWAY = 60  # seconds by which the provider's clock may differ
AGAIN = "this way to sign in is over, or was begun in another browser; begin again"


@dataclass(frozen=True)
class Provider:
    """An identity provider, and what this service is called there."""

    issuer: str
    client_id: str
    client_secret: str | None
    url: str  # of this service, as browsers reach it

    def begin(self, keys: Keyring, wanted: str) -> tuple[str, str]:
        """Return where to send a browser that wants to sign in, and the cookie with which it comes back."""
        drawn = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(drawn["verifier"].encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.url + BACK,
            "scope": "openid email",
            "state": drawn["state"],
            "nonce": drawn["nonce"],
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        place = self._endpoint(self._about(), "authorization_endpoint")
        kept = json.dumps({**drawn, "next": wanted, "until": time.time() + PATIENCE})
        cookie = base64.urlsafe_b64encode(kept.encode()).decode()
        return f"{place}{'&' if '?' in place else '?'}{urlencode(asked)}", f"{cookie}.{_seal(keys.in_use, cookie)}"

    def finish(self, keys: Keyring, cookie: str, said: Mapping[str, str]) -> tuple[str, str | None, str]:
        """Return who has signed in: the provider's number, an address that it has verified, and the wanted page."""
        text, _, seal = cookie.partition(".")
        if not any(hmac.compare_digest(_seal(key, text).encode(), seal.encode()) for key in keys.all):
            raise Refusal(400, AGAIN)
        kept = json.loads(base64.urlsafe_b64decode(text))
        ours = hmac.compare_digest(said.get("state", "").encode(), kept["state"].encode())
        if not ours or kept["until"] < time.time() or said.get("iss", self.issuer) != self.issuer:
            raise Refusal(400, AGAIN)
        if "code" not in said:
            raise Refusal(403, "the identity provider did not let you in; try again, or ask an operator for a key")
        about = self._about()
        form = {"grant_type": "authorization_code", "code": said["code"], "redirect_uri": self.url + BACK}
        form |= {"code_verifier": kept["verifier"], "client_id": self.client_id}
        own = None if self.client_secret is None else httpx.BasicAuth(self.client_id, self.client_secret)
        token = self._ask("POST", self._endpoint(about, "token_endpoint"), data=form, auth=own)
        known = self._ask("GET", self._endpoint(about, "jwks_uri"))
        claims = self._checked(token.get("id_token"), known, kept["nonce"])
        if "email" not in claims and "userinfo_endpoint" in about:
            head = {"authorization": f"Bearer {token.get('access_token')}"}
            more = self._ask("GET", self._endpoint(about, "userinfo_endpoint"), headers=head)
            claims = {**more, **claims} if more.get("sub") == claims["sub"] else claims
        verified = claims.get("email_verified") is True and isinstance(claims.get("email"), str)
        return f"{self.issuer} {claims['sub']}", claims["email"] if verified else None, kept["next"]

    def _checked(self, token: object, known: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Check the provider's word, and return it."""
        from joserfc import errors, jwk, jwt

        given = {"iss": self.issuer, "aud": self.client_id, "nonce": nonce}
        wanted: Any = {name: {"essential": True, "value": value} for name, value in given.items()}
        rules = jwt.JWTClaimsRegistry(leeway=LEEWAY, exp={"essential": True}, sub={"essential": True}, **wanted)
        try:
            found = jwt.decode(str(token), jwk.KeySet.import_key_set(known), algorithms=ALGORITHMS)  # type: ignore[arg-type]
            rules.validate(found.claims)
            if found.claims.get("azp", self.client_id) != self.client_id:
                raise ValueError
        except (errors.JoseError, ValueError, TypeError, KeyError):
            raise Refusal(403, "what the identity provider says is not valid here; ask an operator") from None
        return found.claims

    def _about(self) -> dict[str, Any]:
        about = self._ask("GET", self.issuer + "/.well-known/openid-configuration")
        if about.get("issuer", "").rstrip("/") != self.issuer:
            raise Refusal(502, f"the identity provider at {self.issuer} has another name; ask an operator")
        return about

    def _endpoint(self, about: dict[str, Any], name: str) -> str:
        try:
            return require_private_url(name, str(about.get(name)).partition("?")[0]) and str(about[name])
        except InputError:
            raise Refusal(502, "the identity provider names no safe address; ask an operator") from None

    def _ask(self, method: str, place: str, **given: Any) -> dict[str, Any]:
        """Ask the provider; whatever goes wrong, there are still keys to sign in with."""
        try:
            with httpx.Client(timeout=SECONDS, trust_env=False) as http, http.stream(method, place, **given) as reply:
                content, until = b"", time.monotonic() + SECONDS
                for part in reply.iter_bytes():
                    content += part
                    if len(content) > MOST_BYTES or time.monotonic() > until:
                        raise ValueError
            found = json.loads(content)
            if reply.status_code == 400:  # of the token endpoint: the code was used before, or is too old
                raise Refusal(400, AGAIN)
            if reply.status_code != 200 or not isinstance(found, dict):
                raise ValueError
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            sentence = "the identity provider does not answer; try again in a moment, or sign in with a key"
            raise Refusal(503, sentence, retry_after=10) from None
        return found


def _seal(key: bytes, text: str) -> str:
    return hmac.digest(key, b"voxpop: oidc" + text.encode(), "sha256").hex()

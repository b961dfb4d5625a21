"""Signing in with an identity provider: OpenID Connect, by the authorization code with PKCE.

What the browser must bring back (state, nonce, the verifier of PKCE) is in a cookie for ten minutes, signed with the
secret of the service, so that no other browser can finish what this one has begun. The provider's word is checked by
joserfc: its signature, for whom it is, when, and for which attempt.
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
from typing import Any
from urllib.parse import urlencode

import httpx

from voxpop.errors import InputError
from voxpop.service.keys import Keyring
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.signed_http import require_private_url

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

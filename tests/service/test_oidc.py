"""Signing in with an identity provider that runs here: who gets in, and what goes wrong."""

import base64
import json
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.service.served import served
from tests.service.test_http import KEY, SHUFFLER_KEY, as_
from tests.service.world import SECRET, STUDY, Clock, definition
from voxpop.service import operators
from voxpop.service.console.sign_in import Provider
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses a deprecated part of its own library
    import oidc_provider_mock

ANN = "ann@example.org"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the provider's own library


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    logging.getLogger("oidc_provider_mock").setLevel(logging.ERROR)
    claims = {"email": ANN, "email_verified": True}
    users = [oidc_provider_mock.User(sub="1", claims=claims)]
    users += [oidc_provider_mock.User(sub="2", claims={"email": ANN, "email_verified": False})]
    with oidc_provider_mock.run_server_in_thread(user_claims=users) as server:
        yield f"http://localhost:{server.server_port}"


class Desk:
    """A coordinator with an identity provider, and a browser."""

    def __init__(self, folder: Path, issuer: str) -> None:
        self.coordinator = Coordinator(open_store(str(folder / "c.db"), "coordinator"), SECRET, clock=Clock())
        self.coordinator.create(STUDY, definition())
        self.database = self.coordinator.database
        self.issuer, self.url = issuer, ""

    @contextmanager
    def open(self) -> Iterator[httpx.Client]:
        provider = Provider(self.issuer, "voxpop", "secret", "")
        app = CoordinatorApp(self.coordinator, SHUFFLER_KEY, provider=provider)
        with served(app.guarded(RateLimit(0.0, 3), 4096)) as url, httpx.Client(base_url=url, timeout=60) as client:
            self.url = url
            object.__setattr__(provider, "url", url)
            yield client
        self.database.close()


@pytest.fixture
def desk(tmp_path: Path, issuer: str) -> Desk:
    return Desk(tmp_path, issuer)


def there(place: str, sub: str) -> str:
    """Sign in at the provider as a person would; return where it sends the browser."""
    answer = httpx.post(place, data={"sub": sub})
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


def sign_in(client: httpx.Client, sub: str, wanted: str = "/") -> httpx.Response:
    begun = client.get(f"/sign-in/oidc?next={wanted}")
    assert begun.status_code == 303, begun.text
    return client.get(there(begun.headers["location"], sub))


def test_who_has_an_account_signs_in_and_nobody_else(desk: Desk) -> None:
    with desk.open() as client:
        assert "Sign in with localhost" in client.get("/sign-in").text
        stranger = sign_in(client, "1")
        assert (stranger.status_code, "nobody has made an account" in stranger.text.lower()) == (403, True)
        operators.add_key(desk.database, "Ann", None, 1.0, "viewer", STUDY, email="Ann@Example.org")
        unverified = sign_in(client, "2")  # the provider does not vouch for the address
        assert unverified.status_code == 403
        back = sign_in(client, "1", f"/studies/{STUDY}/people")
        assert (back.status_code, back.headers["location"]) == (303, f"/studies/{STUDY}/people")
        page = client.get("/", headers={"accept": "text/html"})
        assert "Ann (looking only)" in page.text
        assert client.get("/system", headers={"accept": "text/html"}).status_code == 403
        entries = client.get("/sign-in")
        assert entries.status_code == 303  # signed in already
        operators.revoke_key(desk.database, "Ann", 2.0)
        assert client.get("/", headers={"accept": "text/html"}).status_code == 303
        assert sign_in(client, "1").status_code == 403


def test_another_person_with_the_same_address_later_does_not_get_in(desk: Desk, issuer: str) -> None:
    """An address may be given to somebody else; the provider's own number is not."""
    with desk.open() as client:
        operators.add_key(desk.database, "Ann", None, 1.0, email=ANN)
        assert sign_in(client, "1").status_code == 303
        with pytest.raises(Refusal, match="nobody has made an account"):
            operators.sign_in_as(desk.database, f"{issuer} 99", ANN, 1.0)
        assert operators.sign_in_as(desk.database, f"{issuer} 1", "new@example.org", 1.0).principal.name == "Ann"


def test_a_way_to_sign_in_is_for_one_browser_and_works_once(desk: Desk) -> None:
    operators.add_key(desk.database, "Ann", None, 1.0, email=ANN)
    with desk.open() as client:
        begun = client.get("/sign-in/oidc")
        back = there(begun.headers["location"], "1")
        with httpx.Client() as other:  # somebody sends a person a link that signs in as another
            refused = other.get(back)
        assert (refused.status_code, "begun in another browser" in refused.text) == (400, True)
        assert "voxpop" not in refused.cookies
        kept = dict(client.cookies)
        assert client.get(back).status_code == 303
        again = client.get(back)
        assert (again.status_code, "begin again" in again.text) == (400, True)
        with httpx.Client(cookies=kept) as replay:  # with its cookie: the provider knows the code
            assert replay.get(back).status_code == 400


@pytest.mark.parametrize("name", ["state", "nonce", "verifier", "until", "next"])
def test_the_cookie_of_a_way_to_sign_in_cannot_be_changed(desk: Desk, name: str) -> None:
    operators.add_key(desk.database, "Ann", None, 1.0, email=ANN)
    with desk.open() as client:
        begun = client.get("/sign-in/oidc")
        back = there(begun.headers["location"], "1")
        text, _, seal = client.cookies["voxpop-oidc"].strip('"').partition(".")
        kept = json.loads(base64.urlsafe_b64decode(text))
        kept[name] = 9e9 if name == "until" else "x" * 43
        forged = base64.urlsafe_b64encode(json.dumps(kept).encode()).decode()
        client.cookies.set("voxpop-oidc", f"{forged}.{seal}")
        assert client.get(back.replace(parse_qs(urlsplit(back).query)["state"][0], kept["state"])).status_code == 400


def test_a_word_for_others_or_of_others_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is signed by another key, for another service, for another attempt, or over."""
    from joserfc import jwk, jwt

    operators.add_key(desk.database, "Ann", None, 1.0, email=ANN)
    own = jwk.RSAKey.generate_key(2048, {"kid": "1"})
    claims = {"iss": desk.issuer, "aud": "voxpop", "exp": 4e9, "sub": "1", "email": ANN, "email_verified": True}
    lies: list[dict[str, Any]] = [{"iss": "https://evil.example"}, {"aud": "other"}, {"exp": 1}, {"nonce": "other"}]
    lies += [{"azp": "other"}, {"sub": None}, {"signed": "none"}, {"signed": "another key"}, {}]
    with desk.open() as client:
        ask = Provider._ask
        for lie in lies:
            begun = client.get("/sign-in/oidc")
            place = begun.headers["location"]
            said = {**claims, "nonce": parse_qs(urlsplit(place).query)["nonce"][0], **lie}
            said = {name: value for name, value in said.items() if value is not None}
            kind = said.pop("signed", "")
            key = jwk.RSAKey.generate_key(2048, {"kid": "1"}) if kind == "another key" else own
            token = jwt.encode({"alg": "RS256", "kid": "1"}, said, key)
            if kind == "none":
                token = "eyJhbGciOiJub25lIn0." + token.split(".")[1] + "."

            def answer(self: Provider, method: str, place: str, **given: Any) -> dict[str, Any]:
                if method == "POST":
                    return {"id_token": token, "access_token": "x"}  # noqa: B023
                return {"keys": [own.as_dict()]} if "jwk" in place else ask(self, method, place, **given)

            with monkeypatch.context() as patched:
                patched.setattr(Provider, "_ask", answer)
                back = client.get(there(place, "1"))
            assert back.status_code == (403 if lie else 303), lie


def test_a_provider_that_is_away_leaves_keys(desk: Desk) -> None:
    key = new_key()
    operators.add_key(desk.database, "me", key, 1.0)
    desk.issuer = "http://localhost:1"
    with desk.open() as client:
        answer = client.get("/sign-in/oidc")
        assert answer.status_code == 503
        assert "The identity provider does not answer; try again in a moment, or sign in with a key." in answer.text
        head = {"sec-fetch-site": "same-origin"}
        assert client.post("/sign-in", data={"key": key}, headers=head).status_code == 303


def test_an_account_over_http_has_no_key(desk: Desk) -> None:
    operators.add_key(desk.database, "me", KEY, 1.0)
    with desk.open() as client:
        made = client.put("/v2/keys/ann", json={"email": ANN}, headers=as_(KEY))
        assert made.json() == {"name": "ann", "key": None}
        twice = client.put("/v2/keys/bob", json={"email": ANN.upper()}, headers=as_(KEY))
        assert (twice.status_code, "somebody else signs in with" in twice.text) == (409, True)
        bad = client.put("/v2/keys/bob", json={"email": "no address"}, headers=as_(KEY))
        assert (bad.status_code, re.search("looks like ann@example.org", bad.text) is not None) == (422, True)

"""Signing in: what the browser keeps, how a session ends, and which forms are taken."""

from itertools import takewhile
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

from tests.service.console.browser import KEY, VIEWER_KEY, Browser, Desk, desk_at
from tests.service.world import STUDY, definition
from voxpop.service import audit, operators
from voxpop.service.console import sign_in
from voxpop.service.console.screen import Form
from voxpop.service.keys import new_key
from voxpop.service.operators import IDLE_SECONDS, LONGEST_SECONDS, Session


def cookie(answer: httpx.Response) -> dict[str, str]:
    """Return the attributes of the only cookie that a reply sets, with its name under ''."""
    (header,) = answer.headers.get_list("set-cookie")
    first, *rest = (part.strip().partition("=") for part in header.split(";"))
    return {"": first[0], **{name.lower(): value.lower() for name, _, value in rest}}


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(stranger: Browser) -> None:
    set_by = cookie(stranger.sign_in())
    expected = {"": "voxpop", "httponly": "", "samesite": "lax", "path": "/", "max-age": str(round(LONGEST_SECONDS))}
    assert set_by == expected  # and no domain: it is for this server alone


def test_over_https_the_cookie_is_for_https_and_this_host_only(desk: Desk) -> None:
    proxied = desk.served(proxy_headers=True, forwarded_allow_ips="127.0.0.1")
    with proxied as url, Browser(url, **{"x-forwarded-proto": "https"}) as browser:
        answer = browser.sign_in()
        set_by, kept = cookie(answer), answer.headers["set-cookie"].partition(";")[0]
        assert browser.get("/").status_code == 303  # the test's browser does not send the cookie over http
        assert browser.get("/", cookie=kept).status_code == 200
    assert set_by[""] == "__Host-voxpop"
    assert "secure" in set_by
    assert set_by["path"] == "/"
    assert "domain" not in set_by


def test_a_proxy_that_is_not_trusted_cannot_make_the_cookie_secure(stranger: Browser) -> None:
    answer = stranger.post_with({"x-forwarded-proto": "https"}, "/sign-in", key=KEY)
    assert cookie(answer)[""] == "voxpop"


def test_the_key_goes_into_the_form_and_nowhere_else(stranger: Browser) -> None:
    answer = stranger.sign_in(next=f"/studies/{STUDY}/people")
    said = str(answer.headers) + answer.text + stranger.get("/").text + stranger.get("/system/access").text
    assert KEY not in said
    assert answer.headers["location"] == f"/studies/{STUDY}/people"
    assert KEY not in stranger.sign_in(KEY[:-1] + "x").text


def test_without_a_session_a_deep_link_leads_through_the_sign_in_page_and_back(stranger: Browser) -> None:
    wanted = "/system/audit?before=7"
    first = stranger.get(wanted)
    assert (first.status_code, first.headers["location"]) == (303, "/sign-in?next=/system/audit%3Fbefore%3D7")
    form = stranger.get(first.headers["location"]).text
    assert f'name="next" value="{wanted}"' in form
    assert "has ended" not in form
    assert stranger.sign_in(next=wanted).headers["location"] == wanted


@pytest.mark.parametrize(
    "address", ["//evil.example", "https://evil.example", r"/\evil.example", "evil", "/a\nb", "/sign-out", "", "/a b"]
)
def test_signing_in_never_leads_to_another_site(stranger: Browser, address: str) -> None:
    assert stranger.sign_in(next=address).headers["location"] == "/"


def test_a_wrong_key_is_said_on_the_page(stranger: Browser) -> None:
    for key in (new_key(), "short", "", "ключ"):
        answer = stranger.sign_in(key)
        assert answer.status_code == 401
        assert "This is nobody&#39;s key" in answer.text
        assert "set-cookie" not in answer.headers


def test_guessing_is_slowed_down(stranger: Browser) -> None:
    for _ in range(sign_in.ATTEMPTS):
        assert stranger.sign_in(new_key()).status_code == 401
    refused = stranger.sign_in()
    assert refused.status_code == 429
    assert "too many attempts" in refused.text


def test_a_revoked_key_is_refused_with_the_remedy(desk: Desk, stranger: Browser) -> None:
    operators.revoke_key(desk.coordinator.database, "visitor", desk.clock())
    answer = stranger.sign_in(VIEWER_KEY)
    assert answer.status_code == 401
    assert "This key was revoked; ask another operator for a new one." in answer.text


def require_signed_out(browser: Browser) -> None:
    """Check that the browser is sent to sign in, with the reason, and back to where it was."""
    answer = browser.get("/system")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=/system&ended")
    assert "Your session has ended" in browser.get(answer.headers["location"]).text


def test_a_session_that_is_not_used_ends(desk: Desk, operator: Browser) -> None:
    desk.clock.now += IDLE_SECONDS - 1
    assert operator.get("/system").status_code == 200  # which is a use
    desk.clock.now += IDLE_SECONDS - 1
    assert operator.get("/system").status_code == 200
    desk.clock.now += IDLE_SECONDS + 1
    require_signed_out(operator)


def test_every_session_ends_after_a_day(desk: Desk, operator: Browser) -> None:
    for _ in range(8):
        desk.clock.now += LONGEST_SECONDS / 8 - 1
        assert operator.get("/system").status_code == 200
    desk.clock.now += 10
    require_signed_out(operator)


def test_revoking_a_key_ends_its_sessions(desk: Desk, operator: Browser) -> None:
    operators.revoke_key(desk.coordinator.database, "me", desk.clock(), last=True)
    require_signed_out(operator)


def test_a_replaced_key_ends_the_sessions_of_the_old_one(desk: Desk, operator: Browser) -> None:
    desk.add("me", new_key())
    require_signed_out(operator)


def test_a_cookie_of_another_server_is_no_session(stranger: Browser) -> None:
    stranger.client.cookies.set("voxpop", new_key())
    require_signed_out(stranger)


def test_signing_out_ends_the_session_and_not_only_the_cookie(desk: Desk, operator: Browser) -> None:
    kept = operator.client.cookies["voxpop"]
    answer = operator.send("/sign-out")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert cookie(answer)["max-age"] == "0"
    operator.client.cookies.set("voxpop", kept)
    assert operator.get("/").headers["location"].startswith("/sign-in")
    actions = [entry.action for entry in audit.trail(desk.coordinator.database)][:2]
    assert actions == ["signed out", "signed in"]


def test_a_session_that_ended_sends_htmx_to_the_sign_in_page_and_back(desk: Desk, operator: Browser) -> None:
    desk.clock.now += IDLE_SECONDS + 1
    shown = str(operator.client.base_url.join("/?q=tea"))
    answer = operator.get("/", **{"hx-request": "true", "hx-current-url": shown})
    assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/sign-in?next=/%3Fq%3Dtea&ended")


def test_a_program_without_a_session_is_refused_in_json(stranger: Browser) -> None:
    answer = stranger.get("/system", accept="application/json")
    assert (answer.status_code, list(answer.json())) == (401, ["error"])


FOREIGN = [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}]


@pytest.mark.parametrize("headers", FOREIGN)
def test_forms_of_other_sites_are_refused(operator: Browser, stranger: Browser, headers: dict[str, str]) -> None:
    sent = {"csrf": operator.csrf, "name": "mallory", "role": "operator"}
    assert operator.post_with(headers, "/system/access", **sent).status_code == 403
    assert "mallory" not in operator.get("/system/access").text
    assert stranger.post_with(headers, "/sign-in", key=KEY).status_code == 403
    assert operator.post_with({"sec-fetch-site": "same-origin"}, "/system/access", **sent).status_code == 200


def test_a_proxy_that_changes_the_host_is_named_unless_the_browser_says_where_the_form_is_from(
    operator: Browser,
) -> None:
    sent = {"csrf": operator.csrf, "name": "anna", "role": "operator"}
    proxied = {"origin": "https://study.example.org:8443", "host": "study.example.org"}
    refused = operator.post_with(proxied, "/system/access", **sent)
    assert refused.status_code == 403
    assert "a proxy does not pass on the Host header with its port" in refused.text
    assert operator.post_with({**proxied, "sec-fetch-site": "same-origin"}, "/system/access", **sent).status_code == 200


def test_a_form_without_the_session_s_own_token_is_refused(desk: Desk, operator: Browser, viewer: Browser) -> None:
    fields = {"name": "mallory", "role": "operator"}
    tokens = ["", "0" * 64, viewer.csrf, Session(new_key(), operators.Principal("me")).csrf, "ä"]
    for token in tokens:
        answer = operator.post("/system/access", csrf=token, **fields)
        assert answer.status_code == 403
        assert "reload the page" in answer.text
    assert operator.post("/system/access", **fields).status_code == 403
    assert [key.name for key in operators.list_keys(desk.coordinator.database)] == ["me", "visitor"]


def test_htmx_may_send_the_token_as_a_header(operator: Browser) -> None:
    sent = {"name": "anna", "role": "operator"}
    assert operator.post_with({sign_in.CSRF_HEADER: operator.csrf}, "/system/access", **sent).status_code == 200


def test_the_api_takes_no_cookies(operator: Browser) -> None:
    assert operator.get("/v2/studies").status_code == 401
    assert operator.client.delete(f"/v2/studies/{STUDY}").status_code == 401


def test_an_open_service_lets_everybody_look_and_nobody_change(tmp_path: Path) -> None:
    with desk_at(str(tmp_path / "open.db"), open_to_all=True) as desk, desk.served() as url, Browser(url) as browser:
        page = browser.get("/")
        assert page.status_code == 200
        assert STUDY in page.text
        assert "/sign-in" in page.text
        assert "/system" not in page.text
        assert browser.get(f"/studies/{STUDY}/people").status_code == 200
        assert browser.get("/system").headers["location"] == "/sign-in?next=/system"
        refused = browser.post("/system/access", csrf="", name="mallory", role="operator")
        assert refused.status_code in (303, 403)
        assert [key.name for key in operators.list_keys(desk.coordinator.database)] == ["me", "visitor"]
        assert browser.sign_in().status_code == 303
        assert browser.get("/system").status_code == 200


def test_a_form_of_those_who_may_not_send_it_is_not_read(
    desk: Desk, operator: Browser, viewer: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, read = viewer.csrf, list[str]()

    async def never(request: Request) -> Form:
        read.append(request.url.path)
        return Form(csrf=token)

    monkeypatch.setattr(Form, "read", never)
    assert viewer.post("/new/study", csrf=token, text="x").status_code == 403
    with Browser(str(viewer.client.base_url)) as nobody:
        assert nobody.post("/new/study", text="x").status_code == 303
    assert read == []
    assert operator.post("/new/study", csrf="", text="x").status_code == 403  # its token must be looked for
    assert read == ["/new/study"]


@pytest.mark.parametrize("fields", ["&".join(["a=1"] * 1001), "a=" + "x" * (2**20 + 1)])
def test_a_form_that_cannot_be_read_is_refused_and_no_fault(operator: Browser, fields: str) -> None:
    kind = {"content-type": "application/x-www-form-urlencoded", "x-voxpop-csrf": operator.csrf}
    answer = operator.client.post("/new/study", content=fields, headers=kind)
    assert answer.status_code == 400
    assert "the form cannot be read" in answer.text.lower()


def test_a_key_in_a_form_of_too_many_fields_is_refused_and_no_fault(stranger: Browser) -> None:
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert stranger.client.post("/sign-in", content="&".join(["a"] * 1500), headers=kind).status_code == 400


def first_event(browser: Browser, path: str) -> str:
    """Return what a page that updates itself is told first."""
    with browser.client.stream("GET", path) as answer:
        return "\n".join(takewhile(bool, answer.iter_lines()))


def test_an_open_service_shows_neither_drafts_nor_who_did_what(tmp_path: Path) -> None:
    with desk_at(str(tmp_path / "open.db"), open_to_all=True) as desk, desk.served() as url, Browser(url) as browser:
        desk.coordinator.create("idea", definition(), draft=True)
        places = ["/studies/idea" + part for part in ("", "/people", "/events/0", "/export/decisions.csv")]
        assert [browser.get(place).status_code for place in (*places, "/v2/studies/idea/watch")] == [404] * 5
        for place in ("/studies/idea/live", "/studies/idea/people/live"):
            assert "There is no such study any more" in first_event(browser, place)
        assert "idea" not in browser.get("/").text
        listed = browser.get("/v2/studies").json()
        assert listed["studies"] == [glance["study"] for glance in listed["glances"]] == ["coffee", STUDY]
        assert "idea" not in first_event(browser, "/live")
        page = browser.get(f"/studies/{STUDY}").text
        assert "As it is stored" in page
        assert "command line" not in page
        assert "command line" not in first_event(browser, f"/studies/{STUDY}/live")
        key = {"authorization": f"Bearer {KEY}"}
        assert "idea" in browser.client.get("/v2/studies", headers=key).json()["studies"]
        assert browser.client.get("/v2/studies/idea/watch", headers=key).status_code == 200
        browser.sign_in()
        assert "idea" in browser.get("/").text
        assert "command line" in browser.get("/studies/idea").text

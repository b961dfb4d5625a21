"""What every page has in common: its headers, its layout, no code in it, and links that lead somewhere."""

import gzip
import re

from starlette.routing import compile_path

from tests.service.console.browser import OTHER, Browser, Desk
from tests.service.test_http import BATCH
from tests.service.world import STUDY, definition
from voxpop.service import operators
from voxpop.service.console.pages import PAGE_HEADERS, assets
from voxpop.service.keys import new_key
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.routes import Route

MOST_SCRIPT = 40_000  # bytes that browsers load, as they are served
APP = CoordinatorApp(Coordinator(None, b""))  # type: ignore[arg-type]  # its routes need no database
ROUTES = APP.pages()
STATIC = "/static/{file}"
NAMES = {"study": STUDY, "wave": "1", "batch": BATCH, "name": "me", "file": "none"}


def address_of(route: Route) -> str:
    return re.sub(r"{(\w+)}", lambda found: NAMES.get(found[1], "1"), route.path)


PAGES = [address_of(route) for route in ROUTES if route.method == "GET" and route.role in ("session", "manager")]
FORMS = [address_of(route) for route in ROUTES if route.method == "POST" and route.path != "/sign-in"]
STREAMS = [address_of(route) for route in ROUTES if route.role == "live"]


def test_every_page_form_and_stream_has_a_role_of_signed_in_browsers() -> None:
    free = [(route.method, route.path) for route in ROUTES if route.role == "anyone"]
    signing_in = {("GET", "/sign-in"), ("POST", "/sign-in"), ("GET", "/sign-in/oidc"), ("GET", "/sign-in/oidc/back")}
    assert set(free) == {*signing_in, ("GET", STATIC)}
    assert {route.role for route in ROUTES} == {"anyone", "session", "manager", "live"}
    assert not any(route.documented for route in ROUTES)


def test_nobody_sees_or_sends_anything_without_signing_in(stranger: Browser) -> None:
    answers = {path: stranger.get(path) for path in PAGES} | {path: stranger.post(path) for path in FORMS}
    for path, answer in answers.items():
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/sign-in"), path


def require_policy(browser: Browser, path: str) -> str:
    """Check the headers of a page and that nothing in it is code; return it."""
    answer = browser.get(path)
    for name, value in PAGE_HEADERS.items():
        assert answer.headers[name] == value, (path, name)
    text = answer.text
    assert not re.search(r"<script(?![^>]*\b(src=|type=\"application/json\"))", text), path
    assert not re.search(r"<style|\sstyle=|\son\w+=|\shx-on|javascript:|hx-vals=.js:", text), path
    loaded = re.findall(r"(?:src|href)=\"(//|\w+:)", text)
    assert loaded == [], f"{path} refers to another site"
    return text


def test_the_policy_allows_no_inline_code() -> None:
    policy = PAGE_HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    for part in ("form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"):
        assert part in policy


def test_every_page_has_the_policy_and_no_code_of_its_own(operator: Browser, stranger: Browser) -> None:
    for path in PAGES:
        require_policy(operator, path)
    for path in ("/sign-in", "/sign-in?ended&next=/system", "/nothing"):
        require_policy(stranger, path)


def test_every_page_has_one_heading_landmarks_and_a_title(operator: Browser) -> None:
    answers = {path: operator.get(path) for path in PAGES}
    pages = {
        path: answer.text for path, answer in answers.items() if "text/html" in answer.headers.get("content-type", "")
    }
    assert len(pages) >= 6
    for path, text in pages.items():
        assert len(re.findall(r"<h1\b", text)) == 1, path
        assert re.search(r"<title>[^<]+ · voxpop</title>", text), path
        for part in ('lang="en"', 'class="skip" href="#main"', '<main id="main"', "<header", "<nav"):
            assert part in text, (path, part)


def test_every_link_leads_somewhere(desk: Desk, operator: Browser) -> None:
    desk.coordinator.create("a-draft", definition(), draft=True)
    seen, wanted = set[str](), {"/", "/system"}
    while wanted:
        path = wanted.pop()
        seen.add(path)
        answer = operator.get(path)
        assert answer.status_code == 200, path
        if answer.headers["content-type"].startswith("text/html"):
            found = re.findall(r"<(?:a|link|script)\b[^>]*?(?:href|src)=\"([^\"#]+)", answer.text)
            wanted |= {link.replace("&amp;", "&") for link in found} - seen
    assert {f"/studies/{STUDY}", f"/studies/{STUDY}/people", "/system/access", "/system/audit"} <= seen
    assert len(seen) > 10


def test_every_form_leads_to_a_route(operator: Browser) -> None:
    posts = [compile_path(route.path)[0] for route in ROUTES if route.method == "POST"]
    for path in PAGES:
        for action in re.findall(r"<form[^>]*method=\"post\"[^>]*action=\"([^\"]+)\"", operator.get(path).text):
            assert any(route.fullmatch(action.partition("?")[0]) for route in posts), (path, action)


def test_every_form_carries_the_token(operator: Browser) -> None:
    for path in PAGES:
        for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", operator.get(path).text, re.DOTALL):
            assert f'name="csrf" value="{operator.csrf}"' in form, (path, form)


def test_names_are_escaped_wherever_they_appear(desk: Desk, operator: Browser) -> None:
    name = "<script>alert('x')</script>\"&"
    desk.add(name, new_key(), "viewer", STUDY)
    key = new_key()
    desk.add("<b>bold</b>", key)
    for path in PAGES:
        page = operator.get(path)
        if page.headers.get("content-type", "").startswith("text/csv"):  # which no browser takes for a page
            continue
        assert "<script>alert" not in page.text, path
        assert "<b>bold" not in page.text, path
    assert "&lt;script&gt;alert" in operator.get("/system/access").text
    found = operator.get("/?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E").text
    assert "<script>alert" not in found
    assert "No study is found" in found


# -- a viewer


def test_a_viewer_sees_one_study_and_changes_nothing(desk: Desk, viewer: Browser) -> None:
    page = viewer.get("/").text
    assert STUDY in page
    assert OTHER not in page
    assert "/new" not in page
    assert "/system" not in page
    assert viewer.get(f"/studies/{STUDY}/people").status_code == 200
    for path in PAGES:
        text = viewer.get(path).text
        assert OTHER not in text, path
    for path in (page for page in PAGES if page.startswith("/system")):
        refused = viewer.get(path)
        assert refused.status_code == 403, path
        assert "looking only" in refused.text


def test_a_viewer_is_refused_the_pages_and_streams_of_other_studies(viewer: Browser) -> None:
    other = [path.replace(STUDY, OTHER) for path in PAGES + STREAMS if STUDY in path]
    assert other
    for path in other:
        assert viewer.get(path).status_code == 403, path
    for path in (path for path in STREAMS if path.startswith("/system")):
        assert viewer.get(path).status_code == 403, path


def test_a_viewer_s_forms_are_refused(desk: Desk, viewer: Browser) -> None:
    for path in (path for path in FORMS if path != "/sign-out"):
        assert viewer.send(path, name="mallory", role="operator").status_code == 403, path
    assert [key.name for key in operators.list_keys(desk.coordinator.database)] == ["me", "visitor"]


def test_a_viewer_s_page_has_no_buttons_but_to_sign_out_and_to_search(viewer: Browser) -> None:
    for path in ("/", f"/studies/{STUDY}", f"/studies/{STUDY}/people"):
        forms = re.findall(r"<form[^>]*method=\"post\"[^>]*action=\"([^\"]+)\"", viewer.get(path).text)
        assert forms == ["/sign-out"], path


# -- errors


def test_errors_are_pages_for_browsers_and_json_for_programs(operator: Browser) -> None:
    for path, status in (("/nothing", 404), ("/studies/none/people", 404), ("/studies/UPPER/people", 404)):
        page = operator.get(path)
        assert page.status_code == status
        assert page.headers["content-type"].startswith("text/html")
        assert "<h1>" in page.text
        assert list(operator.get(path, accept="*/*").json()) == ["error"]
    assert operator.client.put("/system", headers={"accept": "text/html"}).status_code == 405
    too_long = operator.client.post("/system/access", data={"name": "x" * 10_000})
    assert too_long.status_code == 413
    assert "<h1>" in too_long.text


def test_the_api_answers_browsers_in_json_too(operator: Browser) -> None:
    assert list(operator.get("/v2/studies").json()) == ["error"]


def test_a_refused_request_of_htmx_is_a_message_on_the_open_page(operator: Browser) -> None:
    answer = operator.get("/studies/none/people", **{"hx-request": "true"})
    assert answer.status_code == 404
    assert answer.text.startswith('<hx-partial hx-target="#notice"')
    assert "there is no study" in answer.text.lower()


def test_a_fault_is_a_page_that_says_nothing_of_the_inside(desk: Desk, operator: Browser) -> None:
    with desk.coordinator.database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE counts RENAME TO secret_counts")
    answer = operator.get("/")
    assert answer.status_code == 503
    assert "The database does not answer" in answer.text
    assert "counts" not in answer.text


# -- scripts and style sheets


def loaded(browser: Browser, text: str, kind: str) -> dict[str, bytes]:
    """Return what a page loads of a kind, as it is served, by address."""
    found = re.findall(rf"(?:src|href)=\"(/static/[^\"]+\.{kind})\"", text)
    packed = {}
    for address in found:
        with browser.client.stream("GET", address, headers={"accept-encoding": "gzip"}) as answer:
            assert answer.headers["content-encoding"] == "gzip"
            packed[address] = b"".join(answer.iter_raw())
    return packed


def test_the_scripts_of_all_pages_together_are_small(operator: Browser) -> None:
    found: dict[str, bytes] = {}
    for path in PAGES:
        found |= loaded(operator, operator.get(path).text, "js")
    names = {address.split("/")[-1].split(".")[0] for address in found}
    assert {"htmx", "hx-sse", "console"} <= names
    assert sum(map(len, found.values())) <= MOST_SCRIPT
    assert sum(len(asset.packed) for name, asset in assets().items() if name.endswith(".js")) <= MOST_SCRIPT


def test_files_are_kept_for_ever_because_their_names_follow_from_their_content(stranger: Browser) -> None:
    for address, packed in loaded(stranger, stranger.get("/sign-in").text, "(?:js|css)").items():
        answer = stranger.get(address, **{"accept-encoding": "identity"})
        assert gzip.decompress(packed) == answer.content
        assert "content-encoding" not in answer.headers
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"].split(";")[0] in ("text/javascript", "text/css")
    assert stranger.get("/static/htmx.js").status_code == 404
    assert stranger.get("/static/..%2fpages.py").status_code == 404


def test_the_licences_of_other_people_s_scripts_are_shipped() -> None:
    from importlib.resources import files

    static = files("voxpop.service.console") / "static"
    assert "Zero-Clause BSD" in (static / "htmx.LICENSE.txt").read_text(encoding="utf-8")
    assert "MIT License" in (static / "uplot.LICENSE.txt").read_text(encoding="utf-8")

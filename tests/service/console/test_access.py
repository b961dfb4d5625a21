"""Keys and sessions on the page: a key is shown once, and nobody locks everybody out."""

import re

from tests.service.console.browser import KEY, Browser, Desk
from tests.service.world import STUDY
from voxpop.service import audit, operators

PLACE = "/system/access"


def names(desk: Desk) -> list[str]:
    return [key.name for key in operators.list_keys(desk.coordinator.database) if key.revoked_at is None]


def made_key(text: str) -> str:
    found = re.search(r'<code class="secret">([^<]+)</code>', text)
    assert found is not None
    return found[1]


def test_a_new_key_is_shown_once_and_works(desk: Desk, operator: Browser, stranger: Browser) -> None:
    answer = operator.send(PLACE, name="anna", role="viewer", study=STUDY)
    key = made_key(answer.text)
    assert key not in operator.get(PLACE).text
    assert key not in str(audit.trail(desk.coordinator.database))
    principal = operators.principal_of(desk.coordinator.database, key)
    assert principal == operators.Principal("anna", "member", {STUDY: "viewer"})
    assert stranger.sign_in(key).status_code == 303


def test_sending_the_form_again_replaces_nothing(desk: Desk, operator: Browser) -> None:
    key = made_key(operator.send(PLACE, name="anna", role="operator").text)
    again = operator.send(PLACE, name="anna", role="operator")
    assert again.status_code == 409
    assert "there is a key under the name" in again.text.lower()
    assert operators.principal_of(desk.coordinator.database, key) is not None


def test_what_is_wrong_with_a_key_is_said_on_the_form(desk: Desk, operator: Browser) -> None:
    for fields, status, said in (
        ({"name": "", "role": "operator"}, 422, "1 to 64 printable characters"),
        ({"name": "x" * 65, "role": "operator"}, 422, "1 to 64 printable characters"),
        ({"name": "anna", "role": "viewer"}, 422, "the role viewer is for some studies"),
        ({"name": "anna", "role": "viewer", "study": "none"}, 404, "there is no study"),
        ({"name": "anna", "role": "king"}, 422, "king"),
    ):
        answer = operator.send(PLACE, **fields)
        assert answer.status_code == status, fields
        assert said in answer.text.lower(), fields
    assert names(desk) == ["me", "visitor"]


def test_a_key_is_revoked_in_the_operator_s_name(desk: Desk, operator: Browser, viewer: Browser) -> None:
    answer = operator.send(f"{PLACE}/revoke", name="visitor")
    assert (answer.status_code, answer.headers["location"]) == (303, PLACE)
    assert names(desk) == ["me"]
    assert viewer.get("/").status_code == 303
    last = audit.trail(desk.coordinator.database)[0]
    assert (last.actor, last.action, last.detail) == ("me", "key revoked", "visitor")


def test_the_last_operator_cannot_lock_everybody_out(desk: Desk, operator: Browser) -> None:
    refused = operator.send(f"{PLACE}/revoke", name="me")
    assert refused.status_code == 409
    assert "make another operator" in refused.text
    operator.send(PLACE, name="anna", role="operator")
    assert operator.send(f"{PLACE}/revoke", name="me").status_code == 303
    assert names(desk) == ["anna", "visitor"]


def test_another_browser_s_session_can_be_ended(desk: Desk, operator: Browser, viewer: Browser) -> None:
    page = operator.get(PLACE).text
    numbers = re.findall(r'name="number" value="([0-9a-f]{64})"', page)
    assert len(numbers) == 1  # that of the viewer; one's own has the button to sign out
    assert operator.send(f"{PLACE}/end", number=numbers[0]).status_code == 303
    assert viewer.get("/").status_code == 303
    assert operator.get("/").status_code == 200
    assert operator.send(f"{PLACE}/end", number=numbers[0]).status_code == 303  # it has ended already
    assert operator.send(f"{PLACE}/end", number="no number").status_code == 422


def test_the_audit_trail_has_pages(desk: Desk, operator: Browser) -> None:
    for number in range(60):
        operators.add_key(desk.coordinator.database, "anna", f"{KEY}{number}", desk.clock())
    first = operator.get("/system/audit").text
    older = re.search(r'href="(/system/audit\?before=\d+)"', first)
    assert older is not None
    second = operator.get(older[1]).text
    both = [set(re.findall(r'id="entry-(\d+)"', text)) for text in (first, second)]
    assert len(both[0]) == 50
    assert both[1]
    assert not both[0] & both[1]
    assert len(both[0] | both[1]) == len(audit.trail(desk.coordinator.database, most=200))
    for odd in ("x", "-1", "9" * 30, "١"):
        assert operator.get(f"/system/audit?before={odd}").status_code == 200

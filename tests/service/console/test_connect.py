"""The pages that connect a study with others, for operators and for its owner, and what they refuse."""

import re
import xml.etree.ElementTree as ET

import pytest

from tests.helpers_cli import STUDY as FILE
from tests.service.console.browser import OTHER, Browser, Desk
from tests.service.test_http import as_
from tests.service.world import STUDY
from voxpop.service import audit, operators
from voxpop.service.console.connect import link_of, sheet_of
from voxpop.service.keys import new_key
from voxpop.service.outbox.receivers import list_deliveries, list_hooks
from voxpop.service.study.status import notes_of, status_of

PLACE, ALL = f"/studies/{STUDY}/connect", "/system/webhooks"
SHOP = {"do": "add", "name": "shop", "address": "https://1.1.1.1/x", "format": "json"}


@pytest.fixture
def owner(desk: Desk, stranger: Browser) -> Browser:
    """The owner of one study, who may look at another."""
    key = new_key()
    operators.add_key(desk.coordinator.database, "olga", key, 1.0, "owner", STUDY)
    operators.grant(desk.coordinator.database, "olga", OTHER, "viewer", 1.0)
    assert stranger.sign_in(key).status_code == 303
    return stranger


def test_an_owner_manages_one_study_and_nothing_else(desk: Desk, owner: Browser) -> None:
    assert {STUDY, OTHER} <= set(re.findall(r'href="/studies/([a-z]+)"', owner.get("/").text))
    assert [owner.get(path).status_code for path in (PLACE, f"/studies/{OTHER}/connect", ALL)] == [200, 403, 403]
    assert owner.get("/system/audit").status_code == owner.get("/system/audit.csv").status_code == 403
    shown = [owner.get(f"/studies/{study}").text for study in (STUDY, OTHER)]
    assert ['action="/studies/' in page for page in shown] == [True, False]
    assert "looking only" not in shown[0]
    assert owner.send(f"/studies/{STUDY}/life", wanted="paused").status_code == 303
    assert owner.send(f"/studies/{OTHER}/life", wanted="paused").status_code == 403
    assert owner.send(PLACE, **SHOP).status_code == 303
    assert owner.send(f"/studies/{OTHER}/connect", **SHOP).status_code == 403
    assert [
        (hook.name, hook.study) for hook in list_hooks(desk.coordinator.database, desk.coordinator.context.secrets)
    ] == [("shop", STUDY)]
    operators.grant(desk.coordinator.database, "olga", STUDY, None, 2.0)
    assert owner.get(PLACE).status_code == 403


def test_an_owner_plans_the_draft_of_their_study_and_no_other(desk: Desk, operator: Browser, owner: Browser) -> None:
    for name in ("idea", "other"):
        given = {"text": FILE, "name": name, "then": "decisions", "step": "pilot"}
        assert operator.send("/new/study", **given).status_code == 303
    operators.grant(desk.coordinator.database, "olga", "idea", "owner", 1.0)
    assert 'href="/studies/idea/plan/decisions"' in owner.get("/studies/idea").text
    places = re.findall(r'action="(/studies/[a-z/]+)"', owner.get("/studies/idea/plan/people").text)
    assert places == ["/studies/idea/plan", "/studies/idea/rehearsal"]
    for name, status in (("idea", 303), ("other", 403)):
        saved = owner.send(f"/studies/{name}/plan", step="decisions", then="people", horizon="700", name="other")
        assert saved.status_code == owner.send(f"/studies/{name}/rehearsal").status_code == status
        assert owner.get(f"/studies/{name}/plan/people").status_code == (200 if status == 303 else 403)
    horizons = [desk.coordinator.snapshots.current(name).definition.problem.horizon for name in ("idea", "other")]
    assert horizons == [700, 500]
    assert owner.send("/studies/idea/plan", step="rehearsal", then="start").status_code == 303
    assert owner.send(f"/studies/{STUDY}/plan", text=FILE, step="decisions", then="people").status_code == 422
    assert status_of(desk.coordinator.context, "idea").life == "running"


def test_an_owner_reaches_no_receiver_of_others(desk: Desk, operator: Browser, owner: Browser) -> None:
    assert operator.send(ALL, **{**SHOP, "name": "all"}).status_code == 303
    assert operator.send(ALL, do="test", name="all").status_code == 303
    (test,) = list_deliveries(desk.coordinator.database)
    for sent in ({"do": "test", "name": "all"}, {"do": "again", "number": str(test.number)}):
        assert owner.send(PLACE, **sent).status_code == 404
    owner.send(PLACE, do="remove", name="all")
    taken = owner.send(PLACE, **{**SHOP, "name": "all"})
    assert (taken.status_code, "there is a receiver" in taken.text.lower()) == (409, True)
    assert len(list_hooks(desk.coordinator.database, desk.coordinator.context.secrets)) == 1
    assert "1.1.1.1" not in owner.get(PLACE).text
    assert operator.send(ALL, do="again", number=str(test.number)).status_code == 303


def test_the_application_s_key_is_shown_once_and_decisions_are_opened(desk: Desk, operator: Browser) -> None:
    page = operator.send(PLACE, do="key", name="shop").text
    found = re.search(r'<code class="secret">([^<]+)</code>', page)
    assert found is not None
    assert found[1] not in operator.get(PLACE).text
    answer = operator.client.get(f"/v2/studies/{STUDY}/decision", headers=as_(found[1]))
    assert answer.status_code == 200
    assert operator.send(PLACE, do="key", name="shop").status_code == 409
    assert operator.client.get(f"/v2/studies/{STUDY}/decision").status_code == 401
    operator.send(PLACE, do="public", public="yes")
    assert operator.client.get(f"/v2/studies/{STUDY}/decision").status_code == 200


def test_a_note_is_short_and_on_a_wave_that_there_is(desk: Desk, operator: Browser) -> None:
    desk.register(60)
    assert operator.send(PLACE, do="note", wave="1", text=" holiday\n week <b>").status_code == 303
    (note,) = notes_of(desk.coordinator.context, STUDY)
    assert (note.wave, note.text, note.actor) == (1, "holiday week <b>", "me")
    assert "holiday week &lt;b&gt;" in operator.get(PLACE).text
    assert "Note: holiday week &lt;b&gt;" in operator.get(f"/studies/{STUDY}").text
    assert "Note: holiday week" not in operator.get(f"/studies/{OTHER}").text
    long = operator.send(PLACE, do="note", wave="1", text="x" * 10**6)
    assert (long.status_code, "at most 200 printable characters, got 1,000,000" in long.text) == (422, True)
    assert operator.send(PLACE, do="note", wave="7", text="x").status_code == 404
    assert operator.send(PLACE, do="note", wave="one", text="x").status_code == 422
    assert notes_of(desk.coordinator.context, STUDY) == [note]
    operator.send(PLACE, do="note", wave="1", text="")
    assert notes_of(desk.coordinator.context, STUDY) == []
    assert [one.detail for one in audit.trail(desk.coordinator.database, action="noted")] == [
        "wave 1: removed",
        "wave 1: holiday week <b>",
    ]


def test_each_invitation_of_a_sheet_registers_one_person_once(desk: Desk, operator: Browser) -> None:
    sheet = operator.send(PLACE, do="invite", count="3", link="https://app.example/join")
    assert "attachment" in sheet.headers["content-disposition"]
    links = re.findall(r"<p>(https://app.example/join#[^<]+)</p>", sheet.text)
    assert (len(set(links)), sheet.text.count("<svg")) == (3, 3)
    codes = [link.partition("#")[2] for link in links]

    def register(code: str, key: str) -> int:
        head = as_(key) | {"x-voxpop-enrolment": code}
        return operator.client.put(f"/v2/studies/{STUDY}/participant", headers=head).status_code

    first = new_key()
    assert [register(code, new_key()) for code in codes[1:]] == [201, 201]
    assert [register(codes[0], first), register(codes[0], first)] == [201, 200]  # a device may ask again
    used = operator.client.put(
        f"/v2/studies/{STUDY}/participant", headers=as_(new_key()) | {"x-voxpop-enrolment": codes[0]}
    )
    assert (used.status_code, "code" in used.json()["error"]) == (403, True)
    for count, link in (("0", "https://a.example"), ("9999", "https://a.example"), ("3", "javascript:alert(1)")):
        assert operator.send(PLACE, do="invite", count=count, link=link).status_code == 422


def test_a_qr_code_says_the_link() -> None:
    """Read back from the picture: as many dark modules as the library's own matrix has."""
    import segno

    link = link_of("https://app.example/join", "x7-_Y")
    svg = re.search(r"<svg.*?</svg>", sheet_of("tea", [link]), re.DOTALL)
    assert svg is not None
    assert ET.fromstring(svg[0]).find(".//{*}path") is not None or ET.fromstring(svg[0]).find(".//path") is not None
    assert segno.make(link, error="m").svg_inline(scale=3, border=4) == svg[0]


def test_the_audit_trail_is_narrowed_and_saved(desk: Desk, operator: Browser) -> None:
    operator.send(f"/studies/{STUDY}/life", wanted="paused")
    desk.add("=cmd()", new_key())
    page = operator.get(f"/system/audit?study={STUDY}&action=paused").text
    assert (page.count('<tr id="entry-'), "hx-sse:connect" in page) == (1, False)
    assert f'href="/system/audit.csv?study={STUDY}&amp;action=paused"' in page
    table = operator.get(f"/system/audit.csv?study={STUDY}&action=paused")
    assert "attachment" in table.headers["content-disposition"]
    head, line = table.text.splitlines()
    assert (head, line.split(",")[2:5]) == ("number,time,actor,action,study,detail", ["me", "paused", STUDY])
    everything = operator.get("/system/audit.csv?actor=nobody").text
    assert everything.count("\n") == 1
    assert "'=cmd() (operator)" in operator.get("/system/audit.csv?action=key+added").text


def test_a_person_s_own_data_is_all_that_is_kept_and_for_nobody_else(desk: Desk, operator: Browser) -> None:
    place, key = f"/v2/studies/{STUDY}/participant", new_key()
    assert operator.client.put(place, headers=as_(key)).status_code == 201
    assert operator.client.get(place, headers=as_(key)).json() == {
        "study": STUDY,
        "stratum": None,
        "participations": 0,
        "waves": [],
    }
    assert operator.client.get(place, headers=as_(new_key())).status_code == 401
    operator.client.delete(place, headers=as_(key))
    gone = operator.client.get(place, headers=as_(key))
    assert (gone.status_code, "nothing is kept" in gone.json()["error"]) == (401, True)

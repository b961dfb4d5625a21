"""Over HTTP: who may call what, what is refused and how, and what stays out of the logs."""

import io
import json
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np
import pytest
import structlog
from starlette.types import ASGIApp

from tests.helpers_waiting import HANGING
from tests.service.served import served
from tests.service.world import SECRET, STUDY, Clock, add_operator, definition, private, take_step
from voxpop.privacy.central import Central
from voxpop.service import logs
from voxpop.service.keys import new_key, sign
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.study import participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.participants import Newcomer
from voxpop.service.study.status import status_of
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.shuffler_app import ShufflerApp

KEY, SHUFFLER_KEY = new_key(), b"k" * 40
BATCH = "b" * 43
ENCODED = {"size": 2, "coordinates": 1, "levels": 2, "trials": 3, "chance": 0.5}


def as_(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@contextmanager
def client_of(app: ASGIApp, lifespan: Literal["on", "off"] = "off") -> Iterator[httpx.Client]:
    # Nothing here is encrypted, and loading certificates takes longer than most tests.
    with served(app, lifespan) as url, httpx.Client(base_url=url, timeout=HANGING, verify=False) as client:
        yield client


class Site:
    """A coordinator behind HTTP with one study that collects, and its people."""

    def __init__(
        self, folder: Path, rate: float = 0.0, model: str = "central", origins: frozenset[str] = frozenset()
    ) -> None:
        self.clock, self.model = Clock(), model
        self.coordinator = Coordinator(open_store(str(folder / "c.db"), "coordinator"), SECRET, clock=self.clock)
        add_operator(self.coordinator, "me", KEY)
        self.service = CoordinatorApp(self.coordinator, SHUFFLER_KEY, origins=origins)
        self.stack = ExitStack()
        self.client = self.stack.enter_context(client_of(self.service.guarded(RateLimit(rate, 3), 4096)))
        self.people = [new_key() for _ in range(20)]

    def close(self) -> None:
        self.stack.close()
        self.coordinator.database.close()

    def collect(self, **rules: Any) -> None:
        self.coordinator.create(STUDY, definition(None if self.model == "none" else private(self.model), **rules))
        participants.register(self.coordinator.context, [Newcomer(STUDY, key) for key in self.people])
        self.step()
        self.coordinator.play(STUDY, 1, "all", 1)
        self.step()

    def step(self) -> None:
        while take_step(self.coordinator, STUDY):
            pass

    def invited(self) -> list[dict[str, Any]]:
        found = [self.client.get(f"/v2/studies/{STUDY}/checkin", headers=as_(key)).json() for key in self.people]
        return [one for one in found if one["invited"]]

    def put(self, token: str, body: Any, wave: object = 1, study: str = STUDY, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.put(
            f"/v2/studies/{study}/waves/{wave}/report",
            content=content,
            headers={"content-type": "application/json", **as_(token), **headers},
        )

    @property
    def answered(self) -> int:
        return int(status_of(self.coordinator.context, STUDY).answered)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def sentence(answer: httpx.Response) -> str:
    """Return the sentence of a refusal."""
    body = answer.json()
    assert set(body) == {"error"}
    assert body["error"]
    assert "\n" not in body["error"]
    return str(body["error"])


def test_a_report_is_counted_once(site: Site) -> None:
    site.collect()
    token = site.invited()[0]["token"]
    assert site.put(token, {"report": [0.5]}).status_code == 201
    assert site.put(token, {"report": [0.5]}).status_code == 200
    other = site.put(token, {"report": [0.6]})
    assert other.status_code == 409
    assert "stays as it is" in sentence(other)
    assert site.answered == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 100_0, 400),
        (b'{"report": ["0.5"]}', 422),
        (b'{"report": [true]}', 422),
        (b'{"report": [[0.5]]}', 422),
        (b'{"report": []}', 422),
        (b'{"report": [0.5, 0.5]}', 422),
        (b'{"report": 0.5}', 422),
        (b'{"report": [0.5], "more": 1}', 422),
        (b"[0.5]", 422),
        (b"null", 422),
        (b"\xff\xfe", 400),
        (b'{"report": [' + b"0.5," * 2000 + b"0.5]}", 413),
    ],
)
def test_bad_reports_are_refused(site: Site, body: bytes, status: int) -> None:
    site.collect()
    token = site.invited()[0]["token"]
    answer = site.put(token, body)
    assert answer.status_code == status, answer.text
    sentence(answer)
    assert site.answered == 0
    assert site.put(token, {"report": [0.5]}).status_code == 201


ODD = [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e400", b"9" * 400, b"-" + b"9" * 900, b"null", b"1e308", b"0"]


def test_where_answers_are_clipped_none_is_refused_for_its_value(site: Site) -> None:
    """A refusal would tell those who see it something about the answer."""
    site.collect()
    tokens = [one["token"] for one in site.invited()]
    for token, number in zip(tokens, [*ODD, b"0.5", b"0.5"], strict=True):
        assert site.put(token, b'{"report": [' + number + b"]}").status_code == 201, number
    site.step()
    closed = site.coordinator.snapshots.current(STUDY).closed[0]
    release = closed.release
    assert isinstance(release, Central)
    assert closed.feedback.count == 12
    # Three at plus and three at minus infinity, one of each large: their places on the ball cancel, but for one.
    noise = 8 * release.std * release.step * float(np.abs(release.ball.root).sum()) / 12
    y = np.array([[math.nan], [math.inf], [-math.inf], [1e999], [-1e400], [9e400], [-9e900], [math.nan], [1e308]])
    y = np.concatenate([y, [[0.0], [0.5], [0.5]]])
    expected = release.ball.restore(release.clipped(y).mean(axis=0))
    np.testing.assert_allclose(closed.feedback.mean, expected, atol=noise)


def test_without_privacy_an_answer_that_is_no_number_is_refused(tmp_path: Path) -> None:
    site = Site(tmp_path, model="none")
    site.collect()
    token = site.invited()[0]["token"]
    for number in ODD[:9]:
        answer = site.put(token, b'{"report": [' + number + b"]}")
        assert answer.status_code == 422
        sentence(answer)
    assert site.put(token, {"report": [0.5]}).status_code == 201
    site.close()


def test_wrong_tokens_studies_waves_and_types_are_refused(site: Site) -> None:
    site.collect()
    token, good = site.invited()[0]["token"], {"report": [0.5]}
    answers = {
        401: [site.put(new_key(), good), site.put(KEY, good), site.put(site.people[0], good), site.put("short", good)],
        403: [site.put(token, good, wave=2)],
        404: [site.put(token, good, wave="x"), site.put(token, good, wave=0), site.put(token, good, study="UPPER")],
        415: [site.put(token, good, **{"content-type": "text/plain"})],
    }
    for status, found in answers.items():
        for answer in found:
            assert answer.status_code == status, answer.text
            sentence(answer)
    nowhere = site.put(token, good, study="coffee")
    assert nowhere.status_code == 403
    assert site.answered == 0


def test_a_report_that_comes_too_late_is_refused(site: Site) -> None:
    site.collect(deadline=10.0)
    token = site.invited()[0]["token"]
    site.clock.now += 11
    site.step()
    answer = site.put(token, {"report": [0.5]})
    assert answer.status_code == 410
    assert "too late" in sentence(answer)
    tokens = [one["token"] for one in site.invited()]
    assert [site.put(one, {"report": [0.5]}).status_code for one in tokens] == [201] * 12
    site.step()
    assert site.put(tokens[0], {"report": [0.5]}).status_code == 200  # the acknowledgement was lost
    assert site.put(tokens[0], {"report": [0.6]}).status_code == 409
    assert site.put(token, {"report": [0.5]}).status_code == 410


def test_time_is_told_in_seconds_left(site: Site) -> None:
    """A device whose clock is years off must know how long it has."""
    site.collect(deadline=50.0)
    site.clock.now += 20
    assert site.invited()[0]["seconds_left"] == 30.0


def test_nobody_can_speak_for_the_shuffler(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/v2/batches/{BATCH}/total"
    body = json.dumps({"count": 1, "total": [1], "tokens": ["00" * 32]}).encode()
    monkeypatch.setattr(site.service, "_awaits", lambda batch: True)
    for signature in (
        "",
        "v1=" + "0" * 64,
        sign(b"another key", "PUT", path, body),
        sign(SHUFFLER_KEY, "PUT", path, b""),
    ):
        headers = {"content-type": "application/json", "x-voxpop-signature": signature}
        answer = site.client.put(path, content=body, headers=headers)
        assert answer.status_code == 401
        assert "shuffler" in sentence(answer)
    headers = {"content-type": "application/json", "x-voxpop-signature": sign(SHUFFLER_KEY, "PUT", path, body)}
    assert site.client.put(path, content=body, headers=headers).status_code == 410


def test_nobody_can_speak_for_the_coordinator(tmp_path: Path) -> None:
    database = open_store(str(tmp_path / "s.db"), "shuffler")
    service = ShufflerApp(Shuffler(database, lambda kind, **values: None), "http://127.0.0.1:1", SHUFFLER_KEY)
    body = json.dumps({**ENCODED, "tokens": [], "overdue": []}).encode()
    path = f"/v2/batches/{BATCH}"
    with client_of(service.guarded(RateLimit(0, 1), 4096)) as client:
        for key, status in ((b"another", 401), (SHUFFLER_KEY, 200)):
            headers = {"content-type": "application/json", "x-voxpop-signature": sign(key, "PUT", path, body)}
            assert client.put(path, content=body, headers=headers).status_code == status
        assert client.put(path, content=body, headers={"content-type": "application/json"}).status_code == 401
    database.close()


APP = CoordinatorApp(Coordinator(None, b""))  # type: ignore[arg-type]  # its routes need no database
ROUTES = [(route.method, route.path, route.role) for route in APP.routes() if route.documented]


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    """A site with a study that collects, which nobody changes, and the token of an invitation to it."""
    made = Site(tmp_path_factory.mktemp("refusing"))
    made.collect()
    yield made, made.invited()[0]["token"]
    made.close()


@pytest.mark.parametrize(("method", "path", "role"), ROUTES)
def test_every_route_declares_a_role_and_refuses_the_others(
    refusing: tuple[Site, str], method: str, path: str, role: str
) -> None:
    site, token = refusing
    declared = site.client.get("/openapi.json").json()["paths"][path][method.lower()]
    assert declared["x-voxpop-role"] == role
    address = path.format(study=STUDY, wave=1, key="k", batch=BATCH, name="someone", number=1)
    body = {"report": [0.5]} if role == "token" else {}
    strangers = {"operator": KEY, "participant": site.people[0], "token": token}
    for name, key in {**strangers, "unknown": new_key(), "nothing": ""}.items():
        # A device chooses its own key, so anybody may register or withdraw one, but each checks in only for itself.
        chosen = role == "participant" and method in ("PUT", "DELETE")
        more = {"viewer": ["operator"], "application": ["operator"], "reader": ["operator", "participant"]}
        if role in ("anyone", name) or chosen or name in more.get(role, ()):
            continue
        headers = as_(key) if key else {}
        answer = site.client.request(method, address, json=body or None, headers=headers)
        assert answer.status_code == 401, (name, answer.text)
        sentence(answer)
    if role == "anyone":
        assert site.client.request(method, address).status_code == (503 if path == "/readyz" else 200)


def test_unknown_addresses_and_methods_are_refused(site: Site) -> None:
    assert (site.client.get("/nothing").status_code, site.client.delete("/v2/studies").status_code) == (404, 405)
    sentence(site.client.get("/nothing"))
    sentence(site.client.delete("/v2/studies"))


@pytest.mark.parametrize("path", [f"studies/{STUDY}/checkin", f"studies/{STUDY}/phases/1/report", f"batches/{BATCH}"])
def test_a_device_of_the_former_version_is_told_so(site: Site, path: str) -> None:
    """Not that the study is over, after which it would never ask again."""
    answer = site.client.get(f"/v1/{path}", headers=as_(new_key()))
    assert answer.status_code == 404
    assert "version 2 of the protocol" in sentence(answer)


def test_the_rate_is_limited_and_health_is_not(tmp_path: Path) -> None:
    site = Site(tmp_path, rate=0.001)
    answers = [site.client.get("/metrics").status_code for _ in range(5)]
    assert answers == [200, 200, 200, 429, 429]
    refused = site.client.get("/metrics")
    assert int(refused.headers["retry-after"]) >= 1
    sentence(refused)
    assert site.client.get("/healthz").status_code == 200
    site.close()


def test_buckets_fill_again() -> None:
    clock = Clock()
    buckets = RateLimit(2.0, 3.0, clock)
    assert [buckets.take("a") > 0 for _ in range(4)] == [False, False, False, True]
    assert buckets.take("b") == 0
    clock.now += 0.5
    assert [buckets.take("a") > 0 for _ in range(2)] == [False, True]


def test_a_body_without_a_length_is_cut_off(site: Site) -> None:
    site.collect()

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    token = site.invited()[0]["token"]
    headers = {"content-type": "application/json", **as_(token)}
    answer = site.client.put(f"/v2/studies/{STUDY}/waves/1/report", content=endless(), headers=headers)
    assert answer.status_code == 413
    sentence(answer)


def test_a_wave_with_many_decisions_does_not_raise_the_limit_of_the_service(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.collect()
    monkeypatch.setattr(CoordinatorApp, "_known_numbers", lambda *_: 10**6)
    headers = {"content-type": "application/json", **as_(site.invited()[0]["token"])}
    content = (b" " * 2**20 for _ in range(3))
    answer = site.client.put(f"/v2/studies/{STUDY}/waves/1/report", content=content, headers=headers)
    assert answer.status_code == 413
    sentence(answer)


def test_an_unexpected_error_is_one_sentence_and_the_service_lives_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.collect()
    secret = "the-message-quotes-a-report"

    def broken(*_: object) -> None:
        raise RuntimeError(secret)

    monkeypatch.setattr(site.coordinator, "decision", broken)
    heard = io.StringIO()
    with redirect_stderr(heard):
        logs.set_up("debug")
        answer = site.client.get(f"/v2/studies/{STUDY}/decision", headers=as_(KEY))
    assert answer.status_code == 500
    assert "try again" in sentence(answer)
    assert secret not in heard.getvalue() + answer.text
    assert '"error": "RuntimeError"' in heard.getvalue()
    assert site.client.get("/healthz").status_code == 200


def test_no_report_key_or_token_is_in_any_log(tmp_path: Path) -> None:
    heard = io.StringIO()
    with redirect_stderr(heard):
        logs.set_up("debug")
        site = Site(tmp_path)
        site.coordinator.context.note = logs.event_logger("coordinator")
        site.collect()
        invitations = site.invited()
        value = 0.123456789
        for number, one in enumerate(invitations):
            site.put(one["token"], {"report": [value + number]})
            site.put(one["token"], {"report": [math.pi]})
        site.put(invitations[0]["token"], b"{broken " + str(value).encode())
        site.client.get(f"/v2/studies/{STUDY}", headers=as_(KEY))
        site.client.get(f"/{KEY}")
        site.client.get(f"/v2/studies/{STUDY}/decision?key={KEY}")
        site.step()
        site.close()
    structlog.reset_defaults()
    text = heard.getvalue()
    assert '"event": "closed"' in text
    assert '"status": 409' in text
    for secret in (KEY, "0.12345", "3.14159", *site.people, *(one["token"] for one in invitations)):
        assert secret not in text
    for line in text.splitlines():
        json.loads(line)


def test_no_key_or_token_is_in_the_database(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.collect()
    tokens = [one["token"] for one in site.invited()]
    values = np.random.default_rng(0).random(12)
    for token, value in zip(tokens, values.tolist(), strict=True):
        site.put(token, {"report": [value]})
    site.step()
    site.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("c.db*"))
    for secret in (KEY, *site.people, *tokens):
        assert secret.encode() not in stored
    for value in values:  # the reports of a closed wave are overwritten, not just unlinked
        assert np.float64(value).tobytes() not in stored


def test_a_study_with_an_enrolment_code_registers_only_those_who_have_it(site: Site) -> None:
    body = {"definition": definition().encode(), "enrolment_code": "sesame-open"}
    assert site.client.put("/v2/studies/club", json=body, headers=as_(KEY)).status_code == 201
    key = new_key()
    for code, status in (
        ({}, 403),
        ({"x-voxpop-enrolment": "wrong"}, 403),
        ({"x-voxpop-enrolment": "sesame-open"}, 201),
    ):
        answer = site.client.put("/v2/studies/club/participant", headers={**as_(key), **code})
        assert answer.status_code == status


@pytest.mark.parametrize(
    "change",
    [
        {"problem": {}},
        {"problem": None},
        {"policy": {"name": "gp-ucb"}},
        {"policy": {"name": "dbpe"}},
        {"privacy": {"model": "shuffle", "epsilon": 5}},
        {"rules": {"deadline": -1}},
        {"rules": {"dedline": 5}},
        {"more": 1},
    ],
)
def test_unusable_studies_are_refused(site: Site, change: dict[str, Any]) -> None:
    body = {"definition": {**definition().encode(), **change}}
    answer = site.client.put("/v2/studies/bad", json=body, headers=as_(KEY))
    assert answer.status_code in (409, 422)
    sentence(answer)
    assert site.coordinator.studies() == []


def test_ready_means_that_studies_move(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.client.get("/readyz").status_code == 503  # nothing runs in the background here
    with client_of(CoordinatorApp(site.coordinator).guarded(RateLimit(0, 1), 4096), "on") as client:
        assert client.get("/readyz").json() == {"status": "ready"}
    site.close()


def test_what_can_be_seen_of_a_study_is_for_those_who_may_look(site: Site) -> None:
    site.collect()
    seen = site.client.get(f"/v2/studies/{STUDY}/watch", headers=as_(KEY)).json()
    assert (seen["status"]["invited"], len(seen["lower"]), seen["ledger"]["releases"]) == (12, 6, 0)
    open_one = CoordinatorApp(site.coordinator, open_dashboard=True)
    with client_of(open_one.guarded(RateLimit(0, 1), 4096)) as client:
        assert client.get(f"/v2/studies/{STUDY}/watch").status_code == 200
        declared = client.get("/openapi.json").json()["paths"]["/v2/studies/{study}/watch"]["get"]
    assert declared["x-voxpop-role"] == "anyone"


def test_bad_uploads_of_a_group_do_not_affect_the_others(site: Site) -> None:
    from voxpop.service.study.inbox import Upload, store

    site.collect()
    tokens = [one["token"] for one in site.invited()]
    good, bad = np.array([0.5]).tobytes(), np.array([0.5, 0.5]).tobytes()
    uploads = [Upload((STUDY, 1), token, bad if index % 3 == 0 else good) for index, token in enumerate(tokens)]
    verdicts = store(site.coordinator.context, uploads)
    assert [isinstance(verdict, Refusal) for verdict in verdicts] == [index % 3 == 0 for index in range(12)]
    assert site.answered == 8

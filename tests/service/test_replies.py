"""Every reply of both services, in a study from its creation to its end, is as the OpenAPI documents say."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import schemathesis

from tests.service.served import served
from tests.service.test_http import KEY, SHUFFLER_KEY, as_
from tests.service.world import SECRET, STUDY, add_operator, definition, private, take_step
from voxpop.io.schema import decode_release
from voxpop.privacy import Simulated
from voxpop.service.keys import Keyring, new_key
from voxpop.service.outbox.receivers import Outside
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.shuffler.signed_http import HttpShuffler, send
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.shuffler_app import ShufflerApp

Reply = tuple[str, str, int]  # method, path, status


class Services:
    """A coordinator, a shuffler, and a client that checks every reply against its service's document."""

    def __init__(self, folder: Path) -> None:
        self.client = httpx.Client(timeout=30, event_hooks={"response": [self._check]})
        self.seen: set[Reply] = set()
        self._operations: dict[str, list[tuple[re.Pattern[str], Any]]] = {}  # by address
        self._stack = ExitStack()
        self.coordinator = Coordinator(open_store(str(folder / "c.db"), "coordinator"), SECRET)
        add_operator(self.coordinator, "me", KEY)
        self._mine = CoordinatorApp(self.coordinator, SHUFFLER_KEY, outside=Outside((ip_network("127.0.0.0/8"),)))
        self.url = self.serve(self._mine, self._stack)
        self.shuffler = Shuffler(open_store(str(folder / "s.db"), "shuffler"), lambda kind, **values: None)
        self._theirs = ShufflerApp(self.shuffler, self.url, SHUFFLER_KEY)
        self._theirs._client = self.client
        self.shuffler_url = self.serve(self._theirs, self._stack)
        self.coordinator.context.shuffler = HttpShuffler(
            self.shuffler_url, Keyring.of(SHUFFLER_KEY), self.shuffler_url, self.client
        )

    def serve(self, app: CoordinatorApp | ShufflerApp, stack: ExitStack, **named: Any) -> str:
        url = stack.enter_context(served(app.guarded(RateLimit(0, 1), 2**20), **named))
        document = schemathesis.openapi.from_url(f"{url}/openapi.json")
        self._operations[url] = [
            (re.compile(re.sub(r"{\w+}", "[^/]+", path)), document[path][method])
            for path, methods in document.raw_schema["paths"].items()
            for method in methods
        ]
        return url

    def _check(self, response: httpx.Response) -> None:
        response.read()
        method, url = response.request.method, response.request.url
        operations = self._operations[f"{url.scheme}://{url.netloc.decode()}"]
        (made,) = (made for path, made in operations if path.fullmatch(url.path) and made.method.upper() == method)
        assert str(response.status_code) in made.definition.raw["responses"]
        made.validate_response(response)
        self.seen.add((method, made.path, response.status_code))

    def unseen(self) -> set[Reply]:
        """Return the replies that are documented and were never sent."""
        routes = [route for app in (self._mine, self._theirs) for route in app.routes() if route.documented]
        return {(route.method, route.path, status) for route in routes for status in route.replies} - self.seen

    def forward(self) -> None:
        """Forward the totals of whole batches, twice."""
        for batch, total in self.shuffler.sealed():
            self._theirs._forward()
            send(self.client, Keyring.of(SHUFFLER_KEY), self.url, f"/v2/batches/{batch}/total", total)

    def close(self) -> None:
        self._stack.close()
        self.client.close()
        self.coordinator.database.close()
        self.shuffler.database.close()


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    made = Services(tmp_path)
    yield made
    made.close()


def sent_of(invitation: dict[str, Any], rng: np.random.Generator) -> list[tuple[str, dict[str, Any] | bytes | None]]:
    """Make what a device sends: addresses and bodies."""
    told = invitation["wave"]
    release, arms = decode_release(told["release"]), len(told["arms"])
    report = np.asarray(release.randomize(rng.normal(0.5, 0.1, (1, arms)), Simulated(rng)), float)[0]
    parts = release.parts(report, Simulated(rng))
    if "helper" in invitation:
        return [(invitation["helper"], parts.helper), (invitation["upload"], parts.coordinator)]
    return [(invitation["upload"], parts.coordinator or parts.helper)]


def run_study(services: Services, people: list[str]) -> set[str]:
    """Play and answer until the study is finished, watching it meanwhile; return the statuses of check-ins."""
    client, place, said = services.client, f"{services.url}/v2/studies/{STUDY}", set()
    for turn in range(200):
        while take_step(services.coordinator, STUDY):
            pass
        for path in ("", "/log", "/watch"):
            client.get(place + path, headers=as_(KEY))
        for key in people:
            found = client.get(f"{place}/checkin", headers=as_(key)).json()
            said.add(found.get("status", "invited"))
            for address, body in 2 * sent_of(found, np.random.default_rng(turn)) if found["invited"] else ():
                place_of, who = httpx.URL(services.url).join(address), as_(found["token"])
                if isinstance(body, bytes):
                    client.put(place_of, content=body, headers={**who, "content-type": "application/octet-stream"})
                else:
                    client.put(place_of, json=body, headers=who)
        services.forward()
        for key in people:
            said.add(client.get(f"{place}/checkin", headers=as_(key)).json().get("status", "invited"))
        now = client.get(f"{place}/decision", headers=as_(people[0])).json()
        if now["stage"] == "finished":
            return said
        if now["rounds"]:
            body = {"wave": now["wave"], "rounds": now["rounds"]}
            client.put(f"{place}/rounds/{turn}", json=body, headers=as_(KEY))
    raise AssertionError("the study does not end")


def ask_for_the_rest(services: Services, person: str) -> None:
    place, mine = f"{services.url}/v2/studies", as_(KEY)
    services.client.get(place, headers=mine)
    services.client.delete(f"{place}/{STUDY}/participant", headers=as_(new_key()))
    send(services.client, Keyring.of(SHUFFLER_KEY), services.shuffler_url, f"/v2/batches/{'b' * 43}", method="DELETE")
    services.client.put(f"{place}/{STUDY}/codes", json={"codes": ["for-one-person"]}, headers=mine)
    member = {"role": "viewer", "study": STUDY}
    services.client.put(f"{services.url}/v2/keys/member", json=member, headers=mine)
    services.client.put(f"{services.url}/v2/keys/member/studies/{STUDY}", json={"role": "owner"}, headers=mine)
    services.client.put(f"{place}/{STUDY}/public", json={"public": True}, headers=mine)
    services.client.put(f"{place}/{STUDY}/waves/1/note", json={"text": "holiday week"}, headers=mine)
    services.client.put(f"{place}/{STUDY}/close", json={"wave": 1}, headers=mine)  # which is over
    services.client.get(f"{place}/{STUDY}/participant", headers=as_(person))
    hook = f"{services.url}/v2/webhooks/shop"
    services.client.put(hook, json={"address": "https://127.0.0.1:9/", "format": "slack"}, headers=mine)
    services.client.post(f"{hook}/test", headers=mine)
    told = services.client.get(f"{services.url}/v2/deliveries", headers=mine).json()["deliveries"]
    services.client.post(f"{services.url}/v2/deliveries/{told[0]['number']}/again", headers=mine)
    services.client.get(f"{services.url}/v2/webhooks", headers=mine)
    services.client.delete(hook, headers=mine)
    services.client.put(f"{place}/{STUDY}/life", json={"wanted": "archived"}, headers=mine)
    services.client.delete(f"{place}/{STUDY}", headers=mine)
    services.client.put(f"{services.url}/v2/keys/someone", json={}, headers=mine)
    services.client.get(f"{services.url}/v2/keys", headers=mine)
    services.client.delete(f"{services.url}/v2/keys/someone", headers=mine)
    services.client.get(f"{services.url}/v2/audit", headers=mine)
    with ExitStack() as stack:  # a coordinator is ready only while its scheduler runs
        running = services.serve(CoordinatorApp(services.coordinator), stack, lifespan="on")
        for url in (services.url, services.shuffler_url, running):
            for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/api"):
                services.client.get(url + path)


UPLOAD, BATCH = "/v2/studies/{study}/waves/{wave}/report", "/v2/batches/{batch}"
# The routes that a study of each trust model does not use.
TO_COORDINATOR = {("PUT", UPLOAD, status) for status in (200, 201)}
FORWARDED = {("PUT", BATCH + "/total", status) for status in (200, 201)}
SEALED = {("PUT", BATCH + "/verify", 200), ("PUT", BATCH + "/seal", 200)}
TO_SHUFFLER = FORWARDED | SEALED | {("PUT", BATCH, 200), *(("PUT", BATCH + "/report", status) for status in (200, 201))}
UNUSED = {"shuffle": TO_COORDINATOR | SEALED, "aggregate": FORWARDED}


@pytest.mark.parametrize("model", ["none", "central", "local", "shuffle", "aggregate"])
def test_every_reply_is_as_documented(services: Services, model: str) -> None:
    client, place, people = services.client, f"{services.url}/v2/studies/{STUDY}", [new_key() for _ in range(40)]
    body = {"definition": definition(None if model == "none" else private(model), horizon=7).encode()}
    for _ in range(2):
        client.put(place, json=body, headers=as_(KEY))
        for key in people:
            client.put(f"{place}/participant", headers=as_(key))
    assert run_study(services, people) == {"waiting", "invited", "answered", "finished"}
    ask_for_the_rest(services, people[0])
    assert services.unseen() == UNUSED.get(model, TO_SHUFFLER)

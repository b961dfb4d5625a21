"""Webhooks: what is told, to whom, how it is signed, and what becomes of it when receivers fail, hang or lie."""

import asyncio
import base64
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message

from tests.helpers_waiting import until
from tests.service.test_http import KEY, Site, as_
from tests.service.world import SECRET, STUDY, World, definition, world
from voxpop.errors import InputError
from voxpop.service.keys import Keyring
from voxpop.service.outbox import courier as couriers
from voxpop.service.outbox import receivers
from voxpop.service.outbox.courier import Courier
from voxpop.service.outbox.receivers import (
    KEPT,
    LEASE,
    WAITS,
    Delivery,
    Hook,
    Outside,
    list_deliveries,
    list_hooks,
    remove_hook,
    require_networks,
    set_hook,
    signed,
)
from voxpop.service.refusals import Refusal
from voxpop.service.study.life import Wanted, change, delete

HERE = Outside(require_networks("allow", "127.0.0.0/8"))


@dataclass
class Receiver:
    """A server that takes messages and answers as it is told."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)  # of the next replies; then 204
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)  # replies wait for it


@contextmanager
def receiver() -> Iterator[Receiver]:
    it = Receiver()
    it.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            it.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            it.hold.wait(30)
            status = it.statuses.pop(0) if it.statuses else 204
            self.send_response(status)
            if status == 302:
                self.send_header("location", it.url + "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        it.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield it
        finally:
            it.hold.set()
            server.shutdown()
            thread.join()


def courier_of(here: World, outside: Outside = HERE) -> Courier:
    return Courier(here.coordinator.context, outside)


def tell(it: Courier) -> None:
    """Look, and send what is found, until there is nothing left."""

    async def once() -> bool:
        letters = it.look()
        for letter in letters:
            it._sends[letter.hook] = asyncio.create_task(it._send(letter))
            await it._sends[letter.hook]
        return bool(letters)

    it._seen.clear()  # as if the time between two looks were over
    while asyncio.run(once()):
        pass


def listen(here: World, url: str, outside: Outside = HERE, **given: Any) -> None:
    set_hook(here.coordinator.database, Hook("shop", url, **given), here.clock(), outside)


def kinds(it: Receiver) -> list[str]:
    return [json.loads(body)["type"] for _, _, body in it.got]


def listed(here: World) -> list[Delivery]:
    return list_deliveries(here.coordinator.database)


def test_everything_that_happens_is_told_once_in_order_and_signed(address: str) -> None:
    with world(address, definition()) as here, receiver() as shop:
        listen(here, shop.url + "/hook")
        it = courier_of(here)
        here.settle()
        tell(it)
        assert kinds(shop) == ["wave.opened", "people.lacking"]
        here.register(60)
        here.run()
        tell(it)
        tell(courier_of(here))  # another process
        said = kinds(shop)
        waves = len(here.coordinator.snapshots.current(STUDY).closed)
        assert (said.count("wave.opened"), said.count("wave.closed"), said.count("study.finished")) == (waves, waves, 1)
        assert [kind for kind in said if kind.startswith("wave.")] == ["wave.opened", "wave.closed"] * waves
        last = json.loads(next(body for _, _, body in shop.got if b"study.finished" in body))
        assert last["data"]["study"] == STUDY
        assert last["data"]["decision"] == here.coordinator.decision(STUDY).decision
        assert {one.state for one in listed(here)} == {"delivered"}
        (hook,) = list_hooks(here.coordinator.database, here.coordinator.context.secrets)
        secret = base64.b64decode(hook.secret.removeprefix("whsec_"))
        for path, head, body in shop.got:
            assert path == "/hook"
            text = f"{head['webhook-id']}.{head['webhook-timestamp']}.".encode() + body
            expected = base64.b64encode(hmac.digest(secret, text, "sha256")).decode()
            assert head["webhook-signature"] == f"v1,{expected}"
            assert head["host"] == urlsplit(shop.url).netloc
        assert len({head["webhook-id"] for _, head, _ in shop.got}) == len(shop.got)


def test_signatures_are_those_of_standard_webhooks() -> None:
    """The example of its libraries."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = signed([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}')
    assert found["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_decision_that_a_clock_changes_is_told(address: str) -> None:
    with world(address, definition(rounds_per_second=0.1), people=60) as here, receiver() as shop:
        listen(here, shop.url, events=["decision.changed"])
        it, told = courier_of(here), list[int]()
        for _ in range(400):
            here.clock.now += 10.0
            here.settle()
            here.answer_all()
            tell_once(it)
            told.append(here.coordinator.decision(STUDY).index)
            if here.status.stage == "finished":
                break
        tell(it)
        changes = [new for old, new in pairwise(told) if new != old]
        decisions = here.coordinator.snapshots.current(STUDY).problem.decisions
        heard = [json.loads(body)["data"]["decision"] for _, _, body in shop.got]
        assert [decisions[index] for index in changes] == heard[-len(changes) :]
        assert set(kinds(shop)) == {"decision.changed"}


def tell_once(it: Courier) -> None:
    it._seen.clear()
    letters = it.look()
    for letter in letters:
        receivers.note_result(it.context, letter, "" if not asyncio.run(it.send(letter)) else "failed")


def test_a_receiver_that_fails_is_told_again_and_again_and_by_hand(address: str) -> None:
    with world(address, definition()) as here, receiver() as shop:
        listen(here, shop.url, events=["wave.opened"])
        it = courier_of(here)
        here.settle()
        shop.statuses = [500] * (len(WAITS) + 1)
        tell(it)
        (one,) = listed(here)
        assert (one.state, one.attempts, one.error) == ("due", 1, "it answered 500")
        for attempt, wait in enumerate(WAITS, start=2):
            here.clock.now += wait - 1
            tell(it)
            assert len(shop.got) == attempt - 1  # not before its time
            here.clock.now += 1
            tell(it)
            assert len(shop.got) == attempt
        (one,) = listed(here)
        assert (one.state, one.attempts) == ("failed", len(WAITS) + 1)
        receivers.send_again(here.coordinator.database, one.number, here.clock(), "ann")
        tell(it)
        (one,) = listed(here)
        assert (one.state, one.attempts, one.error) == ("delivered", 1, "")
        assert len({head["webhook-id"] for _, head, _ in shop.got}) == 1  # by which it is known
        assert len({body for _, _, body in shop.got}) == 1
        here.clock.now += KEPT + 1
        receivers.forget_old(here.coordinator.context)
        assert listed(here) == []


def test_a_receiver_that_hangs_delays_nobody(address: str) -> None:
    with world(address, definition()) as here, receiver() as shop, receiver() as slow:
        slow.hold.clear()
        for name, it in (("a", slow), ("b", shop)):
            set_hook(here.coordinator.database, Hook(name, it.url), here.clock(), HERE)
        here.settle()

        async def live() -> None:
            async with courier_of(here):
                told = lambda: kinds(shop) == ["wave.opened", "people.lacking"]  # noqa: E731
                await asyncio.to_thread(until, told, "the delivery")

        asyncio.run(live())
        assert {one.state for one in listed(here) if one.receiver == "a"} == {"due"}
        slow.hold.set()
        here.clock.now += LEASE
        tell(courier_of(here))
        assert {one.state for one in listed(here)} == {"delivered"}


def test_a_receiver_that_never_answers_is_given_up(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(couriers, "SECONDS", 0.1)
    with world(address, definition()) as here, receiver() as slow:
        slow.hold.clear()
        listen(here, slow.url, events=["wave.opened"])
        here.settle()
        tell(courier_of(here))
        (one,) = listed(here)
        assert (one.state, one.attempts, one.error) == ("due", 1, "it did not answer within 0.1 s")


def test_what_was_being_sent_when_a_process_died_is_sent_again(address: str) -> None:
    with world(address, definition()) as here, receiver() as shop:
        listen(here, shop.url)
        here.settle()
        dead = courier_of(here)
        (letter,) = dead.look()
        assert courier_of(here).look() != [letter]  # nobody else takes it meanwhile
        here.clock.now += LEASE
        tell(courier_of(here))
        assert letter.message in {head["webhook-id"] for _, head, _ in shop.got}
        assert {one.state for one in listed(here)} == {"delivered"}


def test_nothing_is_lost_when_it_happens_while_nobody_listens_at_the_database(address: str) -> None:
    """A study that ends and is deleted before anyone looks was told until then; a receiver hears no past."""
    with world(address, definition(), people=60) as here, receiver() as shop:
        here.settle()
        listen(here, shop.url)
        tell(courier_of(here))
        assert kinds(shop) == []  # the wave was opened before
        change(here.coordinator.context, STUDY, Wanted.ENDED)
        delete(here.coordinator.context, STUDY)
        tell(courier_of(here))
        assert "study.finished" in kinds(shop)
        assert remove_hook(here.coordinator.database, "shop", 1.0)
        assert not remove_hook(here.coordinator.database, "shop", 1.0)
        with pytest.raises(Refusal, match="was removed"):
            receivers.send_again(here.coordinator.database, listed(here)[0].number, 1.0)


INSIDE = ["127.0.0.1", "10.1.2.3", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1"]
INSIDE += ["fd00::1", "fe80::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "::"]


@pytest.mark.parametrize("place", INSIDE)
def test_no_address_inside_the_network_is_reached_unless_it_is_allowed(
    address: str, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Neither when it is named nor, if the name points there only later, when something is sent."""
    shown = f"[{place}]" if ":" in place else place
    with world(address, definition()) as here:
        with pytest.raises(InputError, match="no address of the public internet"):
            listen(here, f"https://{shown}/x", Outside())
        family = socket.AF_INET6 if ":" in place else socket.AF_INET
        found = [[(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", 443))]]
        real = socket.getaddrinfo
        pointed = lambda host, *rest, **named: found[0] if host == "hook.example" else real(host, *rest, **named)  # noqa: E731
        monkeypatch.setattr(socket, "getaddrinfo", pointed)
        listen(here, "https://hook.example/x", Outside())
        found[0].append((family, socket.SOCK_STREAM, 6, "", (place, 443)))  # rebound, beside a harmless one
        monkeypatch.setattr(httpx, "AsyncClient", None)  # nothing may be sent
        here.settle()
        tell(courier_of(here, Outside()))
        assert all(f"points to {place}" in one.error for one in listed(here) if one.attempts)
        assert any(one.attempts for one in listed(here))


def test_no_redirect_is_followed(address: str) -> None:
    with world(address, definition()) as here, receiver() as shop:
        listen(here, shop.url, events=["wave.opened"])
        shop.statuses = [302]
        here.settle()
        tell(courier_of(here))
        assert len(shop.got) == 1
        assert "points elsewhere, where nothing is sent" in listed(here)[0].error


@pytest.mark.parametrize(
    ("address", "form", "said"),
    [
        ("ftp://host/x", "json", "a receiver is an address such as https://host/path"),
        ("https://user:secret@host/x", "json", "a receiver is an address such as"),
        ("https://[", "json", "a receiver is an address such as"),
        ("http://1.1.1.1/x", "json", "could be read on the way"),
        ("https://127.0.0.1/" + "x" * 2000, "json", "at most 2000 characters"),
        ("https://nowhere.invalid/", "slack", "nobody knows the host"),
        ("ann@example.org", "email", "no mail server is known"),
        ("https://1.1.1.1/", "pigeon", "format"),
    ],
)
def test_addresses_that_nobody_has_are_refused(tmp_path: Path, address: str, form: Any, said: str) -> None:
    with world(str(tmp_path / "c.db"), definition()) as here, pytest.raises(InputError, match=said):
        set_hook(here.coordinator.database, Hook("x", address, form), 1.0, HERE)


def test_mail_goes_through_the_operator_s_server_and_slack_gets_a_text(address: str) -> None:
    handler = Mailbox()
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    mail = Controller(handler, "127.0.0.1", port)
    mail.start()
    try:
        outside = Outside(HERE.allowed, f"smtp://127.0.0.1:{port}", "v@x.example")
        outside = Outside(outside.allowed, outside.smtp, outside.sender, "https://voxpop.example")
        with world(address, definition()) as here, receiver() as slack:
            database = here.coordinator.database
            set_hook(database, Hook("ann", "Ann@Example.org", "email", events=["wave.opened"]), 1.0, outside)
            set_hook(database, Hook("team", slack.url, "slack", events=["wave.opened"]), 1.0, outside)
            with pytest.raises(InputError, match="an e-mail address looks like"):
                set_hook(database, Hook("eve", "a@b\r\nBcc: c@d", "email"), 1.0, outside)
            here.settle()
            tell(courier_of(here, outside))
            assert {one.state for one in listed(here)} == {"delivered"}
            text = json.loads(slack.got[0][2])["text"]
            assert text.startswith("tea: Wave 1 is open; it asks")
            assert text.endswith("<https://voxpop.example/studies/tea>")
        (letter,) = handler.got
        assert (letter["to"], letter["from"]) == ("ann@example.org", "v@x.example")
        assert letter["subject"].startswith("voxpop: tea: Wave 1 is open")
        assert "https://voxpop.example/studies/tea" in letter.get_payload()
    finally:
        mail.stop()


class Mailbox(Message):
    def __init__(self) -> None:
        super().__init__()
        self.got: list[Any] = []

    def handle_message(self, message: Any) -> None:
        self.got.append(message)


def test_a_mail_server_that_is_away_loses_nothing(address: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    outside = Outside(HERE.allowed, f"smtp://127.0.0.1:{port}")
    with world(address, definition()) as here:
        listen(here, "ann@example.org", outside, format="email", events=["wave.opened"])
        here.settle()
        tell(courier_of(here, outside))
        (one,) = listed(here)
        assert (one.state, one.error) == ("due", "it cannot be reached (ConnectionRefusedError)")


def test_a_replaced_secret_signs_beside_the_new_one_until_it_is_retired() -> None:
    keys = Keyring((b"n" * 32, SECRET))
    new, old = receivers.secrets_of(keys, b"nonce")
    assert receivers.secrets_of(Keyring((SECRET,)), b"nonce") == [old]
    assert len(signed([new, old], "msg_1", 1, "{}")["webhook-signature"].split(" ")) == 2


def test_receivers_are_managed_over_http(tmp_path: Path) -> None:
    site = Site(tmp_path)
    try:
        site.coordinator.create(STUDY, definition())
        place = "/v2/webhooks/shop"
        refused = site.client.put(place, json={"address": "https://10.0.0.1/"}, headers=as_(KEY))
        assert (refused.status_code, "no address of the public internet" in refused.text) == (422, True)
        made = site.client.put(place, json={"address": "https://1.1.1.1/", "study": STUDY}, headers=as_(KEY))
        assert made.json()["secret"].startswith("whsec_")
        again = site.client.put(place, json={"address": "https://1.1.1.1/"}, headers=as_(KEY))
        assert again.json()["secret"] == made.json()["secret"]
        assert site.client.post(place + "/test", headers=as_(KEY)).status_code == 200
        (one,) = site.client.get("/v2/deliveries", headers=as_(KEY)).json()["deliveries"]
        assert (one["kind"], one["state"], one["receiver"]) == ("test", "due", "shop")
        assert site.client.post(f"/v2/deliveries/{one['number']}/again", headers=as_(KEY)).status_code == 200
        assert site.client.post("/v2/deliveries/99/again", headers=as_(KEY)).status_code == 404
        assert site.client.delete(place, headers=as_(KEY)).json() == {"done": True}
        assert site.client.get("/v2/webhooks", headers=as_(KEY)).json() == {"webhooks": []}
    finally:
        site.close()

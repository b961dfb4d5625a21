"""A device: it registers, checks in, and if it was drawn makes its report and sends it until it is acknowledged."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from enum import Enum
from os import PathLike
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import numpy as np

from voxpop.client.memory import Memory, Outgoing
from voxpop.client.promise import Promise
from voxpop.errors import InputError
from voxpop.privacy import Secure, Source
from voxpop.wire_release import release_from_dict

TRY_AGAIN = (429, 500, 502, 503, 504)
GIVE_UP = (400, 401, 403, 404, 409, 410, 413, 415, 422)


class Outcome(Enum):
    """How a check-in ended."""

    WAITING = "not drawn, so far"
    ANSWERED = "the report was counted"
    TOO_LATE = "the report came too late and was not counted"
    NOTHING_TO_SAY = "drawn, but some decision of the phase was never lived through"
    SPENT = "drawn, but as many reports as the promise allows were made before; nothing was sent"
    FINISHED = "the study is over"
    OFFLINE = "nobody answered; try again later"


class Device:
    """One participant of one study."""

    def __init__(
        self,
        url: str,
        study: str,
        promise: Promise,
        path: str | PathLike[str] | None = None,
        *,
        enrolment_code: str | None = None,
        http: httpx.Client | None = None,
        source: Source | None = None,
        attempts: int = 5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url, self.study, self.promise = url.rstrip("/"), study, promise
        self.memory = Memory(path)
        self._enrolment_code = enrolment_code
        self._http = http or httpx.Client(timeout=30)
        self._source = source or Secure()
        self._attempts, self._sleep = attempts, sleep

    def record(self, phase: int, arm: int, reward: float, rounds: int = 1) -> None:
        """Note a reward of the decision in force; it stays on the device."""
        self.memory.record(phase, arm, reward, rounds)

    def decision(self) -> dict[str, Any]:
        """The decision in force: its phase, its index (the arm) and its name."""
        found: dict[str, Any] = self._study("GET", "/decision").json()
        return found

    def register(self) -> None:
        """Register, once; repeating it changes nothing."""
        headers = {} if self._enrolment_code is None else {"x-voxpop-enrolment": self._enrolment_code}
        self._study("PUT", "/participant", headers)
        self.memory.note_registered()

    def check_in(self) -> Outcome:
        """Ask whether this device was drawn, and if so answer. What is not acknowledged is sent again next time."""
        try:
            if not self.memory.registered:
                self.register()
            left = self.memory.outgoing()
            if left is not None:
                return self._send(left)
            found = self._study("GET", "/checkin").json()
            if not found["invited"]:
                return {"finished": Outcome.FINISHED, "answered": Outcome.ANSWERED}.get(
                    found["status"], Outcome.WAITING
                )
            return self._answer(found)
        except httpx.TransportError:
            return Outcome.OFFLINE

    def close(self) -> None:
        """Let go of the file and the connections."""
        self.memory.close()
        self._http.close()

    def _answer(self, invitation: dict[str, Any]) -> Outcome:
        """Make the report that the invitation asks for, keep it, and send it, if the promise allows one more.

        A report counts from when it is kept, even if it comes too late: whoever refused it has seen it.
        """
        most = self.promise.participations
        if self.memory.reports >= most:
            return Outcome.SPENT
        made = self._report(invitation)
        if made is None:
            return Outcome.NOTHING_TO_SAY
        kept = self.memory.keep_within(made, most)
        return Outcome.SPENT if kept is None else self._send(kept)

    def _report(self, invitation: dict[str, Any]) -> Outgoing | None:
        """The report that the invitation asks for, if the promise allows it; noise is drawn here, once."""
        phase = invitation["phase"]
        release = release_from_dict(phase["release"])
        self.promise.check(release)
        address = urljoin(self.url + "/", invitation["upload"])
        if self.promise.model == "shuffle" and _origin(address) == _origin(self.url):
            raise InputError("the coordinator asks for what only a shuffler may see; nothing is sent")
        if self.promise.model != "shuffle" and _origin(address) != _origin(self.url):
            raise InputError("the coordinator asks to send the report elsewhere; nothing is sent")
        averages = self.memory.averages(phase["phase"], phase["arms"])
        if averages is None:
            return None
        report = release.randomize(np.array([averages]), self._source)[0]
        body = json.dumps({"report": report.tolist()}, allow_nan=False).encode()
        return Outgoing(phase["phase"], address, invitation["token"], body)

    def _send(self, outgoing: Outgoing) -> Outcome:
        headers = {"content-type": "application/json", "authorization": f"Bearer {outgoing.token}"}
        answer = self._patiently("PUT", outgoing.address, headers, outgoing.body)
        if answer.status_code in TRY_AGAIN:
            return Outcome.OFFLINE
        self.memory.forget(outgoing.phase)
        return Outcome.ANSWERED if answer.status_code in (200, 201) else Outcome.TOO_LATE

    def _study(self, method: str, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        mine = {"authorization": f"Bearer {self.memory.key}", **(headers or {})}
        answer = self._patiently(method, f"{self.url}/v1/studies/{self.study}{path}", mine)
        if answer.status_code in TRY_AGAIN:
            raise httpx.TransportError(f"the coordinator answered {answer.status_code}")
        if answer.status_code in GIVE_UP:
            raise InputError(_sentence(answer))
        return answer

    def _patiently(
        self, method: str, address: str, headers: dict[str, str], body: bytes | None = None
    ) -> httpx.Response:
        """A request, repeated with growing pauses while nobody answers; every request here may be repeated."""
        for attempt in range(1, self._attempts + 1):
            pause = min(10.0, 0.1 * 2**attempt) * random.uniform(0.5, 1.0)
            try:
                answer = self._http.request(method, address, headers=headers, content=body)
                if answer.status_code not in TRY_AGAIN or attempt == self._attempts:
                    return answer
                pause = max(pause, float(answer.headers.get("retry-after", 0)))
            except httpx.TransportError:
                if attempt == self._attempts:
                    raise
            self._sleep(pause)
        raise AssertionError("unreachable")


def _origin(url: str) -> tuple[str | None, int | None]:
    parts = urlsplit(url)
    return parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _sentence(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, LookupError, TypeError):
        return f"{answer.url} answered {answer.status_code}; is that a voxpop coordinator?"

"""A device registers, checks in, and if it is invited makes a report and sends it until it is acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum
from os import PathLike
from typing import Any, ClassVar, cast
from urllib.parse import urljoin, urlsplit

import httpx
import numpy as np

from voxpop.client.addresses import origin_of
from voxpop.client.promise import Promise
from voxpop.client.retries import Caller, body_of, document_of, is_done, is_not_now, refusal_of
from voxpop.client.storage import Memory, Outgoing
from voxpop.errors import InputError, RefusedError, require_integer
from voxpop.io.schema import asked_of_device, decode_release
from voxpop.privacy import Secure, Source
from voxpop.privacy.models import release_type_of
from voxpop.privacy.release import HELPER, SHUFFLER

MOST_WAVE = 2**31
JSON, OCTETS = "application/json", "application/octet-stream"  # the second is for shares, which are bytes
MOST_PAUSE = 7 * 86_400.0  # seconds between two check-ins that a coordinator can ask for


class Outcome(Enum):
    """How a check-in ended."""

    WAITING = "not invited so far"
    ANSWERED = "the report was counted"
    TOO_LATE = "the report came too late and was not counted"
    ANOTHER = "another report was counted for this invitation, and this one was not"
    REFUSED = "the report was refused and not counted"
    NOTHING_TO_SAY = "invited, but the device has no reward for some decision of the wave; nothing was sent"
    SPENT = "invited, but the device has already made as many reports as its promise allows; nothing was sent"
    FINISHED = "the study is over"
    WITHDRAWN = "the device has withdrawn from the study; nothing is asked, kept or sent any more"
    OFFLINE = "the service did not answer; try again later"


class StudyOverError(RefusedError):
    """The study is over, and nobody can register any more."""


class Device:
    """One participant of one study: rewards are recorded here, and leave only as the promise allows.

    >>> from voxpop import Promise
    >>> promise = Promise("shuffle", epsilon=5.0, shuffler="https://shuffler.example")
    >>> device = Device("https://study.example", "espresso", promise)
    >>> device.record(wave=1, arm=3, reward=2.4)  # stays here until `check_in` finds an invitation
    True
    """

    tick: ClassVar[float] = 1.0  # seconds

    def __init__(
        self,
        url: str,
        study: str,
        promise: Promise,
        path: str | PathLike[str] | None = None,
        *,
        enrolment_code: str | None = None,
        stratum: str | None = None,
        http: httpx.Client | None = None,
        source: Source | None = None,
        attempts: int = 5,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url, self.study, self.promise = url.rstrip("/"), study, promise
        self._mine = promise.check_coordinator(url)
        self.memory = Memory(path)
        self._enrolment_code, self._stratum = enrolment_code, stratum
        self._http = http or httpx.Client(timeout=30)
        self._source = source or Secure()
        self._caller, self._sleep, self._clock = Caller(self._http, attempts, sleep), sleep, clock
        self._blocks: dict[tuple[object, object], int] = {}  # by wave and arm: as `decision` said last
        self.next_check_in: float | None = None  # seconds from the last check-in; None: not known, or never again

    def record(
        self,
        wave: int,
        arm: int,
        reward: float | None,
        rounds: int = 1,
        block: int | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> bool:
        """Record a reward of the decision in force, in a block of a wave; it stays on the device.

        `metrics` are those of the study's guardrails, by name; a reward of None records them alone. Return False if it
        is refused, because it does not count: in block 0, and after withdrawing. Without a block it is the one in which
        `decision` last said that this arm is in force.
        """
        block = self._blocks.get((wave, arm), 1) if block is None else block
        return block != 0 and self.memory.record(wave, arm, reward, rounds, block, metrics)

    def decision(self) -> dict[str, Any]:
        """Fetch the decision in force: its wave, its block, its index (the arm) and its name."""
        answer = self._study("GET", "/decision")
        found = document_of(answer)
        if "wave" not in found:
            raise _stranger(answer)
        self._blocks = {(found["wave"], found.get("index")): found.get("block", 1)}
        return found

    def register(self) -> None:
        """Register this device; repeating it changes nothing."""
        if self.memory.withdrawn:
            raise InputError(
                f"this device has withdrawn from the study {self.study!r}; to take part again, begin with a new one"
            )
        headers = {} if self._enrolment_code is None else {"x-voxpop-enrolment": self._enrolment_code}
        stratum = None if self._stratum is None else body_of({"stratum": self._stratum})
        answer = self._study("PUT", "/participant", headers, stratum)
        if not is_done(answer, "registered"):
            raise _stranger(answer)
        self.memory.registered = True

    def check_in(self) -> Outcome:
        """Ask whether this device is invited, and if so answer. A report is sent again until it is acknowledged."""
        if self.memory.withdrawn:
            return self.withdraw()
        try:
            if not self.memory.registered:
                self.register()
            left = self.memory.outgoing()
            sent = Outcome.OFFLINE if left is None else self._send(left)
            if sent is not Outcome.OFFLINE:
                return sent
            answer = self._study("GET", "/checkin")
            found, since = document_of(answer), self._clock()
            if type(found.get("invited")) is not bool:
                raise _stranger(answer)
            self.next_check_in = _pause(found.get("next_check_in"))
            if left is not None:
                if found["invited"] and _wave_of(found) == left.wave:
                    return Outcome.OFFLINE  # the coordinator still waits for it
                sent = self._send(left)  # for the last time, perhaps only to learn that it was counted
                if sent is not Outcome.OFFLINE:
                    return sent
                self.memory.forget(left.wave)
            if found["invited"]:
                return self._answer(found, since)
            if found.get("status") == "withdrawn":  # with this key, on another device
                return self._leave()
            return {"finished": Outcome.FINISHED, "answered": Outcome.ANSWERED}.get(
                str(found.get("status")), Outcome.WAITING
            )
        except StudyOverError:
            return Outcome.FINISHED
        except httpx.RequestError:
            return Outcome.OFFLINE

    def withdraw(self) -> Outcome:
        """Leave the study: delete rewards and report here, and have the service forget what it may; safe to repeat.

        If the service does not answer, nothing is kept here all the same, and the next check-in tells it again.
        """
        self.memory.withdraw()
        if self.memory.forgotten:
            return Outcome.WITHDRAWN
        try:
            answer = self._study("DELETE", "/participant")
            if not is_done(answer, "withdrawn"):
                raise _stranger(answer)
        except httpx.RequestError:
            return Outcome.OFFLINE
        return self._leave()

    def _leave(self) -> Outcome:
        """Note that the service has forgotten this device."""
        self.memory.withdraw()
        self.memory.forgotten = True
        return Outcome.WITHDRAWN

    def close(self) -> None:
        """Close the file and the connections."""
        self.memory.close()
        self._http.close()

    def _answer(self, invitation: dict[str, Any], since: float) -> Outcome:
        """Make the report that the invitation asks for, keep it, and send it, if the promise allows one more.

        A report counts against the promise as soon as it is kept, even if the service refuses it as too late: the
        service has seen it.
        """
        most = self.promise.participations
        if self.memory.reports >= most:
            return Outcome.SPENT
        made = self._report(invitation)
        if made is None:
            return Outcome.NOTHING_TO_SAY
        kept = self.memory.keep_within(made, most)
        if kept is None:
            return Outcome.SPENT
        self._wait(since)
        return self._send(kept)

    def _wait(self, since: float) -> None:
        """Wait for a whole number of ticks since the invitation came: how long sampling took tells the noise."""
        if self.tick and release_type_of(self.promise.model).noise_on_device:
            self._sleep(self.tick - (self._clock() - since) % self.tick)

    def _report(self, invitation: dict[str, Any]) -> Outgoing | None:
        """Make the report that the invitation asks for, if the promise allows it.

        Where privacy is promised, a reward that is missing is answered with the centre: silence would tell the
        coordinator that the device was not there. Without privacy the result is then None. This draws the noise, once
        per report.
        """
        number, wave = _wave_of(invitation), invitation["wave"]
        release = decode_release(wave.get("release"))
        self.promise.check(release)
        token = invitation.get("token")
        address = self._address(invitation.get("upload"), release.second == SHUFFLER)
        helper = self._address(invitation.get("helper"), True) if release.second == HELPER else None
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise InputError("the coordinator's token cannot be sent in a header; nothing is sent")
        arms = wave.get("arms")
        if not isinstance(arms, list) or not all(type(arm) is int for arm in arms):
            raise InputError(f"the coordinator asks about the decisions {arms!r:.100}; nothing is sent")
        known = [  # if a direction minimises, these are costs
            towards.turn(np.array(self.memory.averages(number, arms, _block_of(wave), metric)))
            for metric, towards in asked_of_device(wave, release.arms, len(arms))
        ]
        averages = np.concatenate(known)[None, :]
        if np.isnan(averages).any() and not release.fills_gaps:
            return None
        parts = release.parts(release.randomize(averages, self._source)[0], self._source)
        said = parts.coordinator or parts.helper or {}
        twin = None if helper is None else (helper, body_of(parts.helper or {}))
        return Outgoing(number, address, token, body_of(said), twin)

    def _address(self, upload: object, elsewhere: bool) -> str:
        """Return the address to send a report or share to, at the coordinator or elsewhere, or refuse it."""
        try:
            if not isinstance(upload, str):
                raise ValueError
            address = urljoin(self.url + "/", upload)
            scheme = urlsplit(address).scheme
            there = origin_of("upload", address) if scheme in ("https", self._mine.scheme) else None
        except ValueError:
            raise InputError(f"the coordinator asks to send the report to {upload!r:.100}; nothing is sent") from None
        if there is None:
            raise InputError(f"the coordinator asks to send the report over {scheme or 'nothing'}; nothing is sent")
        promised = self.promise.other if elsewhere else None
        if promised is None and (there.host, there.port) != (self._mine.host, self._mine.port):
            raise InputError("the coordinator asks to send the report to another server; nothing is sent")
        if promised is not None and there != origin_of("", promised):
            raise InputError(
                f"the {self.promise.second} {promised} was promised, but the coordinator names {upload!r:.100}; "
                "nothing is sent"
            )
        return address

    def _send(self, outgoing: Outgoing) -> Outcome:
        """Send a kept report; forget it only when a voxpop service says that it was counted or refused.

        A share for a helper goes first: a share that is at the coordinator, and not at the helper, would be counted by
        neither.
        """
        sent, twin = Outcome.ANSWERED, outgoing.twin
        own = (outgoing.address, outgoing.body, JSON if twin is None else OCTETS)
        for address, body, kind in (*([(*twin, JSON)] if twin else []), own):
            sent = self._put(address, outgoing.token, body, kind)
            if sent is not Outcome.ANSWERED:
                break
        if sent is not Outcome.OFFLINE:
            self.memory.forget(outgoing.wave)
        return sent

    def _put(self, address: str, token: str, body: bytes, kind: str) -> Outcome:
        """Send a report or a share, and say how that ended."""
        headers = {"content-type": kind, "authorization": f"Bearer {token}"}
        try:
            answer = self._caller.request("PUT", address, headers, body)
        except httpx.RequestError:
            return Outcome.OFFLINE
        if is_done(answer, "counted", "counted before"):
            return Outcome.ANSWERED
        if not is_not_now(answer) and refusal_of(answer) is not None:
            return {409: Outcome.ANOTHER, 410: Outcome.TOO_LATE}.get(answer.status_code, Outcome.REFUSED)
        return Outcome.OFFLINE

    def _study(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> httpx.Response:
        mine = {"authorization": f"Bearer {self.memory.key}", **(headers or {})}
        mine |= {} if body is None else {"content-type": JSON}
        answer = self._caller.request(method, f"{self.url}/v2/studies/{self.study}{path}", mine, body)
        if is_not_now(answer):
            raise httpx.TransportError(f"the coordinator answered {answer.status_code}")
        if answer.status_code >= 400:
            unknown = f"{answer.url} answered {answer.status_code}; is that a voxpop coordinator?"
            refusal = refusal_of(answer)
            kind = StudyOverError if answer.status_code == 410 and refusal else RefusedError
            raise kind(refusal or unknown, answer.status_code)
        if answer.status_code not in (200, 201):
            raise _stranger(answer)
        return answer


def _pause(seconds: object) -> float | None:
    """Read after how many seconds to check in again; a coordinator of an earlier version does not say."""
    known = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= MOST_PAUSE
    return float(cast(float, seconds)) if known else None


def _wave_of(invitation: dict[str, Any]) -> int:
    wave = invitation.get("wave")
    if not isinstance(wave, dict):
        raise InputError(f"the coordinator's invitation describes its wave as {wave!r:.100}; nothing is sent")
    return require_integer("the wave of an invitation", wave.get("wave"), least=1, most=MOST_WAVE)


def _block_of(wave: dict[str, Any]) -> int:
    """Return the block of the wave that the report is about; the whole wave is its only block if nothing is said."""
    return require_integer("the block of an invitation", wave.get("block", 1), least=1, most=MOST_WAVE)


def _stranger(answer: httpx.Response) -> httpx.TransportError:
    return httpx.TransportError(f"{answer.url} answered {answer.status_code}, but not as a voxpop coordinator does")

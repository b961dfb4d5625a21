"""Messages between coordinator and shuffler: signed JSON over HTTP, where repeating a message does no harm.

A reply is signed, too, together with the signature of its request. It is no longer than such a reply can be, comes as
it is (compressed bytes can be a thousand times as many), and comes as a whole within a time, or it is none.
"""

from __future__ import annotations

import json
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from threading import Timer
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from voxpop.errors import InputError
from voxpop.privacy.release import COORDINATING, Batch
from voxpop.service.keys import Keyring
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.batches import BatchProgress, CheckedShares, SealedBatch

Shares = Callable[[Sequence[bytes]], Mapping[bytes, bytes]]  # finds the coordinator's shares by their tokens
READY_SECONDS = 3.0  # that the shuffler has to say whether it is ready
REPLY_SECONDS = 30.0  # for a whole exchange, however slowly a reply comes
REPLY_BYTES = 2**21  # that a reply may have beyond the length of its request, whose tokens it repeats at most
OPENED = (".connect_tcp.complete", ".start_tls.complete")  # how httpcore says that it has a connection


Said = TypeVar("Said", bound=msgspec.Struct)


def require_url(name: str, url: str) -> str:
    """Return the URL of a service without a trailing slash; refuse anything else."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InputError(f"{name} must be an address such as https://host:8000, got {url!r}")
    return url.rstrip("/")


def require_private_url(name: str, url: str) -> str:
    """Return the URL of the other server; refuse one over which strangers could listen."""
    parts = urlsplit(require_url(name, url))
    host = parts.hostname or ""
    loopback = host == "localhost"
    with suppress(ValueError):
        loopback = loopback or ip_address(host).is_loopback
    if parts.scheme != "https" and not loopback:
        raise InputError(f"{name} must begin with https:// unless it is on this machine (127.0.0.1), got {url!r}")
    return url.rstrip("/")


@contextmanager
def within(seconds: float, client: httpx.Client, method: str, url: str, **named: Any) -> Iterator[httpx.Response]:
    """Make a request on a connection of its own, which is cut when the time is over; the body is left to be read."""
    end, connections = time.monotonic() + seconds, list[Any]()

    def watch(event: str, info: dict[str, Any]) -> None:
        if event.endswith(OPENED):
            connections.append(info["return_value"])
            if time.monotonic() >= end:
                cut()

    def cut() -> None:
        for connection in connections:
            with suppress(OSError):  # closed already, or handed over to TLS
                connection.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    headers = named.pop("headers", {}) | {"accept-encoding": "identity", "connection": "close"}
    asked = {"headers": headers, "timeout": seconds, "extensions": {"trace": watch}, "follow_redirects": False}
    try:
        with client.stream(method, url, **asked, **named) as answer:
            yield answer
    finally:
        timer.cancel()


def send(
    client: httpx.Client, keys: Keyring, url: str, path: str, document: Any = None, method: str = "PUT"
) -> httpx.Response:
    """Send a signed document, or none; the signature covers the path as the receiver sees it. Return a signed reply."""
    body = b"" if document is None else json.dumps(document, separators=(",", ":")).encode()
    full = urlsplit(url).path.rstrip("/") + path
    signature, content = keys.sign(method, full, body), bytearray()
    headers = {"content-type": "application/json", "x-voxpop-signature": signature}
    with within(REPLY_SECONDS, client, method, url + path, content=body, headers=headers) as answer:
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise httpx.DecodingError(f"{url} compresses its reply; have its operator or its proxy send it as it is")
        for part in answer.iter_bytes():
            content += part
            if len(content) > len(body) + REPLY_BYTES:
                raise httpx.DecodingError(f"the reply of {url} is longer than any such reply; ask its operator")
    said, kind = bytes(content), reply_kind(answer.status_code, signature)
    if not keys.signed(kind, full, said, answer.headers.get("x-voxpop-signature", "")):
        sentence = f"the reply of {url} (status {answer.status_code}) is not signed with the key that both share"
        raise httpx.DecodingError(f"{sentence}; check that it runs, has the key and the same version")
    return httpx.Response(answer.status_code, content=said, request=answer.request)


def reply_kind(status: int, signature: str) -> str:
    """Return what stands in the place of a method where a reply is signed: its status, and what it replies to."""
    return f"{status} {signature}"


class ShufflerLink(Protocol):
    """The shuffler or helper as the coordinator sees it."""

    def announce(
        self, name: str, batch: Batch, tokens: list[bytes], overdue: list[bytes], forget: Sequence[bytes] = ()
    ) -> BatchProgress:
        """Announce a batch, new tokens, those whose time is over, and those of people who withdrew; may be repeated."""

    def verify(self, name: str, key: bytes, verifiers: Mapping[bytes, bytes]) -> CheckedShares:
        """Have a helper check proofs with the coordinator's verifier shares by token; may be repeated with this key."""

    def seal(self, name: str, tokens: list[bytes]) -> SealedBatch:
        """Have a helper add up its shares of exactly these tokens; may be repeated with the same tokens only."""

    def call_off(self, name: str) -> None:
        """Have a batch deleted with all its reports, because nothing will be released; may be repeated."""

    def upload_address(self, name: str) -> str:
        """Return the URL to which devices send their reports."""


@dataclass(frozen=True)
class Unsound:
    """The tokens of reports that cannot be counted."""

    refused: list[bytes]  # their proof is wrong
    missing: list[bytes]  # the coordinator or the helper has no share with a proof


def verify_shares(
    link: ShufflerLink, name: str, batch: Batch, key: bytes, chosen: Sequence[bytes], shares: Shares
) -> Unsound:
    """Check the proofs of these tokens' reports together with the helper, some at a time.

    Nothing is stored of proofs that are right: whoever does it again, always with the same key, finds the same.
    """
    prio3, size, found = batch.prio3, 8 * batch.words(COORDINATING), Unsound([], [])
    for start in range(0, len(chosen), prio3.at_once):
        part = chosen[start : start + prio3.at_once]
        held = {token: share for token, share in shares(part).items() if len(share) == size}
        check = prio3.verify(key, COORDINATING, list(held.values()))
        told = link.verify(name, key, dict(zip(held, check.verifiers, strict=True)))
        if not {token.hex() for token in held}.issuperset((*told.messages, *told.missing)):
            raise Refusal(502, "the helper speaks of reports of which nobody asked; ask its operator")
        for token, seed in zip(held, check.seeds, strict=True):
            if told.messages.get(token.hex()) != seed.hex():
                (found.missing if token.hex() in told.missing else found.refused).append(token)
        found.missing.extend(token for token in part if token not in held)
    return found


@dataclass
class HttpShuffler:
    """The shuffler at `url`, which devices reach at `public_url`."""

    url: str
    keys: Keyring
    public_url: str
    client: httpx.Client = field(default_factory=httpx.Client)

    def announce(
        self, name: str, batch: Batch, tokens: list[bytes], overdue: list[bytes], forget: Sequence[bytes] = ()
    ) -> BatchProgress:
        said = {"tokens": tokens, "overdue": overdue} | ({"forget": forget} if forget else {})
        document = batch.stated() | {part: [token.hex() for token in some] for part, some in said.items()}
        answer = send(self.client, self.keys, self.url, f"/v2/batches/{name}", document)
        if answer.status_code in (409, 410, 422):
            raise Refusal(answer.status_code, "the second server refuses this batch; ask its operator")
        answer.raise_for_status()
        return _read(answer, BatchProgress)

    def verify(self, name: str, key: bytes, verifiers: Mapping[bytes, bytes]) -> CheckedShares:
        shares = {token.hex(): b64encode(share).decode() for token, share in verifiers.items()}
        return self._have(CheckedShares, name, "verify", {"key": key.hex(), "verifiers": shares})

    def seal(self, name: str, tokens: list[bytes]) -> SealedBatch:
        return self._have(SealedBatch, name, "seal", {"tokens": [token.hex() for token in tokens]})

    def _have(self, kind: type[Said], name: str, what: str, document: dict[str, Any]) -> Said:
        """Have the helper do something with a batch of shares, and read its reply."""
        answer = send(self.client, self.keys, self.url, f"/v2/batches/{name}/{what}", document)
        if answer.status_code in (404, 409, 410, 422):
            raise Refusal(answer.status_code, f"the helper refuses to {what} this batch; ask its operator")
        answer.raise_for_status()
        return _read(answer, kind)

    def call_off(self, name: str) -> None:
        send(self.client, self.keys, self.url, f"/v2/batches/{name}", method="DELETE").raise_for_status()

    def problem(self) -> str | None:
        """Return in one sentence why the shuffler cannot work now, or None."""
        try:
            with within(READY_SECONDS, self.client, "GET", self.url + "/readyz") as answer:
                status = answer.status_code
        except httpx.HTTPError as error:
            return f"it does not answer ({type(error).__name__}); check that it runs and can be reached"
        return None if status == 200 else f"it answers, but is not ready (status {status}); ask its operator"

    def upload_address(self, name: str) -> str:
        return f"{self.public_url}/v2/batches/{name}/report"


def _read(answer: httpx.Response, kind: type[Said]) -> Said:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise Refusal(502, "the second server's reply is not what was asked for; ask its operator") from None

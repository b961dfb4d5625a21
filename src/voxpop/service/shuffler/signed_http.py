"""Messages between coordinator and shuffler: signed JSON over HTTP, where repeating a message does no harm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
import msgspec

from voxpop.errors import InputError
from voxpop.privacy.release import Batch
from voxpop.service.keys import Keyring
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.batches import BatchProgress, SealedBatch

READY_SECONDS = 3.0  # that the shuffler has to say whether it is ready


def require_url(name: str, url: str) -> str:
    """Return the URL of a service without a trailing slash; refuse anything else."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InputError(f"{name} must be an address such as https://host:8000, got {url!r}")
    return url.rstrip("/")


def send(
    client: httpx.Client, keys: Keyring, url: str, path: str, document: Any = None, method: str = "PUT"
) -> httpx.Response:
    """Send a signed document, or none; the signature covers the path as the receiver sees it."""
    body = b"" if document is None else json.dumps(document, separators=(",", ":")).encode()
    full = urlsplit(url).path.rstrip("/") + path
    headers = {"content-type": "application/json", "x-voxpop-signature": keys.sign(method, full, body)}
    return client.request(method, url + path, content=body, headers=headers)


class ShufflerLink(Protocol):
    """The shuffler or helper as the coordinator sees it."""

    def announce(
        self, name: str, batch: Batch, tokens: list[bytes], overdue: list[bytes], forget: Sequence[bytes] = ()
    ) -> BatchProgress:
        """Announce a batch, new tokens, those whose time is over, and those of people who withdrew; may be repeated."""

    def seal(self, name: str, tokens: list[bytes]) -> SealedBatch:
        """Have a helper add up its shares of exactly these tokens; may be repeated with the same tokens only."""

    def call_off(self, name: str) -> None:
        """Have a batch deleted with all its reports, because nothing will be released; may be repeated."""

    def upload_address(self, name: str) -> str:
        """Return the URL to which devices send their reports."""


@dataclass
class HttpShuffler:
    """The shuffler at `url`, which devices reach at `public_url`."""

    url: str
    keys: Keyring
    public_url: str
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=30))

    def announce(
        self, name: str, batch: Batch, tokens: list[bytes], overdue: list[bytes], forget: Sequence[bytes] = ()
    ) -> BatchProgress:
        said = {"tokens": tokens, "overdue": overdue} | ({"forget": forget} if forget else {})
        document = batch.stated() | {part: [token.hex() for token in some] for part, some in said.items()}
        answer = send(self.client, self.keys, self.url, f"/v2/batches/{name}", document)
        if answer.status_code in (409, 410, 422):
            raise Refusal(answer.status_code, "the second server refuses this batch; ask its operator")
        answer.raise_for_status()
        return msgspec.json.decode(answer.content, type=BatchProgress)

    def seal(self, name: str, tokens: list[bytes]) -> SealedBatch:
        document = {"tokens": [token.hex() for token in tokens]}
        answer = send(self.client, self.keys, self.url, f"/v2/batches/{name}/seal", document)
        if answer.status_code in (404, 409, 410, 422):
            raise Refusal(answer.status_code, "the helper refuses to seal this batch; ask its operator")
        answer.raise_for_status()
        try:
            return msgspec.json.decode(answer.content, type=SealedBatch)
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise Refusal(502, "the helper's reply is no total of shares; ask its operator") from None

    def call_off(self, name: str) -> None:
        send(self.client, self.keys, self.url, f"/v2/batches/{name}", method="DELETE").raise_for_status()

    def problem(self) -> str | None:
        """Return in one sentence why the shuffler cannot work now, or None."""
        try:
            answer = self.client.get(self.url + "/readyz", timeout=READY_SECONDS)
        except httpx.HTTPError as error:
            return f"it does not answer ({type(error).__name__}); check that it runs and can be reached"
        if answer.status_code == 200:
            return None
        return f"it answers, but is not ready (status {answer.status_code}); ask its operator"

    def upload_address(self, name: str) -> str:
        return f"{self.public_url}/v2/batches/{name}/report"

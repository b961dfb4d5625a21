"""The aggregate model on Flower: a node's reply is one share of its report, and a helper outside Flower has the other.

The helper is voxpop's own (`voxpop shuffler`, run by somebody else). The server tells it which tokens may send a share;
nodes send theirs over HTTP before they reply, to the helper that their own promise names; and when the replies are
there, the two check the proofs that reports are in range, and the server has the helper add up its shares of exactly
these nodes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

import httpx

from voxpop.client.promise import Promise
from voxpop.client.retries import Caller, body_of, is_done
from voxpop.errors import Array, InputError
from voxpop.journal.wave import Wave
from voxpop.model.waves import Tally
from voxpop.privacy import Release
from voxpop.privacy.prio3 import SEED
from voxpop.privacy.release import HELPER, Batch
from voxpop.service.keys import hash_key, new_key

if TYPE_CHECKING:
    from voxpop.service.shuffler.signed_http import ShufflerLink

RANDOM = re.compile(r"[A-Za-z0-9_-]{43}")  # names of batches and tokens
ATTEMPTS = 5


@dataclass
class Shared:
    """The server's side of one batch: a random name, and a token for each node that is asked."""

    helper: ShufflerLink
    batch: Batch
    name: str = field(default_factory=new_key)
    tokens: dict[int, str] = field(default_factory=dict)
    key: bytes = field(default_factory=lambda: token_bytes(SEED))  # under which proofs are checked, always the same

    def invite(self, nodes: Sequence[int]) -> None:
        """Announce nodes to the helper, before they are asked."""
        new = {node: new_key() for node in nodes}
        self.helper.announce(self.name, self.batch, [hash_key(token) for token in new.values()], [])
        self.tokens |= new

    def told(self, node: int) -> dict[str, str]:
        """Return what a node must know to send its share."""
        return {"batch": self.name, "token": self.tokens[node]}

    def checked(self, reports: dict[int, Array]) -> bool:
        """Check the proofs of these nodes with the helper; if some are wrong or missing, remove those nodes instead."""
        from voxpop.service.shuffler.signed_http import verify_shares

        nodes = {hash_key(self.tokens[node]): node for node in reports}

        def shares(chosen: Sequence[bytes]) -> dict[bytes, bytes]:
            return {token: reports[nodes[token]].tobytes() for token in chosen}

        unsound = verify_shares(self.helper, self.name, self.batch, self.key, sorted(nodes), shares)
        for token in (*unsound.refused, *unsound.missing):
            del reports[nodes[token]]
        return not (unsound.refused or unsound.missing)

    def join(self, wave: Wave, reports: dict[int, Array], ours: Tally) -> Tally | None:
        """Put the two totals together; if the helper lacks shares, remove those nodes from the reports instead."""
        hashes = {hash_key(self.tokens[node]): node for node in reports}
        sealed = self.helper.seal(self.name, sorted(hashes))  # their order tells nothing
        for missing in sealed.missing:
            del reports[hashes[bytes.fromhex(missing)]]
        return None if sealed.missing else wave.release.join(ours, Tally(ours.count, tuple(sealed.total), ours.step))


def helper_at(url: str, key_file: str | PathLike[str]) -> ShufflerLink:
    """Return the helper at an address, to which the server proves itself with the key that they share."""
    from voxpop.service.keys import keyring_of_file
    from voxpop.service.shuffler.signed_http import HttpShuffler, require_private_url

    address = require_private_url("the helper", url)
    return HttpShuffler(address, keyring_of_file("helper's key", Path(key_file)), address)


def shared_of(wave: Wave, helper: ShufflerLink | None) -> Shared | None:
    """Return the server's side of a wave whose reports are shared; None if they are not."""
    batch = wave.release.batch
    return Shared(helper, batch) if wave.release.second == HELPER and helper is not None and batch is not None else None


def check_helper(release: Release, told: Mapping[str, Any]) -> None:
    """Refuse, on a node, a question whose share could not be sent; the promise says where to."""
    if release.second not in (None, HELPER):
        raise InputError(f"the {release.model} model does not exist on Flower; nothing is sent")
    if release.second == HELPER and not all(RANDOM.fullmatch(str(told.get(part))) for part in ("batch", "token")):
        raise InputError("the server names no batch of the helper; nothing is sent")


def send_share(told: Mapping[str, Any], promise: Promise, share: dict[str, Any], http: httpx.Client) -> None:
    """Send a share to the helper until it is counted; refuse to go on if it is not."""
    address = f"{str(promise.helper).rstrip('/')}/v2/batches/{told['batch']}/report"
    headers = {"content-type": "application/json", "authorization": f"Bearer {told['token']}"}
    try:
        answer = Caller(http, ATTEMPTS, time.sleep).request("PUT", address, headers, body_of(share))
    except httpx.RequestError as error:
        raise InputError(
            f"the helper does not answer ({type(error).__name__}); nothing is sent to the server"
        ) from None
    if not is_done(answer, "counted", "counted before"):
        raise InputError(f"the helper answered {answer.status_code}; nothing is sent to the server")

"""Running a test vector with the Python device, whose randomness is prescribed."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import numpy as np

from tests.helpers_cli import ROOT
from voxpop.client import Device, Promise
from voxpop.errors import InputError
from voxpop.privacy import Secure
from voxpop.privacy.sources import Integers

FOLDER = ROOT / "clients/vectors"
URL, STUDY = "https://coordinator.example", "tea"
Case = dict[str, Any]


def vectors(name: str) -> list[Case]:
    """Read the cases of a file."""
    found: list[Case] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["cases"]
    return found


@dataclass
class Script(Secure):
    """The secure source, with Gaussian noise that the vector names; everything else follows from random bytes."""

    noise: list[int]

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        assert rows == 1
        drawn, self.noise = self.noise[:columns], self.noise[columns:]
        return np.array([drawn], dtype=np.int64)


@dataclass
class Services:
    """A coordinator that invites once, and a shuffler or helper that counts everything."""

    invitation: dict[str, Any]
    uploads: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=self.invitation)
        token = request.headers["authorization"].removeprefix("Bearer ")
        octets = request.headers["content-type"] == "application/octet-stream"
        body = b64encode(request.content).decode() if octets else json.loads(request.content)
        length = len(request.content)
        self.uploads.append({"address": str(request.url), "token": token, "body": body, "length": length})
        return httpx.Response(201, json={"status": "counted"})


def run(case: Case, give: Callable[[int], bytes]) -> dict[str, Any]:
    """Let a device answer an invitation, with random bytes from `give`; return what came of it."""
    services = Services(case["invitation"])
    source = Script(list(case.get("noise", [])))
    http = httpx.Client(transport=httpx.MockTransport(services))
    try:
        promise = Promise(**case["promise"])
        device = Device(case.get("url", URL), STUDY, promise, http=http, source=source, sleep=lambda _: None)
    except InputError as error:
        return {"refused": str(error)}
    assert device.memory.key
    device.memory.registered = True
    for reward in case.get("rewards", []):
        device.record(*reward)
    try:
        with patch.object(os, "urandom", give):  # but not for keys, which take their bytes from `secrets`
            outcome = device.check_in()
    except InputError as error:
        assert services.uploads == []
        assert device.memory.reports == 0
        return {"refused": str(error)}
    finally:
        device.close()
    assert source.noise == []
    return {"outcome": outcome.name, "uploads": services.uploads}


def script(text: str) -> tuple[Callable[[int], bytes], Callable[[], bool]]:
    """Return a generator of exactly these bytes, and whether all of them were asked for."""
    left = bytearray.fromhex(text)

    def give(count: int) -> bytes:
        assert count <= len(left), "more random bytes were asked for than the vector has"
        drawn = bytes(left[:count])
        del left[:count]
        return drawn

    return give, lambda: not left


def save(path: Path, about: str, **parts: Any) -> None:
    """Write a file of vectors, one case a line."""
    lines = [f'"about": {json.dumps(about)}']
    for name, cases in parts.items():
        rows = ",\n".join(json.dumps(case, allow_nan=False) for case in cases)
        lines.append(f'"{name}": [\n{rows}\n]')
    path.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")

"""An application and people's devices, which talk to a real coordinator and do what the test says when it says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

from tests.helpers_waiting import HANGING, until
from voxpop.client import Device, Outcome, Promise


@dataclass
class Crowd:
    """The devices of people who like prices of about 2, and the application that sets the price."""

    url: str
    study: str
    key: str  # the application's
    devices: list[Device] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=HANGING))
    plays: int = 0

    def register(self, people: int) -> None:
        """Let new people join."""
        new = [Device(self.url, self.study, Promise(), http=self.http) for _ in range(people)]
        for device in new:
            device.register()
        self.devices += new

    @property
    def needed(self) -> int:
        """The people that the open wave asks."""
        return int(self._status()["people"])

    def play(self) -> None:
        """Play the open wave; everyone lives through it. It is over when people are asked."""
        until(self._begun, "the first round of the wave", pause=0.05)
        while (now := self.devices[0].decision())["rounds"]:
            for device, taste in zip(self.devices, self.rng.normal(2.0, 0.3, len(self.devices)), strict=True):
                reward = 1 - (now["decision"]["price"] - taste) ** 2
                device.record(now["phase"], now["index"], reward, now["rounds"])
            self.plays += 1
            body = {"phase": now["phase"], "rounds": now["rounds"]}
            self._send("PUT", f"/rounds/play-{self.plays}", body)
        until(self._collecting, "people being asked", pause=0.05)

    def answer(self, most: int) -> int:
        """Let people check in until so many have answered; return how many did."""
        answered = 0
        for device in list(self.devices):
            if answered == most:
                break
            if device.check_in() is Outcome.ANSWERED:
                self.devices.remove(device)
                answered += 1
        return answered

    def _begun(self) -> bool:
        return bool(self.devices[0].decision()["rounds"])

    def _collecting(self) -> bool:
        return bool(self._status()["stage"] == "collecting")

    def _status(self) -> Any:
        return self._send("GET", "")

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self.key}"}
        reply = self.http.request(method, f"{self.url}/v1/studies/{self.study}{path}", json=body, headers=headers)
        return reply.raise_for_status().json()

    def close(self) -> None:
        """Hang up."""
        self.http.close()

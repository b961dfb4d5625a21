"""Simulated devices in their own process: each has its own client, key and memory, and uses HTTP.

Started by `voxpop demo`. Standard input brings the waves that were played, one JSON object per line; standard output
returns the reports that were counted, and when the devices have registered and finished.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import httpx
import numpy as np

from voxpop.client import Device, Memory, Outcome, Promise, StudyOverError
from voxpop.client.storage import Outgoing
from voxpop.errors import Array
from voxpop.model.waves import Plan
from voxpop.runtime.machine import one_thread
from voxpop.service.demo.crowd import BETWEEN, THREADS
from voxpop.simulation.pricing import Customers

SOON = 0.25  # seconds from the end of a wave to the check-in


class Noting(Memory):
    """A memory that exposes the report it keeps, so that the demonstration can check the arithmetic."""

    kept: Outgoing | None = None

    def keep(self, outgoing: Outgoing) -> None:
        super().keep(outgoing)
        self.kept = outgoing


@dataclass
class Fleet:
    """The devices that have not taken part yet."""

    devices: list[Device]
    customers: Customers
    rng: np.random.Generator
    pool: ThreadPoolExecutor

    def live(self, lived: dict[str, Any]) -> None:
        """Let everyone experience a wave; their devices record the rewards."""
        arms, pulls = (np.array(lived[name], dtype=np.intp) for name in ("arms", "pulls"))
        plan = Plan(lived["wave"], arms, pulls, len(self.devices))
        rewards: Array = self.customers.observe(plan, len(self.devices), self.rng)  # (devices, arms)
        for device, row in zip(self.devices, rewards.tolist(), strict=True):
            for arm, reward, rounds in zip(lived["arms"], row, lived["pulls"], strict=True):
                device.record(lived["wave"], arm, reward, rounds)

    def sweep(self) -> bool:
        """Let every device check in once; return False when none of them will be asked again."""
        outcomes = list(self.pool.map(Device.check_in, self.devices))
        for device, outcome in zip(list(self.devices), outcomes, strict=True):
            memory = device.memory
            if outcome is Outcome.ANSWERED and isinstance(memory, Noting) and memory.kept is not None:
                _say({"wave": memory.kept.wave, "report": memory.kept.report})
                self.devices.remove(device)
        return bool(self.devices) and Outcome.FINISHED not in outcomes


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _listen(lines: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    lines.put("")  # the parent is gone


def main() -> None:
    """Read the settings from the first line, then experience waves and answer until the study is over."""
    settings = json.loads(sys.stdin.readline())
    lines: SimpleQueue[str] = SimpleQueue()
    Thread(target=_listen, args=[lines], daemon=True).start()
    http = httpx.Client(timeout=30)
    promise = Promise(**settings["promise"])
    devices = [Device(settings["url"], settings["study"], promise, http=http) for _ in range(settings["devices"])]
    for device in devices:
        device.memory = Noting()
    customers, rng = Customers(np.array(settings["prices"])), np.random.default_rng(settings["seed"])
    with one_thread(), ThreadPoolExecutor(THREADS) as pool:
        with suppress(StudyOverError):  # if asking does not pay, it ends before anyone is asked
            list(pool.map(Device.register, devices))
            _say({"registered": len(devices)})
        fleet = Fleet(devices, customers, rng, pool)
        while True:
            pause = BETWEEN
            with suppress(Empty):
                while True:  # until no more waves arrive for a moment, because invitations follow a little later
                    line = lines.get(timeout=pause)
                    if not line:
                        return
                    fleet.live(json.loads(line))
                    pause = SOON
            if not fleet.sweep():
                break
    _say({"finished": True})
    while lines.get():
        pass  # the parent may still write


if __name__ == "__main__":
    main()

"""Measure whether the time at which a report leaves a device tells somebody who listens how large its noise is.

    python -m benchmarks.listeners [reports]

Devices of the local model answer with nothing but noise. Between the reply to a check-in and the upload a clock runs.
Printed is the chance that of two reports the one whose noise is above the median took longer (0.5 is guessing), if
reports leave at once and as they are sent; in Python on a grid of 0.05 s instead of one second, which takes less long.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np

from tests.client.test_device import release, told
from tests.clients_js.npm import NODE, SDK
from tests.service.world import STUDY
from voxpop.client import Device, Promise

PROGRAM = """
import { Device, MemoryStorage } from "SDK/src/index.ts";
import { LOCAL, told } from "SDK/test/services.ts";
const found = [];
for (let i = 0; i < COUNT; i++) {
  let since = 0;
  const fetch = async (address, init) => {
    const now = performance.now();
    const kind = String(address).split("/").at(-1);
    if (kind === "report") found.push([(now - since) / 1000, JSON.parse(init.body).report]);
    if (kind === "report") return Response.json({ status: "counted" }, { status: 201 });
    if (kind === "participant") return Response.json({ status: "registered" }, { status: 201 });
    const reply = Response.json(told("local"));
    since = performance.now();
    return reply;
  };
  const storage = new MemoryStorage();
  const device = new Device({ url: "https://c.example", study: "tea", promise: LOCAL, storage, fetch });
  if (AT_ONCE) device["wait"] = async () => {};
  await device.checkIn();
}
console.log(JSON.stringify(found));
"""


def in_python(count: int, tick: float) -> list[tuple[float, list[float]]]:
    found, invited, since = [], told(release("local"), "/v2/report"), 0.0

    def server(request: httpx.Request) -> httpx.Response:
        nonlocal since
        now, body = time.perf_counter(), request.read()
        if request.method == "GET":
            reply = httpx.Response(200, json=invited)
            since = time.perf_counter()
            return reply
        if request.url.path.endswith("report"):
            found.append((now - since, json.loads(body)["report"]))
            return httpx.Response(201, json={"status": "counted"})
        return httpx.Response(201, json={"status": "registered"})

    http = httpx.Client(transport=httpx.MockTransport(server))
    for _ in range(count):
        device = Device("https://c.example", STUDY, Promise("local", 5.0), http=http)
        device.tick = tick  # type: ignore[misc]
        device.check_in()
        device.memory.close()
    return found


def in_node(count: int, at_once: bool) -> list[tuple[float, list[float]]]:
    text = PROGRAM.replace("SDK", str(SDK)).replace("COUNT", str(count)).replace("AT_ONCE", json.dumps(at_once))
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "listen.ts"
        program.write_text(text, "utf-8")
        said = subprocess.run([NODE, program], capture_output=True, text=True, check=True).stdout
    return [(took, report) for took, report in json.loads(said)]


def said_of(found: Sequence[tuple[float, list[float]]]) -> str:
    """Say how well times tell large noise from small, with the standard error of guessing."""
    some = found[len(found) // 10 :]  # until everything is loaded and compiled
    times, reports = np.array([took for took, _ in some]), np.array([report for _, report in some])
    size = np.abs(reports - np.median(reports, axis=0)).sum(axis=1)
    large = size > np.median(size)
    ranks = (times[large][:, None] > times[~large]).mean() + (times[large][:, None] == times[~large]).mean() / 2
    return f"{ranks:.2f} ± {math.sqrt((len(some) + 1) / (12 * large.sum() * (~large).sum())):.2f}"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print(f"Python: at once {said_of(in_python(4 * count, 0.0))}, on the grid {said_of(in_python(4 * count, 0.05))}")
    print(f"Node: at once {said_of(in_node(4 * count, True))}, on the grid {said_of(in_node(count, False))}")


if __name__ == "__main__":
    main()

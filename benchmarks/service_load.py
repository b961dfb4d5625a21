"""Measure uploads per second, compared with a bare Starlette route that only parses the same body, and closing a phase.

    python benchmarks/service_load.py [sqlite|postgresql ...]

Needs wrk (Debian: apt-get install wrk) and, for PostgreSQL, an installed server, which it starts itself. The load comes
from wrk in its own process over 32 connections. Every upload has its own token, and the reports counted are those found
in the database.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import sqlalchemy as sa

from databases import chosen_databases, free_port
from voxpop.core.kernels import SquaredExponential
from voxpop.core.phases import Plan
from voxpop.core.problem import Problem
from voxpop.drivers.phase import Phase
from voxpop.policies import make_policy
from voxpop.privacy import Private
from voxpop.service.keys import hash_key, new_key, token_of
from voxpop.service.study import log
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition
from voxpop.service.study.events import Event, Kind, opened_body
from voxpop.service.study.inbox import Upload, store
from voxpop.service.study.invitations import draw, insert, made
from voxpop.service.study.stages import Stage
from voxpop.stores.migrate import open_store
from voxpop.stores.schema import inbox, invitations, people

PEOPLE, ARMS, SECONDS, CONNECTIONS = 60_000, 20, 6, 32
STUDY, PORT = "load", free_port()
SECRET = "benchmark-" * 4

SCRIPT = """
local tokens, bodies, place = {}, {}, 0
for line in io.lines(os.getenv("VOXPOP_TOKENS")) do tokens[#tokens + 1] = line end
for line in io.lines(os.getenv("VOXPOP_BODIES")) do bodies[#bodies + 1] = line end
local path = os.getenv("VOXPOP_PATH")
local threads = 0
number = 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end
function init(args) place = number end
request = function()
  place = place + 2
  local i = place % #tokens + 1
  local headers = {["authorization"] = "Bearer " .. tokens[i], ["content-type"] = "application/json"}
  return wrk.format("PUT", path, headers, bodies[place % #bodies + 1])
end
"""

BARE = """
import json
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def upload(request):
    json.loads(await request.body())
    return Response(b'{"status":"counted"}', 201, media_type="application/json")

app = Starlette(routes=[Route("/v1/studies/{study}/phases/{phase}/report", upload, methods=["PUT"])])
"""


@contextmanager
def process(command: list[str], url: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                httpx.get(url)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield running
    finally:
        running.terminate()
        running.wait()
        running.wait()


def prepare(address: str) -> tuple[Coordinator, list[str]]:
    """Create a study that collects from many people, all of them invited; return its coordinator and the tokens."""
    coordinator = Coordinator(open_store(address, "coordinator"), SECRET.encode())
    problem = Problem(np.linspace(0, 1, ARMS), SquaredExponential(0.3), 0.05, 0.1, norm_bound=1.0, horizon=10_000)
    privacy = Private("central", 5.0, 1e-6, "exact", PEOPLE)
    coordinator.create(STUDY, Definition(problem, make_policy("dpbe"), privacy))
    plan = Plan(1, np.arange(ARMS), np.full(ARMS, 10), PEOPLE)
    state = coordinator.snapshots.current(STUDY).state
    event = Event(1, Kind.OPENED, time.time(), opened_body(Phase(plan, privacy.calibrate(problem, state, plan))))
    with coordinator.database.write() as connection:
        begun = {"played": plan.length, "newest": 2**62, "invited": PEOPLE}
        log.append(connection, STUDY, event, phase=1, stage=Stage.COLLECTING, **begun)
        rows = [{"study": STUDY, "key_hash": hash_key(new_key())} for _ in range(PEOPLE)]
        connection.execute(sa.insert(people), rows)
        chosen = draw(connection, STUDY, 1, PEOPLE, 1, 2**62)
        insert(connection, made(SECRET.encode(), STUDY, 1, chosen, time.time() + 1e6, True))
        nonces = connection.execute(sa.select(invitations.c.nonce).order_by(invitations.c.id)).scalars()
        return coordinator, [token_of(SECRET.encode(), nonce) for nonce in nonces]


def wrk(folder: Path) -> tuple[float, float]:
    """Run wrk; return requests per second and the 99th percentile of the latency in milliseconds."""
    environment = {
        **os.environ,
        "VOXPOP_TOKENS": str(folder / "tokens"),
        "VOXPOP_BODIES": str(folder / "bodies"),
        "VOXPOP_PATH": f"/v1/studies/{STUDY}/phases/1/report",
    }
    command = ["wrk", "-t2", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "--latency", "-s", str(folder / "load.lua")]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{PORT}"], env=environment, capture_output=True, text=True, check=True
    )
    lines = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if line.split()}
    if "Non-2xx" in done.stdout:
        print(done.stdout)
    text = lines["99%"]
    scale = {"us": 1e-3, "ms": 1.0}.get(text[-2:], 1000.0)
    return float(lines["Requests/sec:"]), float(text.rstrip("mus")) * scale


def counted(coordinator: Coordinator) -> int:
    with coordinator.database.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(inbox)).scalar_one())


def close(coordinator: Coordinator, tokens: list[str]) -> tuple[float, float]:
    """Close the phase with all reports; return the seconds it took and the additional memory (MiB)."""
    body = np.full(ARMS, 0.3).tobytes()
    for start in range(0, len(tokens), 500):
        store(coordinator.context, [Upload((STUDY, 1), token, body) for token in tokens[start : start + 500]])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start_time = time.perf_counter()
    coordinator.step(STUDY)
    seconds = time.perf_counter() - start_time
    assert counted(coordinator) == 0
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def measure(kind: str, address: str, folder: Path) -> None:
    coordinator, tokens = prepare(address)
    (folder / "tokens").write_text("\n".join(tokens))
    rng = np.random.default_rng(0)
    (folder / "bodies").write_text("\n".join(f'{{"report": {rng.random(ARMS).tolist()}}}' for _ in range(101)))
    (folder / "load.lua").write_text(SCRIPT)
    (folder / "bare.py").write_text(BARE)
    url = f"http://127.0.0.1:{PORT}"
    uvicorn = [sys.executable, "-m", "uvicorn", "bare:app", "--port", str(PORT), "--no-access-log", "--app-dir"]
    with process([*uvicorn, str(folder)], url):
        before, bare_p99 = wrk(folder)
    serve = [sys.executable, "-m", "voxpop", "serve", "--database", address, "--port", str(PORT)]
    with process(serve, url, VOXPOP_SECRET=SECRET, VOXPOP_RATE="0"):
        ours, p99 = wrk(folder)
    with process([*uvicorn, str(folder)], url):  # before and after, because the machine may be shared
        bare = (before + wrk(folder)[0]) / 2
    stored = counted(coordinator)
    print(f"{kind}: bare route {bare:,.0f}/s (p99 {bare_p99:.0f} ms); uploads {ours:,.0f}/s (p99 {p99:.0f} ms)")
    print(
        f"  ratio {ours / bare:.2f}; {stored:,} reports durable in {SECONDS} s: {stored / SECONDS / bare:.2f} of bare"
    )
    seconds, memory = close(coordinator, tokens)
    print(f"  a phase of {PEOPLE:,} reports of {ARMS} numbers closes in {seconds:.1f} s, with {memory:.0f} MiB more")
    coordinator.database.close()


def main() -> None:
    for kind, address, folder in chosen_databases():
        measure(kind, address, folder)


if __name__ == "__main__":
    main()

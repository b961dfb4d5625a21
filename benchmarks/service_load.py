"""Measure uploads per second, compared with a bare Starlette route that only parses the same body, and closing a wave.

    python -m benchmarks.service_load [sqlite|postgresql|aggregate ...]

Needs wrk (Debian: apt-get install wrk); PostgreSQL is the server that the tests use, which this starts itself. The load
comes from wrk in its own process over 32 connections. Every upload has its own token, and the reports counted are those
found in the database. On PostgreSQL two workers are compared with one. The processor time per request hardly depends on
what else the machine does; the rates do, and so each is measured between two runs of the bare route. In the aggregate
model a report is two uploads, to two servers, whose rates are measured on SQLite between two runs of the central model.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

import httpx
import numpy as np
import sqlalchemy as sa

from benchmarks.measure import seconds
from tests.service.chaos import free_port
from tests.service.postgres import server as postgres
from voxpop.journal.journal import Opened
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.privacy import Private, Release, Simulated
from voxpop.privacy.release import Parts
from voxpop.service.keys import Keyring, hash_key, new_key, token_of
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.shuffler.signed_http import HttpShuffler, ShufflerLink
from voxpop.service.stores.database import Database
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import inbox, invitations, people, reports
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition
from voxpop.service.study.inbox import Upload, store
from voxpop.service.study.invitations import Invitations, made
from voxpop.service.study.log import SqlJournal
from voxpop.service.study.stages import Stage
from voxpop.service.study.steps import step

PEOPLE, ARMS, SECONDS, CONNECTIONS = 60_000, 20, 4, 32
STUDY, PORT = "load", free_port()
SECRET = "benchmark-" * 4
REPORT = f"/v2/studies/{STUDY}/waves/1/report"
ELSEWHERE = "http://127.0.0.1:1"  # where the other of two servers would be

SCRIPT = Template("""
local tokens, bodies, place = {}, {}, 0
for line in io.lines("$folder/tokens") do tokens[#tokens + 1] = line end
local function byte(digits) return string.char(tonumber(digits, 16)) end
for line in io.lines("$folder/bodies") do
  bodies[#bodies + 1] = line:sub(1, 1) == "{" and line or line:gsub("..", byte)  -- shares are in hexadecimal
end
local threads = 0
number = 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end
function init(args) place = number + $start end
request = function()
  place = place + 2
  local i = place % #tokens + 1
  local body = bodies[place % #bodies + 1]
  local kind = body:sub(1, 2) == '{"' and "application/json" or "application/octet-stream"
  local headers = {["authorization"] = "Bearer " .. tokens[i], ["content-type"] = kind}
  return wrk.format("PUT", "$path", headers, body)
end
""")

BARE = """
import json
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def upload(request):
    json.loads(await request.body())
    return Response(b'{"status":"counted"}', 201, media_type="application/json")

app = Starlette(routes=[Route("/v2/studies/{study}/waves/{wave}/report", upload, methods=["PUT"])])
"""


def chosen_databases() -> Iterator[tuple[str, str, Path]]:
    """Yield the kind, the address and a folder of each empty database that the command line names, or of both kinds."""
    for kind in sys.argv[1:] or ["sqlite", "postgresql"]:
        with tempfile.TemporaryDirectory(prefix="voxpop-bench-") as name:
            folder = Path(name)
            if kind != "postgresql":
                yield kind, str(folder / "bench.db"), folder
            else:
                (folder / "pg").mkdir()
                folder.chmod(0o755)  # PostgreSQL runs as another user
                with postgres(folder / "pg", durable=True) as address:  # whose commits last
                    yield kind, address, folder


@contextmanager
def process(command: list[str], url: str, **environment: str) -> Iterator[int]:
    """Run a server, and yield its process id."""
    running = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                httpx.get(url)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        time.sleep(1.0)  # until every worker is ready
        yield running.pid
    finally:
        running.terminate()
        running.wait()


def processor_seconds(number: int) -> float:
    """Return the processor time that a process and its children have used."""
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
    return own + sum(processor_seconds(int(child)) for child in children)


def prepare(
    address: str, model: str = "central", shuffler: ShufflerLink | None = None
) -> tuple[Coordinator, list[str]]:
    """Create a study that collects from many people, all of them invited; return its coordinator and the tokens."""
    coordinator = Coordinator(open_store(address, "coordinator"), SECRET.encode(), shuffler)
    problem = Problem(np.linspace(0, 1, ARMS), SquaredExponential(0.3), 0.05, 0.1, norm_bound=1.0, horizon=10_000)
    privacy = Private(model, 5.0, 1e-6, "exact", PEOPLE)
    coordinator.create(STUDY, Definition(problem, make_policy("dpbe"), privacy))
    plan = Plan(1, np.arange(ARMS), np.full(ARMS, 10), PEOPLE)
    state = coordinator.snapshots.current(STUDY).state
    event = Opened(plan, privacy.calibrate(problem, state, plan))
    with coordinator.database.write() as connection:
        begun = {"played": plan.length, "newest": 2**62, "invited": PEOPLE}
        journal = SqlJournal(connection, STUDY, time.time())
        journal.append([event], 0, wave=1, stage=Stage.COLLECTING, **begun)
        rows = [{"study": STUDY, "key_hash": hash_key(new_key())} for _ in range(PEOPLE)]
        connection.execute(sa.insert(people), rows)
        invited = Invitations(connection, STUDY, 1)
        chosen = invited.draw(PEOPLE, 1, 2**62)
        invited.insert(made(SECRET.encode(), STUDY, 1, [(person, 1) for person in chosen], time.time() + 1e6, True))
        nonces = connection.execute(sa.select(invitations.c.nonce).order_by(invitations.c.id)).scalars()
        return coordinator, [token_of(SECRET.encode(), nonce) for nonce in nonces]


@dataclass(frozen=True)
class Load:
    """What a server did under load: requests per second, the slowest hundredth, and processor time per request."""

    rate: float
    p99: float  # milliseconds
    cost: float  # microseconds

    def __str__(self) -> str:
        return f"{self.rate:,.0f}/s, p99 {self.p99:.0f} ms, {self.cost:.0f} us of a processor each"


def wrk(folder: Path, server: int, start: int = 0, path: str = REPORT) -> Load:
    """Load a server with wrk, from the token number `start` on, with what `write_load` wrote."""
    (folder / "load.lua").write_text(SCRIPT.substitute(folder=folder, path=path, start=start))
    command = ["wrk", "-t2", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "--latency", "-s", str(folder / "load.lua")]
    before = processor_seconds(server)
    done = subprocess.run([*command, f"http://127.0.0.1:{PORT}"], capture_output=True, text=True, check=True)
    used = processor_seconds(server) - before
    lines = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if line.split()}
    if "Non-2xx" in done.stdout:
        print(done.stdout)
    text, rate = lines["99%"], float(lines["Requests/sec:"])
    scale = {"us": 1e-3, "ms": 1.0}.get(text[-2:], 1000.0)
    return Load(rate, float(text.rstrip("mus")) * scale, used / rate / SECONDS * 1e6)


def uploads(
    folder: Path, command: list[str], database: Database, table: sa.Table, path: str = REPORT, start: int = 0
) -> Load:
    """Load a service; the rate is that of the rows in its database afterwards, which are durable."""
    url, before = f"http://127.0.0.1:{PORT}", rows_in(database, table)
    quiet = {"VOXPOP_SECRET": SECRET, "VOXPOP_SHUFFLER_KEY": SECRET, "VOXPOP_RATE": "0"}
    with process([sys.executable, "-m", "voxpop", *command, "--port", str(PORT)], url, **quiet) as server:
        found = wrk(folder, server, start, path)
    return replace(found, rate=(rows_in(database, table) - before) / SECONDS)


def rows_in(database: Database, table: sa.Table) -> int:
    with database.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def close(coordinator: Coordinator, tokens: list[str]) -> tuple[float, float]:
    """Close the wave with all reports; return the seconds it took and the additional memory (MiB)."""
    body = np.full(ARMS, 0.3).tobytes()
    for start in range(0, len(tokens), 500):
        store(coordinator.context, [Upload((STUDY, 1), token, body) for token in tokens[start : start + 500]])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    closing = seconds(lambda: step(coordinator.context, STUDY), 1)
    assert rows_in(coordinator.database, inbox) == 0
    return closing, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def write_load(folder: Path, tokens: list[str], bodies: list[str]) -> None:
    """Write what the script of wrk reads: tokens and bodies."""
    (folder / "tokens").write_text("\n".join(tokens))
    (folder / "bodies").write_text("\n".join(bodies))


def measure(kind: str, address: str, folder: Path) -> None:
    coordinator, tokens = prepare(address)
    rng = np.random.default_rng(0)
    write_load(folder, tokens, [f'{{"report": {rng.random(ARMS).tolist()}}}' for _ in range(101)])
    (folder / "bare.py").write_text(BARE)

    def bare() -> Load:
        uvicorn = [sys.executable, "-m", "uvicorn", "bare:app", "--port", str(PORT), "--no-access-log", "--app-dir"]
        with process([*uvicorn, str(folder)], f"http://127.0.0.1:{PORT}") as server:
            return wrk(folder, server)

    def ours(workers: int, start: int) -> Load:
        serve = ["serve", "--database", address, "--workers", str(workers)]
        return uploads(folder, serve, coordinator.database, inbox, start=start)

    first, one, second = bare(), ours(1, 0), bare()
    base = (first.rate + second.rate) / 2
    print(f"{kind}: bare route {first}")
    print(f"  uploads {one}: {one.rate / base:.2f} of the bare route, at {one.cost / first.cost:.2f} of its cost")
    if kind == "postgresql":
        two, third = ours(2, PEOPLE // 2), bare()
        later = (second.rate + third.rate) / 2
        print(f"  two workers {two}: {two.rate / later:.2f} of the bare route")
        print(f"  two workers store {two.rate / later / (one.rate / base):.2f} times as many as one")
    closing, memory = close(coordinator, tokens)
    print(f"  a wave of {PEOPLE:,} reports of {ARMS} numbers closes in {closing:.1f} s, with {memory:.0f} MiB more")
    coordinator.database.close()


def rates(folder: Path) -> None:
    """Print the rates of both servers of the aggregate model as shares of the central model's."""
    first, _, _ = at_coordinator(folder, "central", "first")
    ours, release, tokens = at_coordinator(folder, "aggregate", "second")
    theirs = at_helper(folder, release, tokens)
    last, _, _ = at_coordinator(folder, "central", "third")
    base = (first.rate + last.rate) / 2
    print(f"central {first}\n        {last}")
    print(f"aggregate, at the coordinator {ours}: {ours.rate / base:.2f} of central")
    print(f"aggregate, at the helper {theirs}: {theirs.rate / base:.2f} of central")


def at_coordinator(folder: Path, model: str, name: str) -> tuple[Load, Release, list[str]]:
    """Measure uploads to a coordinator; also return the release of its wave, and the tokens."""
    link = HttpShuffler(ELSEWHERE, Keyring.of(SECRET.encode()), ELSEWHERE) if model == "aggregate" else None
    address = str(folder / f"{name}.db")
    coordinator, tokens = prepare(address, model, link)
    wave = coordinator.snapshots.current(STUDY).wave
    assert wave is not None
    sent = [part.coordinator for part in parts_of(wave.release)]
    write_load(folder, tokens, [one.hex() if isinstance(one, bytes) else json.dumps(one) for one in sent])
    flags = ["--shuffler-url", ELSEWHERE] if link else []
    found = uploads(folder, ["serve", "--database", address, *flags], coordinator.database, inbox)
    coordinator.database.close()
    return found, wave.release, tokens


def at_helper(folder: Path, release: Release, tokens: list[str]) -> Load:
    """Measure uploads of the other shares to a helper."""
    address, name = str(folder / "helper.db"), new_key()
    database = open_store(address, "shuffler")
    assert release.batch is not None
    hashes = [hash_key(token) for token in tokens]
    Shuffler(database, lambda kind, **values: None).announce(name, release.batch, hashes, [])
    write_load(folder, tokens, [json.dumps(part.helper) for part in parts_of(release)])
    command = ["shuffler", "--database", address, "--coordinator-url", ELSEWHERE]
    found = uploads(folder, command, database, reports, f"/v2/batches/{name}/report")
    database.close()
    return found


def parts_of(release: Release) -> list[Parts]:
    """Make what some devices send."""
    rng = np.random.default_rng(0)
    answers, source = rng.random((101, ARMS)), Simulated(rng)
    return [release.parts(report, source) for report in release.randomize(answers, source)]


def main() -> None:
    for kind, address, folder in chosen_databases():
        if kind == "aggregate":
            rates(folder)
        else:
            measure(kind, address, folder)


if __name__ == "__main__":
    main()

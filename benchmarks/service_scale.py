"""Measure what a million devices in a hundred studies cost: screens, a draw beside other writes, waiting, check-ins.

    python -m benchmarks.service_scale [sqlite|postgresql ...]

PostgreSQL is the server that the tests use, which this starts itself. A draw of 60,000 of 200,000 people runs while
another thread registers one person after the other; the longest of these registrations is the delay that others feel.
Devices check in over HTTP, as often as a million of them are told to.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from threading import Event as Flag
from threading import Thread

import httpx
import numpy as np
import sqlalchemy as sa

from benchmarks.measure import seconds
from benchmarks.service_load import PORT, SECRET, chosen_databases, process, processor_seconds, rows_in
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.policies import make_policy
from voxpop.privacy import Private
from voxpop.service.keys import hash_key, new_key
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import counts, invitations, people
from voxpop.service.study import participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition, Rules
from voxpop.service.study.participants import Newcomer
from voxpop.service.study.scheduler import Scheduler
from voxpop.service.study.status import status_of
from voxpop.service.study.steps import step

DEVICES, STUDIES, LARGE, ASKED, SECONDS = 1_000_000, 100, 200_000, 60_000, 8.0
RATE = DEVICES / min(DEVICES / participants.CHECK_INS, participants.SHARE * Rules().deadline)  # check-ins a second


def definition(floor: int) -> Definition:
    problem = Problem(np.linspace(0, 1, 6), SquaredExponential(0.3), 0.05, 0.1, norm_bound=1.0, horizon=1000)
    return Definition(problem, make_policy("dpbe"), Private("central", 5.0, 1e-6, "exact", floor))


def key_of(study: str, number: int) -> str:
    return f"{study}-{number:040}"


def populate(coordinator: Coordinator, study: str, size: int) -> None:
    """Register people, without the work of requests."""
    with coordinator.database.write() as connection:
        for start in range(0, size, 20_000):
            hashes = [hash_key(key_of(study, number)) for number in range(start, min(size, start + 20_000))]
            if coordinator.database.embedded:
                connection.execute(sa.insert(people), [{"study": study, "key_hash": hashed} for hashed in hashes])
            else:
                many = "INSERT INTO people (study, key_hash) SELECT %s, * FROM unnest(%b::bytea[])"
                connection.exec_driver_sql(many, (study, hashes))
        known = {"registered": size, "never_asked": size}
        connection.execute(sa.update(counts).where(counts.c.study == study).values(**known))


def draw(coordinator: Coordinator, study: str) -> tuple[float, list[float]]:
    """Draw the people of the wave; return the seconds it took, and those of every registration meanwhile."""
    while status_of(coordinator.context, study).stage != "open" or not coordinator.decision(study).rounds:
        step(coordinator.context, study)
    while (now := coordinator.decision(study)).rounds:
        coordinator.play(study, now.wave, new_key(), now.rounds)
    done, waits = Flag(), list[float]()

    def others() -> None:
        while not done.is_set():
            start = time.perf_counter()
            participants.register(coordinator.context, [Newcomer(study, new_key())])
            waits.append(time.perf_counter() - start)
            time.sleep(0.005)

    thread = Thread(target=others)
    thread.start()
    drawing = seconds(lambda: step(coordinator.context, study), 1)
    done.set()
    thread.join()
    assert rows_in(coordinator.database, invitations) == ASKED
    return drawing, waits


async def idle(coordinator: Coordinator) -> float:
    """Return the share of a core that the scheduler uses while nothing happens."""
    async with Scheduler(coordinator):
        await asyncio.sleep(3.0)  # until every study is open
        start, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(SECONDS)
        return (time.process_time() - used) / (time.perf_counter() - start)


def beats(per_second: float) -> Iterator[None]:
    """Yield at this rate for some seconds, whatever happens in between."""
    start = time.perf_counter()
    for number in range(round(SECONDS * per_second)):
        time.sleep(max(0.0, start + number / per_second - time.perf_counter()))
        yield


def check_ins(address: str) -> tuple[float, float]:
    """Let devices check in over HTTP; return the share of a core that the service uses, and the slowest reply."""
    waits, url = list[float](), f"http://127.0.0.1:{PORT}"
    serve = [sys.executable, "-m", "voxpop", "serve", "--database", address, "--port", str(PORT)]
    with process(serve, url, VOXPOP_SECRET=SECRET, VOXPOP_RATE="0") as server, httpx.Client() as http:
        before = processor_seconds(server)
        told = 0.0
        for number, _ in enumerate(beats(RATE)):
            study = f"small-{number % (STUDIES - 1)}"
            start = time.perf_counter()
            headers = {"authorization": f"Bearer {key_of(study, number)}"}
            told = http.get(f"{url}/v2/studies/{study}/checkin", headers=headers).json()["next_check_in"]
            waits.append(time.perf_counter() - start)
        assert told > 0.5 * DEVICES / RATE
        return (processor_seconds(server) - before) / SECONDS, max(waits)


def measure(kind: str, address: str) -> None:
    coordinator = Coordinator(open_store(address, "coordinator"), SECRET.encode())
    coordinator.create("large", definition(ASKED))
    populate(coordinator, "large", LARGE)
    for number in range(STUDIES - 1):
        coordinator.create(f"small-{number}", definition(50_000))
        populate(coordinator, f"small-{number}", (DEVICES - LARGE) // (STUDIES - 1))
    print(f"{kind}: {DEVICES:,} devices in {STUDIES} studies")
    early = 1e3 * seconds(lambda: status_of(coordinator.context, "large"), 50)
    drawing, waits = draw(coordinator, "large")
    late = 1e3 * seconds(lambda: status_of(coordinator.context, "large"), 50)
    listed = 1e3 * seconds(coordinator.studies, 50)
    print(f"  status {early:.1f} ms, with {ASKED:,} invited {late:.1f} ms; the list of studies {listed:.1f} ms")
    print(f"  a draw of {ASKED:,} takes {drawing:.1f} s; the longest of {len(waits)} registrations {max(waits):.2f} s")
    print(f"  {STUDIES} studies that wait for people use {asyncio.run(idle(coordinator)):.1%} of a core")
    share, slowest = check_ins(address)
    print(f"  {RATE:.0f} check-ins a second use {share:.1%} of a core; the slowest took {slowest * 1e3:.0f} ms")
    coordinator.database.close()


def main() -> None:
    for kind, address, _ in chosen_databases():
        measure(kind, address)


if __name__ == "__main__":
    main()

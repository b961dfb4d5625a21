"""Measure what many people and many studies cost: status, a draw beside other writes, and studies that only wait.

    python benchmarks/service_scale.py [sqlite|postgresql ...]

PostgreSQL is the server that the tests use, which this starts itself. A draw of 60,000 of 100,000 people runs while
another thread registers one person after the other; the longest of these registrations is the delay that others feel.
"""

from __future__ import annotations

import asyncio
import time
from threading import Event as Flag
from threading import Thread

import numpy as np
import sqlalchemy as sa

from databases import chosen_databases
from voxpop.core.kernels import SquaredExponential
from voxpop.core.problem import Problem
from voxpop.policies import make_policy
from voxpop.privacy import Private
from voxpop.service.keys import new_key
from voxpop.service.study import participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition
from voxpop.service.study.participants import Newcomer
from voxpop.service.study.scheduler import Scheduler
from voxpop.stores.migrate import open_store
from voxpop.stores.schema import invitations

PEOPLE, ASKED, STUDIES, SECONDS = 100_000, 60_000, 100, 10.0


def definition(floor: int) -> Definition:
    problem = Problem(np.linspace(0, 1, 6), SquaredExponential(0.3), 0.05, 0.1, norm_bound=1.0, horizon=1000)
    return Definition(problem, make_policy("dpbe"), Private("central", 5.0, 1e-6, "exact", floor))


def register(coordinator: Coordinator, study: str, people: int) -> None:
    for start in range(0, people, 500):
        new = [Newcomer(study, new_key()) for _ in range(min(500, people - start))]
        participants.register(coordinator.context, new)


def milliseconds(coordinator: Coordinator, study: str, times: int = 50) -> float:
    """Return what one status costs."""
    coordinator.status(study)
    start = time.perf_counter()
    for _ in range(times):
        coordinator.status(study)
    return (time.perf_counter() - start) / times * 1e3


def draw(coordinator: Coordinator, study: str) -> tuple[float, list[float]]:
    """Draw the people of the phase; return the seconds it took, and those of every registration meanwhile."""
    while coordinator.status(study)["stage"] != "open" or not coordinator.decision(study)["rounds"]:
        coordinator.step(study)
    while (now := coordinator.decision(study))["rounds"]:
        coordinator.play(study, now["phase"], new_key(), now["rounds"])
    done, waits = Flag(), list[float]()

    def others() -> None:
        while not done.is_set():
            start = time.perf_counter()
            participants.register(coordinator.context, [Newcomer(study, new_key())])
            waits.append(time.perf_counter() - start)

    thread = Thread(target=others)
    thread.start()
    start = time.perf_counter()
    coordinator.step(study)
    seconds = time.perf_counter() - start
    done.set()
    thread.join()
    with coordinator.database.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(invitations)).scalar_one() == ASKED
    return seconds, waits


async def idle(coordinator: Coordinator) -> float:
    """Return the share of a core that the scheduler uses while nothing happens."""
    async with Scheduler(coordinator):
        await asyncio.sleep(3.0)  # until every study is open
        start, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(SECONDS)
        return (time.process_time() - used) / (time.perf_counter() - start)


def measure(kind: str, address: str) -> None:
    coordinator = Coordinator(open_store(address, "coordinator"), b"s" * 32)
    coordinator.create("large", definition(ASKED))
    register(coordinator, "large", PEOPLE)
    early = milliseconds(coordinator, "large")
    seconds, waits = draw(coordinator, "large")
    late = milliseconds(coordinator, "large")
    print(f"{kind}: status with {PEOPLE:,} people {early:.1f} ms, with {ASKED:,} of them invited {late:.1f} ms")
    print(f"  a draw of {ASKED:,} takes {seconds:.1f} s; the longest of {len(waits)} registrations {max(waits):.2f} s")
    for number in range(STUDIES):
        coordinator.create(f"idle-{number}", definition(50))
    print(f"  {STUDIES} studies that wait for people use {asyncio.run(idle(coordinator)):.1%} of a core")
    coordinator.database.close()


def main() -> None:
    for kind, address, _ in chosen_databases():
        measure(kind, address)


if __name__ == "__main__":
    main()

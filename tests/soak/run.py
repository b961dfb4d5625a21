"""Running a soak: start everything, let it run while things break, and end and remove everything."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import psycopg

from tests.service.chaos import Lossy
from tests.service.postgres import Server, with_name
from tests.service.world import add_operator
from tests.soak.application import Application
from tests.soak.disks import small_disk
from tests.soak.faults import Breaker, plan
from tests.soak.fleets import Fleet
from tests.soak.scale import Scale
from tests.soak.services import make_services
from tests.soak.soak import Soak
from voxpop.service.keys import new_key
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.coordinator import Coordinator

PAUSE = 0.004  # seconds between two check-ins of one study's devices
MEGABYTES = {"shuffler": 32, "PostgreSQL": 448}
SMALL_WAL = ("--min_wal_size=32MB", "--max_wal_size=96MB")


@contextmanager
def running(scale: Scale, seed: int, folder: Path | None = None) -> Iterator[Soak]:
    """Start the database and the services, and end and remove everything afterwards."""
    base = Path(tempfile.mkdtemp(prefix="voxpop-soak-"))
    base.chmod(0o755)  # PostgreSQL may run as another user
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        (base / "postgres").mkdir()
        places = {"shuffler": base / "shuffler", "PostgreSQL": base / "postgres" / "data"}
        disks = {name: stack.enter_context(small_disk(place, MEGABYTES[name])) for name, place in places.items()}
        postgres = Server(base / "postgres", True, *SMALL_WAL)
        postgres.start()
        stack.callback(lambda: postgres.stop() if postgres.process.poll() is None else None)
        with psycopg.connect(postgres.address, autocommit=True) as connection:
            connection.execute("CREATE DATABASE voxpop")
        address, key = with_name(postgres.address, "voxpop"), new_key()
        database = open_store(address, "coordinator")
        stack.callback(database.close)
        add_operator(Coordinator(database, b""), "soak", key)
        shuffled = str(places["shuffler"] / "shuffler.db")
        services = make_services(base, address, shuffled)
        application = Application([one.url for one in services[:2]], key, Lossy(scale.cut, seed, 60.0))
        stack.callback(application.close)
        breaker = Breaker(scale, services, postgres, disks)
        soak = Soak(scale, seed, application, database, shuffled, services, breaker)
        breaker.clock = soak.clock
        for service in services:
            service.note = soak.fault
            service.start()
            stack.callback(service.end)
        while not all(service.ready() for service in services):
            time.sleep(0.05)
        settings = {"urls": application.urls, "seed": seed, "pause": PAUSE, "folder": str(base / "devices")}
        settings |= {name: getattr(scale, name) for name in ("cut", "in_files", "curious", "absent")}
        (base / "devices").mkdir()
        for _ in range(scale.fleets):
            soak.fleets.append(Fleet(settings, soak.hear))
            stack.callback(soak.fleets[-1].process.kill)
        yield soak
        if folder is not None:
            for service in services:
                shutil.copy(service.log, folder)


def run(scale: Scale, seed: int, folder: Path | None = None) -> Soak:
    """Run a whole soak; what is wrong is in its `faults`."""
    with running(scale, seed, folder) as soak:
        soak.began = time.monotonic()
        for _ in range(scale.studies):
            soak.begin_study()
        tasks = (soak.play, soak.call, soak.measure, soak.watch)
        threads = [Thread(target=soak.guarded, args=[task], daemon=True) for task in tasks]
        for thread in threads:
            thread.start()
        soak.breaker.run(plan(scale, seed))
        while not soak.faults and (soak.clock() < scale.seconds or soak.counted < scale.reports):
            time.sleep(0.1)
        soak.ended.set()
        for thread in threads:
            thread.join()
        soak.drain()
        soak.finish()
    return soak

"""Two thousand devices, a network that cuts replies, and six kill -9: what was acknowledged is what was counted."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import httpx
import sqlalchemy as sa

from tests.service.chaos import Proxy, Victim, victim
from tests.service.world import SECRET, STUDY, definition, private
from voxpop.client import Device, Outcome, Promise
from voxpop.service.coordinator import Coordinator
from voxpop.service.keys import new_key
from voxpop.service.record import CLOSED
from voxpop.service.replay import record_of
from voxpop.stores.migrate import open_store
from voxpop.stores.schema import inbox, people, receipts

DEVICES, KILLS, THREADS, FLOOR = 2000, 6, 16, 380


def live(devices: list[Device]) -> tuple[int, int]:
    """Devices check in until the study is over; how many were told that they counted, and that they came too late."""
    counted = late = 0
    waiting = list(devices)
    random.Random(1).shuffle(waiting)
    while waiting:
        left = []
        for device in waiting:
            try:
                outcome = device.check_in()
            except httpx.HTTPError:
                outcome = Outcome.OFFLINE
            if outcome is Outcome.FINISHED:
                return counted, late
            counted += outcome is Outcome.ANSWERED
            late += outcome is Outcome.TOO_LATE
            if outcome is not Outcome.ANSWERED:
                left.append(device)
        waiting = left
        time.sleep(0.05)
    return counted, late


def play(it: Victim, stop: list[bool]) -> None:
    """The application: it plays whatever is in force, through the killed process like everyone else."""
    number = 0
    with httpx.Client(base_url=f"http://127.0.0.1:{it.port}", timeout=30) as client:
        while not stop:
            try:
                now = client.get(f"/v1/studies/{STUDY}/decision").json()
                if now["rounds"]:
                    body = {"phase": now["phase"], "rounds": now["rounds"]}
                    key = f"{now['phase']}-{now['index']}-{number}"
                    client.put(
                        f"/v1/studies/{STUDY}/rounds/{key}", json=body, headers={"authorization": f"Bearer {KEY}"}
                    )
                    number += 1
            except httpx.TransportError:
                pass
            time.sleep(0.05)


KEY = new_key()


def test_acknowledged_equals_counted(tmp_path: Path) -> None:
    database = str(tmp_path / "c.db")
    made = definition(private("central", FLOOR), deadline=300.0)
    coordinator = Coordinator(open_store(database, "coordinator"), SECRET)
    coordinator.add_operator("me", KEY)
    coordinator.create(STUDY, made)
    with victim(tmp_path, database) as it:
        proxy = Proxy(it.port, cut=0.05)
        limits = httpx.Limits(max_keepalive_connections=0)  # a connection each, so that each reply can be cut
        http = httpx.Client(timeout=30, limits=limits)
        devices = [
            Device(proxy.url, STUDY, Promise("central", 5.0), http=http, attempts=3, sleep=lambda _: time.sleep(0.05))
            for _ in range(DEVICES)
        ]
        for device in devices:  # everyone lived through everything
            for phase in range(1, 6):
                for arm in range(6):
                    device.record(phase, arm, 0.3)
        stop: list[bool] = []
        player = Thread(target=play, args=[it, stop])
        player.start()
        with ThreadPoolExecutor(THREADS) as pool:
            parts = [devices[start::THREADS] for start in range(THREADS)]
            running = [pool.submit(live, part) for part in parts]
            for _ in range(KILLS):
                time.sleep(1.0)
                it.kill()
            told = [future.result() for future in running]
        stop.append(True)
        player.join()
        proxy.close()
    counted = sum(part[0] for part in told)
    assert proxy.dropped > 100
    with coordinator.database.read() as connection:
        stored, left, most = (
            connection.execute(query).scalar_one()
            for query in (
                sa.select(sa.func.count()).select_from(receipts),
                sa.select(sa.func.count()).select_from(inbox),
                sa.select(sa.func.max(people.c.participations)),
            )
        )
    events = coordinator.log(STUDY)
    closed = [event.body["feedback"]["count"] for event in events if event.kind == CLOSED]
    assert closed == [FLOOR] * 5
    assert (counted, stored, sum(closed)) == (FLOOR * 5,) * 3
    assert (left, most, sum(part[1] for part in told)) == (0, 1, 0)
    assert [entry.phase for entry in record_of(events).ledger.entries] == [1, 2, 3, 4, 5]
    coordinator.database.close()

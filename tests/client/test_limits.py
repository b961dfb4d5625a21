"""How often a device answers: no more than its owner was promised, whatever became of the reports."""

import sqlite3
from pathlib import Path
from threading import Barrier, Thread

import httpx
import pytest

from tests.client.test_device import Server, release, told
from tests.service.world import STUDY
from voxpop.client import Device, Memory, Outcome, Promise
from voxpop.client.storage import Outgoing
from voxpop.errors import InputError


def ask(server: Server, device: Device, wave: int) -> Outcome:
    server.invitation["wave"]["wave"] = wave
    for arm in range(4):
        device.record(wave, arm, 0.5)
    return device.check_in()


@pytest.mark.parametrize("most", [1, 3])
def test_a_device_answers_as_often_as_was_promised(most: int) -> None:
    server = Server(told(release("local")))
    device = server.device(Promise("local", 5.0, participations=most))
    outcomes = [ask(server, device, wave) for wave in range(1, 6)]
    assert outcomes == [Outcome.ANSWERED] * most + [Outcome.SPENT] * (5 - most)
    assert len(server.got) == most


def test_asking_for_the_same_wave_again_is_asking_again() -> None:
    server = Server(told(release("local")))
    device = server.device(Promise("local", 5.0))
    assert [ask(server, device, 1) for _ in range(3)] == [Outcome.ANSWERED, Outcome.SPENT, Outcome.SPENT]
    assert len(server.got) == 1


def test_a_report_that_came_too_late_counts_as_made(tmp_path: Path) -> None:
    server = Server(told(release("local")))
    server.verdict = httpx.Response(410, json={"error": "too late"})
    device = server.device(Promise("local", 5.0), path=tmp_path / "d.db")
    assert ask(server, device, 1) is Outcome.TOO_LATE
    device.close()
    again = server.device(Promise("local", 5.0), path=tmp_path / "d.db")  # also after the device restarts
    assert ask(server, again, 2) is Outcome.SPENT
    assert len(server.got) == 1
    again.close()


def test_counting_and_keeping_are_one_transaction(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "d.db")
    first = Outgoing(1, "http://x", "token", b"first")
    with sqlite3.connect(tmp_path / "d.db") as file:
        file.execute("CREATE TRIGGER full BEFORE INSERT ON made BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    with pytest.raises(sqlite3.DatabaseError, match="disk full"):
        memory.keep_within(first, 1)
    assert (memory.reports, memory.outgoing()) == (0, None)  # a report that was not counted is not stored either
    file.execute("DROP TRIGGER full")
    file.close()
    assert memory.keep_within(first, 1) == first
    assert (memory.reports, memory.outgoing()) == (1, first)
    memory.forget(1)
    assert memory.keep_within(Outgoing(2, "http://x", "token", b"second"), 1) is None
    assert (memory.reports, memory.outgoing()) == (1, None)
    memory.close()


def test_two_processes_of_one_device_send_one_report(tmp_path: Path) -> None:
    """Each has a connection of its own, as processes have."""
    memories = [Memory(tmp_path / "d.db") for _ in range(4)]
    start, sent = Barrier(4), list[Outgoing | None]()

    def keep(number: int) -> None:
        start.wait()
        sent.append(memories[number].keep_within(Outgoing(number, "http://x", "token", b"%d" % number), 1))

    threads = [Thread(target=keep, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sent) == 4
    assert len(set(sent)) == 1
    assert {memory.reports for memory in memories} == {1}
    for memory in memories:
        memory.close()


def test_participations_must_be_a_positive_whole_number() -> None:
    for value in (0, -1, 1.5, True, None):
        with pytest.raises(InputError, match="participations must be a whole number"):
            Promise("local", 5.0, participations=value)  # type: ignore[arg-type]
    assert Device("http://x", STUDY, Promise()).promise.participations == 1

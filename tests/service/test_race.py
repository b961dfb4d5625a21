"""Two coordinators on one PostgreSQL: every wave opens and closes once, and every report is counted once."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import sqlalchemy as sa

from tests.service.world import SECRET, STUDY, definition, enrol, private, take_step, world
from voxpop.privacy import Secure
from voxpop.service.keys import new_key
from voxpop.service.reports import Verdict
from voxpop.service.stores.database import open_database
from voxpop.service.stores.migrate import migrate, open_store
from voxpop.service.stores.schema import people
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.inbox import Upload, store
from voxpop.service.study.stages import Kind

RACERS = 4


def together(calls: list[Callable[[], object]]) -> list[object]:
    """Run the calls at the same moment, each in its own thread."""
    barrier = Barrier(len(calls))

    def call(one: Callable[[], object]) -> object:
        barrier.wait()
        return one()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


def test_a_wave_closes_once_and_its_noise_is_released_once(new_postgres: Callable[[], str]) -> None:
    address = new_postgres()
    with world(address, definition(private("central")), people=80) as it:
        others = [Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock) for _ in range(RACERS)]
        for _ in range(5):
            while it.coordinator.snapshots.current(STUDY).wave is None:
                together([lambda o=o: take_step(o, STUDY) for o in others])  # type: ignore[misc]
            it.play_all()
            together([lambda o=o: take_step(o, STUDY) for o in others])  # type: ignore[misc]
            assert it.status.invited == 12
            it.answer_all()
            together([lambda o=o: take_step(o, STUDY) for o in others])  # type: ignore[misc]
        it.settle()
        kinds = Counter(event.kind for event in it.coordinator.log(STUDY))
        assert (kinds[Kind.OPENED], kinds[Kind.CLOSED]) == (5, 5)
        states = [other.snapshots.current(STUDY).state for other in others]
        for state in states[1:]:
            np.testing.assert_array_equal(state.upper, states[0].upper)
        with it.coordinator.database.read() as connection:
            most = connection.execute(sa.select(sa.func.max(people.c.participations))).scalar_one()
        assert most == 1
        for other in others:
            other.database.close()


def test_one_token_at_two_coordinators_counts_once(new_postgres: Callable[[], str]) -> None:
    address = new_postgres()
    with world(address, definition(private("central")), people=30) as it:
        others = [Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock) for _ in range(RACERS)]
        it.settle()
        it.play_all()
        it.settle()
        for _, invitation in it.invited():
            uploads = [Upload((STUDY, 1), invitation["token"], np.array([value]).tobytes()) for value in (0.1, 0.2)]

            def put(racer: int, uploads: list[Upload] = uploads) -> Verdict:
                return store(others[racer].context, [uploads[racer % 2]])[0]

            verdicts = together([lambda r=r: put(r) for r in range(RACERS)])  # type: ignore[misc]
            assert sum(verdict is True for verdict in verdicts) == 1
            assert sum(verdict is False for verdict in verdicts) == 1
            assert [v.status for v in verdicts if not isinstance(v, bool)] == [409, 409]  # type: ignore[attr-defined]
        assert it.status.answered == 12
        for other in others:
            other.database.close()


def test_one_key_registers_once(new_postgres: Callable[[], str]) -> None:
    address = new_postgres()
    with world(address, definition()) as it:
        others = [Coordinator(open_store(address, "coordinator"), SECRET, noise=Secure()) for _ in range(RACERS)]
        key = new_key()
        together([lambda o=o: enrol(o, STUDY, key) for o in others])  # type: ignore[misc]
        assert it.status.registered == 1
        for other in others:
            other.database.close()


def test_migrations_may_run_at_the_same_moment(address: str) -> None:
    databases = [open_database(address) for _ in range(RACERS)]
    versions = together([lambda d=d: migrate(d, "coordinator")[0] for d in databases])  # type: ignore[misc]
    assert sorted(map(str, versions)) == ["None", *["coordinator_9"] * (RACERS - 1)]
    for database in databases:
        database.close()

"""kill -9 at any moment, and a network that loses replies: what was acknowledged is what was counted."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.service.chaos import Crowd, Victim, free_port, victims
from tests.service.world import SECRET, STUDY, add_operator, definition, private
from voxpop.client import Promise
from voxpop.service.demo.crowd import disagreements
from voxpop.service.keys import Keyring, new_key
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import batches, inbox, people, receipts, reports, tokens
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.log import fold
from voxpop.service.study.stages import Kind

KEY = new_key()
WAVES = 5


def study(database: str, model: str, floor: int) -> Coordinator:
    """Create a study whose waves ask `floor` people; the test looks at it from outside."""
    second = private(model, floor).release_type.second
    link = HttpShuffler("http://127.0.0.1:1", Keyring.of(b""), "http://127.0.0.1:1") if second is not None else None
    coordinator = Coordinator(open_store(database, "coordinator"), SECRET, link)
    add_operator(coordinator, "me", KEY)
    coordinator.create(STUDY, definition(private(model, floor), deadline=3600.0))
    return coordinator


def check(coordinator: Coordinator, crowd: Crowd, floor: int) -> None:
    """Check that every acknowledged report was stored and released, exactly once."""
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
    closed = [event.body["feedback"]["count"] for event in events if event.kind == Kind.CLOSED]
    assert closed == [floor] * WAVES
    assert Counter(event.kind for event in events)[Kind.OPENED] == WAVES
    assert (crowd.counted, stored, sum(closed)) == (floor * WAVES,) * 3
    assert (left, most, crowd.late) == (0, 1, 0)
    assert [entry.wave for entry in fold(events).ledger.entries] == [1, 2, 3, 4, 5]


def test_hundreds_of_devices_and_six_kills(tmp_path: Path) -> None:
    database, floor = str(tmp_path / "c.db"), 100
    coordinator = study(database, "central", floor)
    with victims(partial(Victim, tmp_path, "serve", ["--database", database], free_port())) as (it,):
        crowd = Crowd([it.url], Promise("central", 5.0), 520)
        # In the middle of waves, and just after the last report of one was acknowledged.
        crowd.through(KEY, dict.fromkeys([30, floor, 150, 2 * floor, 290, 400], it))
    assert crowd.lossy.dropped > 50
    check(coordinator, crowd, floor)
    coordinator.database.close()


def test_two_coordinators_on_one_postgresql_and_each_is_killed(tmp_path: Path, new_postgres: Callable[[], str]) -> None:
    database, floor = new_postgres(), 38
    coordinator = study(database, "central", floor)
    make = partial(Victim, tmp_path, "serve", ["--database", database])
    with victims(partial(make, free_port()), partial(make, free_port())) as (one, two):
        crowd = Crowd([one.url, two.url], Promise("central", 5.0), 200)
        crowd.through(KEY, {20: one, floor: two, 100: one, 3 * floor: two})
    check(coordinator, crowd, floor)
    coordinator.database.close()


@pytest.mark.parametrize("model", ["shuffle", "aggregate"])
def test_the_second_server_is_killed(model: str, tmp_path: Path) -> None:
    database, own, floor = str(tmp_path / "c.db"), str(tmp_path / "s.db"), 28
    coordinator = study(database, model, floor)
    ports, key = (free_port(), free_port()), {"VOXPOP_SHUFFLER_KEY": new_key()}
    here, there = (f"http://127.0.0.1:{port}" for port in ports)
    serve = ["--database", database, "--shuffler-url", there]
    shuffle = ["--database", own, "--coordinator-url", here]
    with victims(
        lambda: Victim(tmp_path, "shuffler", shuffle, ports[1], **key),
        lambda: Victim(tmp_path, "serve", serve, ports[0], **key),
    ) as (second, it):
        promise = Promise(model, 5.0, shuffler=there) if model == "shuffle" else Promise(model, 5.0, helper=there)
        crowd = Crowd([it.url], promise, 150)
        # Before a batch is complete, and just after its last report was acknowledged, while its total is on its way.
        killings = {10: second, floor: second, 2 * floor: second, 2 * floor + 10: it, 100: second}
        if model == "aggregate":  # it is the coordinator that asks for totals
            killings |= {floor: it, 2 * floor: it, 2 * floor + 10: second, 3 * floor: second}
        crowd.through(KEY, killings)
    check(coordinator, crowd, floor)
    assert disagreements(coordinator.log(STUDY), crowd.reports) == []  # exactly these reports, each of them once
    store = open_store(own, "shuffler")
    with store.read() as connection:
        states = connection.execute(sa.select(batches.c.state)).all()
        left = connection.execute(sa.select(sa.func.count()).select_from(reports)).scalar_one()
        used = sa.select(sa.func.count()).select_from(tokens).where(tokens.c.digest.is_not(None))
        assert connection.execute(used).scalar_one() == crowd.counted
    assert [row.state for row in states] == ["forwarded"] * WAVES
    assert left == 0
    store.close()
    coordinator.database.close()
    told = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert told
    assert not [token for token in crowd.tokens if token in told]

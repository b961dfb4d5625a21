"""What is acknowledged is stored, what is released is released once, and nothing is told before it is stored."""

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.service.world import SECRET, STUDY, World, definition, private, take_step, world
from voxpop.privacy import Entry
from voxpop.service.group_commit import GroupWriter
from voxpop.service.refusals import Refusal
from voxpop.service.stores.database import open_database
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import inbox
from voxpop.service.study import steps
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.inbox import Upload, store
from voxpop.service.study.log import text_of
from voxpop.service.study.stages import Kind
from voxpop.service.study.status import status_of


def begin(it: World) -> None:
    it.settle()
    it.play_all()
    it.settle()


def test_an_upload_is_acknowledged_after_its_transaction() -> None:
    stored: list[int] = []

    def keep(items: list[int]) -> list[bool]:
        if items == [13]:
            raise RuntimeError("the disk is full")
        stored.extend(items)
        return [True] * len(items)

    async def put() -> None:
        writer: GroupWriter[int, bool] = GroupWriter(keep)
        with pytest.raises(RuntimeError, match="the disk is full"):
            await writer.put(13)
        assert await writer.put(7)
        assert stored == [7]
        await writer.close()

    asyncio.run(put())


@pytest.mark.parametrize(("pragma", "value"), [("synchronous", 2), ("secure_delete", 1), ("foreign_keys", 1)])
def test_sqlite_keeps_what_is_committed_and_overwrites_what_is_deleted(tmp_path: Path, pragma: str, value: int) -> None:
    database = open_database(str(tmp_path / "c.db"))
    with database.write() as connection:
        assert connection.exec_driver_sql(f"PRAGMA {pragma}").scalar_one() == value
    database.close()


def test_a_step_that_another_coordinator_took_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other closes the wave after this one has read the log and before it has the lock."""
    address = str(tmp_path / "c.db")
    with world(address, definition(private("central")), people=30) as it:
        begin(it)
        it.answer_all()
        late = Coordinator(open_store(address, "coordinator"), SECRET, clock=it.clock)
        look = steps._look

        def slowly(*arguments: Any) -> steps.Step:
            found = look(*arguments)
            monkeypatch.setattr(steps, "_look", look)
            assert take_step(it.coordinator, STUDY)
            return found

        monkeypatch.setattr(steps, "_look", slowly)
        assert take_step(late, STUDY)
        kinds = [event.kind for event in it.coordinator.log(STUDY)]
        assert kinds.count(Kind.CLOSED) == 1
        assert status_of(late.context, STUDY).stage == it.status.stage == "closed"
        late.database.close()


def test_reports_under_one_token_in_one_group_count_once(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(), people=30) as it:
        begin(it)
        _, invitation = next(it.invited())
        uploads = [Upload((STUDY, 1), invitation["token"], np.array([value]).tobytes()) for value in (0.1, 0.1, 0.2)]
        first, again, other = store(it.coordinator.context, uploads)
        assert (first, again) == (True, False)
        assert isinstance(other, Refusal)
        assert other.status == 409
        with it.coordinator.database.read() as connection:
            bodies = connection.execute(sa.select(inbox.c.body)).scalars().all()
        assert bodies == [np.array([0.1]).tobytes()]


@pytest.mark.parametrize("model", ["none", "central", "local"])
def test_the_log_keeps_the_release_and_nothing_beside_it(tmp_path: Path, model: str) -> None:
    """What is not known cannot be excluded, so the names of all that is kept are listed here."""
    notes: list[tuple[str, dict[str, Any]]] = []
    made = definition(None if model == "none" else private(model))
    with world(str(tmp_path / "c.db"), made, people=30) as it:
        it.coordinator.context.note = lambda kind, **values: notes.append((kind, values))
        begin(it)
        it.answer_all()
        it.settle()
        (closed,) = [event for event in it.coordinator.log(STUDY) if event.kind == Kind.CLOSED]
        reports = it.reports[1]
    assert set(closed.body) == {"feedback", "entry"}
    assert set(closed.body["feedback"]) <= {"mean", "count", "noise", "clipping", "printed", "scatter"}
    assert set(closed.body["entry"]) == {field.name for field in fields(Entry)}
    for report in reports:
        for number in report:
            assert repr(number) not in text_of(closed.body)
    # Noted inside the transaction: if that fails, another release is drawn, and two would be known.
    (said,) = [values for kind, values in notes if kind == "closed"]
    assert said == {"study": STUDY, "wave": 1, "people": len(reports)}

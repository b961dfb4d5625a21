"""Only studies in which something happened, or whose time has come, are looked at."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.service.world import STUDY, definition, enrol, private, world
from voxpop.service.keys import new_key
from voxpop.service.study import scheduler as module
from voxpop.service.study.log import Context
from voxpop.service.study.scheduler import Scheduler
from voxpop.service.study.steps import Step, step


class Watched:
    """A scheduler whose looks the test takes one by one."""

    def __init__(self, it: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: Counter[str] = Counter()
        self.scheduler = Scheduler(it.coordinator)
        monkeypatch.setattr(module, "step", self._step)

    def _step(self, context: Context, study: str) -> Step:
        self.steps[study] += 1
        return step(context, study)

    async def look(self) -> Counter[str]:
        """Look once, as the scheduler does, and return how many steps each study took."""
        self.steps.clear()
        found = self.scheduler._look()
        self.scheduler._watch_clock()
        for study, signs in found.items():
            if self.scheduler._is_due(study, signs):
                self.scheduler._steps[study] = asyncio.create_task(self.scheduler._step(study, signs))
        await asyncio.gather(*self.scheduler._steps.values())
        return Counter(self.steps)

    async def rest(self) -> None:
        for _ in range(10):
            if not await self.look():
                return
        raise AssertionError("the studies do not come to rest")


def test_a_study_is_looked_at_when_something_happens_or_its_time_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[str, Any]] = []
    made = definition(private("central"), deadline=3.0)
    with world(str(tmp_path / "c.db"), made, people=11) as it:
        it.coordinator.context.note = lambda kind, **values: noted.append((kind, values.get("seconds")))
        it.coordinator.create("clock", definition(rounds_per_second=0.1))
        it.coordinator.create("idle", definition())
        watched = Watched(it, monkeypatch)

        async def run() -> None:
            await watched.rest()
            enrol(it.coordinator, "clock", new_key())
            enrol(it.coordinator, "clock", new_key())
            assert set(await watched.look()) == {"clock"}  # enough people are there: the clock starts
            await watched.rest()
            it.register(1)
            assert set(await watched.look()) == {STUDY}
            await watched.rest()
            it.clock.now += 9.9
            assert not await watched.look()
            it.clock.now += 0.2
            assert set(await watched.look()) == {"clock"}  # its rounds are played
            it.play_all()
            assert set(await watched.look()) >= {STUDY}
            await watched.rest()
            for key, invitation in list(it.invited())[:6]:
                it.answer(key, invitation)
                watched.scheduler.count(STUDY)
            assert set(await watched.look()) == {STUDY}
            await watched.rest()
            it.clock.now += 3.1  # six people have not answered
            assert STUDY in await watched.look()
            await watched.rest()
            it.clock.now -= 1000
            assert set(await watched.look()) == {STUDY, "clock", "idle"}
            assert ("clock_back", 1000) in noted

        asyncio.run(run())


def test_between_looks_at_all_studies_only_those_are_looked_at_that_changed_or_whose_time_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(str(tmp_path / "c.db"), definition(private("central")), people=11) as it:
        it.coordinator.create("clock", definition(rounds_per_second=0.1))
        it.coordinator.create("idle", definition())
        for _ in range(2):
            enrol(it.coordinator, "clock", new_key())
        watched = Watched(it, monkeypatch)
        scheduler = watched.scheduler

        async def run() -> None:
            await watched.rest()
            scheduler._changed.clear()
            assert scheduler._wanted() is None  # all of them, now and then
            assert scheduler._wanted() == set()
            assert scheduler._look(set()) == {}
            scheduler.nudge(STUDY)
            assert scheduler._wanted() == {STUDY}
            assert set(scheduler._look({STUDY})) == {STUDY}
            it.clock.now += 1000
            assert "clock" in (scheduler._wanted() or set())
            scheduler._steps[STUDY] = asyncio.create_task(asyncio.sleep(0))
            scheduler.count(STUDY)
            assert STUDY not in (scheduler._wanted() or set())  # it takes a step, and is looked at afterwards
            del scheduler._steps[STUDY]
            assert STUDY in (scheduler._wanted() or set())
            scheduler.nudge()
            assert scheduler._wanted() is None

        asyncio.run(run())

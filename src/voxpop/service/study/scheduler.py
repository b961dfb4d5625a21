"""The clock of a coordinator: it takes steps for every study, soon after something happened and once in a while."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self

from starlette.concurrency import run_in_threadpool

from voxpop.service import logs
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.steps import step

EVERY = 0.5  # seconds, for deadlines and clocks
PAUSE = 0.05  # seconds between looks, however often something happens
BACKOFF = 1.0  # seconds before a study that failed is tried again, twice as many each time
MOST_BACKOFF = 15.0
LAST = 5.0  # seconds for steps under way when the service stops; an unfinished one is rolled back
THREADS = 32  # studies that take a step at the same time; more wait


class Scheduler:
    """Runs in the background of a service."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator, self.context = coordinator, coordinator.context
        self._something = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failed: dict[str, float] = {}  # when a study may be tried again
        self._times: dict[str, int] = {}  # that it failed, one after the other
        self._steps: dict[str, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(THREADS, "step")
        self._left: dict[str, int] = {}  # reports that a phase lacked at the last look

    def nudge(self) -> None:
        """Something happened: look soon."""
        self._something.set()

    def count(self, study: str) -> None:
        """A report was counted: look soon if it may have been the last of its phase.

        The reports that came in here since the last look are counted; those of other coordinators are seen in time.
        """
        self._left[study] = self._left.get(study, 0) - 1
        if self._left[study] <= 0:
            self.nudge()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._task is not None and not self._task.done()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._steps:
            await asyncio.wait(self._steps.values(), timeout=LAST)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        while True:
            try:
                names = await run_in_threadpool(self._look)
            except Exception as error:  # the database, for instance
                logs.fault("tick", error)
                names = []
            for study in names:
                if study not in self._steps and self._failed.get(study, 0.0) <= self.context.clock():
                    self._steps[study] = asyncio.create_task(self._step(study))
            await asyncio.sleep(PAUSE)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._something.wait(), EVERY)
            self._something.clear()

    def _look(self) -> list[str]:
        self.coordinator.database.scrub()
        return self.coordinator.unfinished()

    async def _step(self, study: str) -> None:
        """A step of one study, in a thread of its own: a shuffler that hangs holds up nobody else's."""
        try:
            taken = await asyncio.get_running_loop().run_in_executor(self._threads, step, self.context, study)
            self._left[study] = taken.lacking
            self._failed.pop(study, None)
            self._times.pop(study, None)
            if taken.moved:
                self.nudge()
        except Exception as error:
            logs.fault("step", error, study=study)
            self._times[study] = self._times.get(study, 0) + 1
            wait = min(MOST_BACKOFF, BACKOFF * 2 ** min(self._times[study] - 1, 10))
            self._failed[study] = self.context.clock() + wait
        finally:
            del self._steps[study]

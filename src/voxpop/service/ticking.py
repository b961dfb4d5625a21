"""The clock of a coordinator: it takes steps for every study, soon after something happened and once in a while."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from starlette.concurrency import run_in_threadpool

from voxpop.service import logs
from voxpop.service.coordinator import Coordinator

EVERY = 0.5  # seconds, for deadlines and clocks
PAUSE = 0.05  # seconds between looks, however often something happens
BACKOFF = 1.0  # seconds before a study that failed is tried again


class Ticker:
    """Runs in the background of a service."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self._something = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failed: dict[str, float] = {}
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

    async def _run(self) -> None:
        while True:
            try:
                moved = await run_in_threadpool(self._steps)
            except Exception as error:  # the database, for instance
                logs.fault("tick", error)
                moved = False
            await asyncio.sleep(PAUSE)
            if not moved:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._something.wait(), EVERY)
            self._something.clear()

    def _steps(self) -> bool:
        """A step for every study; whether any moved."""
        moved = False
        now = self.coordinator.clock()
        for study in self.coordinator.unfinished():
            if self._failed.get(study, 0.0) > now:
                continue
            try:
                moved |= self.coordinator.step(study)
                self._left[study] = self.coordinator.lacking.get(study, 0)
                self._failed.pop(study, None)
            except Exception as error:  # one study must not hold up the others
                logs.fault("step", error, study=study)
                self._failed[study] = now + BACKOFF
        return moved

"""The scheduler of a coordinator: it advances the studies in which something happened, or whose time has come."""

from __future__ import annotations

import asyncio
import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self

from starlette.concurrency import run_in_threadpool

from voxpop.service import logs
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.steps import LEAST_JUMP, step

EVERY = 0.5  # seconds between looks when nothing happens, at studies whose time has come
EVERY_STUDY = 2.0  # seconds between looks at all studies, for what other coordinators changed
PAUSE = 0.05  # least seconds between looks, however much happens
BACKOFF = 1.0  # seconds before a study that failed is tried again; doubles with every failure
MOST_BACKOFF = 15.0
LAST = 5.0  # seconds that running steps get when the service stops; unfinished ones are rolled back
THREADS = 32  # studies that take a step at the same time; the others wait


class Scheduler:
    """Advances all studies in the background of a service."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator, self.context = coordinator, coordinator.context
        self._something = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._failed: dict[str, tuple[float, int]] = {}  # by study: when it may be tried again; failures in a row
        self._steps: dict[str, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(THREADS, "step")
        self._left: dict[str, int] = {}  # by study: reports lacking, as of the last look and those counted since
        self._rest: dict[str, tuple[object, float]] = {}  # by study: how it was when nothing was due, and until when
        self._looked = time.monotonic()
        self._latest = 0.0  # the latest time that the clock has shown
        self._changed: set[str] = set()  # studies in which something happened here
        self._all_due = -math.inf  # when all studies are looked at, by the monotonic clock

    def nudge(self, study: str | None = None) -> None:
        """Look soon, because something happened: in this study, or in any."""
        if study is None:
            self._rest.clear()
            self._all_due = -math.inf
        else:
            self._note_change(study)
        self._something.set()

    def _note_change(self, study: str) -> None:
        self._rest.pop(study, None)
        self._changed.add(study)

    def count(self, study: str) -> None:
        """Note a counted report, and look soon if it may have been the last of its wave.

        Only this coordinator's reports since the last look are counted; regular looks find those of the others.
        """
        self._left[study] = self._left.get(study, 0) - 1
        self._note_change(study)
        if self._left[study] <= 0:
            self.nudge(study)

    @property
    def lag(self) -> float:
        """The seconds since studies were last looked at."""
        return time.monotonic() - self._looked

    @property
    def alive(self) -> bool:
        """Return True while it runs."""
        return self._task is not None and not self._task.done()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        # Told and not cancelled: in Python 3.11 `wait_for` may swallow a cancellation, and nobody would ever stop.
        self._stopping = True
        self._something.set()
        await asyncio.wait([self._task, *self._steps.values()], timeout=LAST)
        self._task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        while not self._stopping:
            wanted = self._wanted()
            try:
                found = await run_in_threadpool(self._look, wanted)
                self._looked = time.monotonic()
                if wanted is None:  # forget those that are over
                    self._rest = {study: rest for study, rest in self._rest.items() if study in found}
            except Exception as error:  # for instance, the database cannot be reached
                logs.fault("tick", error)
                self._all_due = -math.inf
                found = {}
            self._watch_clock()
            for study, signs in found.items():
                if study not in self._steps and self._is_due(study, signs) and not self._stopping:
                    self._steps[study] = asyncio.create_task(self._step(study, signs))
            await asyncio.sleep(PAUSE)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._something.wait(), EVERY)
            self._something.clear()

    def _wanted(self) -> set[str] | None:
        """Return the studies to look at: those that changed here or whose time has come; None for all, now and then."""
        busy = self._changed & self._steps.keys()  # they are looked at after their step
        changed, self._changed = self._changed - busy, busy
        if time.monotonic() >= self._all_due:
            self._all_due = time.monotonic() + EVERY_STUDY
            return None
        now = self.context.clock()
        awake = {study for study, (_, wake) in self._rest.items() if wake <= now}
        return changed | awake | {study for study, (again, _) in self._failed.items() if again <= now}

    def _look(self, among: set[str] | None = None) -> dict[str, tuple[Any, ...]]:
        self.coordinator.database.scrub()
        self.coordinator.mark_secret()
        if among is None and (known := self.context.snapshots.names()):
            for study in known.difference(self.coordinator.studies()):  # another coordinator has deleted it
                self.context.snapshots.forget(study)
        return {} if among is not None and not among else self.coordinator.unfinished(among)

    def _watch_clock(self) -> None:
        """Say that the clock was set back, and look at every study: those that wait for a time wait longer now."""
        now = self.context.clock()
        if now < self._latest - LEAST_JUMP:
            self.context.note("clock_back", seconds=round(self._latest - now))
            self._rest.clear()
            self._failed.clear()
            self._all_due = -math.inf
            self._latest = now
        self._latest = max(self._latest, now)

    def _is_due(self, study: str, signs: object) -> bool:
        """Return True unless the study is as it was when nothing was due, or has failed a moment ago."""
        now = self.context.clock()
        before, wake = self._rest.get(study, (None, 0.0))
        return (before != signs or wake <= now) and self._failed.get(study, (0.0, 0))[0] <= now

    async def _step(self, study: str, signs: object) -> None:
        """Take a step of one study in its own thread: a shuffler that hangs must not delay other studies."""
        self._rest[study] = (signs, math.inf)  # until the step is taken; whatever happens meanwhile removes this
        try:
            taken = await asyncio.get_running_loop().run_in_executor(self._threads, step, self.context, study)
            self._left[study] = taken.lacking
            if study in self._rest:
                self._rest[study] = (signs, taken.wake)
            self._failed.pop(study, None)
            if taken.moved:
                self.nudge(study)
        except Exception as error:
            logs.fault("step", error, study=study)
            self._rest.pop(study, None)
            _, times = self._failed.get(study, (0.0, 0))
            wait = min(MOST_BACKOFF, BACKOFF * 2 ** min(times, 10))
            self._failed[study] = self.context.clock() + wait, times + 1
        finally:
            del self._steps[study]

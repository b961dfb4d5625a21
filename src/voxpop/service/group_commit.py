"""Group commit: whatever waits is done in one transaction, and each is answered after the commit.

A transaction that lasts costs a disk flush, however much is in it. One writer a process takes all requests that came
in during the last flush, so that the more arrive the cheaper each becomes, and nobody waits longer than two flushes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from voxpop.service.refusals import AWAY, Refusal

Item = TypeVar("Item")
Verdict = TypeVar("Verdict")

MOST_AT_ONCE = 500
MOST_WAITING = 20_000
MOST_BYTES = 64 * 2**20  # of all that wait
BUSY = 8  # in one group: many callers at the same time
GATHER = 0.004  # seconds


class GroupWriter(Generic[Item, Verdict]):
    """Stores items with a function that takes many at once and answers each."""

    def __init__(self, store: Callable[[list[Item]], list[Verdict]]) -> None:
        self._store = store
        self._waiting: list[tuple[Item, asyncio.Future[Verdict]]] = []
        self._bytes = 0
        self._thread = ThreadPoolExecutor(1, "writer")
        self._running: asyncio.Task[None] | None = None

    async def put(self, item: Item, size: int = 0) -> Verdict:
        """Store an item of so many bytes; returns when it is durable."""
        if len(self._waiting) >= MOST_WAITING or self._bytes + size > MOST_BYTES:
            raise Refusal(503, "too many reports wait to be stored; send it again in a moment", retry_after=1)
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        self._bytes += size
        try:
            return await answer
        finally:
            self._bytes -= size

    async def close(self) -> None:
        """Store what still waits, and stop."""
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        self._thread.shutdown()

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            await self._write(batch)
            if len(batch) >= BUSY:  # those just answered send the next at once: larger groups are cheaper for all
                await asyncio.sleep(GATHER)

    async def _write(self, batch: list[tuple[Item, asyncio.Future[Verdict]]]) -> None:
        loop = asyncio.get_running_loop()
        try:
            verdicts = await loop.run_in_executor(self._thread, self._store, [item for item, _ in batch])
        except AWAY as error:  # the database is gone: each alone would only wait for it again
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        except Exception as error:
            if len(batch) > 1:  # nobody suffers for another's request
                for one in batch:
                    await self._write([one])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        for (_, answer), verdict in zip(batch, verdicts, strict=True):
            if not answer.done():  # the caller may be gone
                answer.set_result(verdict)

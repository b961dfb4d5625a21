"""Group commit: all waiting items are stored in one transaction, and every caller is answered after the commit.

A durable transaction costs one disk flush, however much it holds. One writer per kind of request stores everything that
arrived during the last flush. The more requests arrive, the cheaper each becomes, and nobody waits for more than two
flushes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar, cast

from voxpop.service.refusals import DATABASE_AWAY, Refusal

Item = TypeVar("Item")
Verdict = TypeVar("Verdict")
Done = Callable[[Verdict | None, Exception | None], None]  # is told the verdict, or why there is none

MOST_AT_ONCE = 500  # items in one transaction
MOST_WAITING = 20_000  # items
MOST_BYTES = 64 * 2**20  # of all items that are waiting or being stored
BUSY = 8  # a group with this many items means that many callers send at the same time
GATHER = 0.004  # seconds to wait at most for the next group while busy
AGAIN = 0.75  # of a group, the share that is waited for; the others may come while these are stored


class GroupWriter(Generic[Item, Verdict]):
    """Stores items with a function that takes a list of items and returns a verdict on each."""

    def __init__(self, store: Callable[[list[Item]], list[Verdict]]) -> None:
        self._store = store
        self._waiting: list[tuple[Item, int, Done[Verdict]]] = []
        self._bytes = 0
        self._thread = ThreadPoolExecutor(1, "writer")
        self._running: asyncio.Task[None] | None = None
        self._wanted, self._enough = 0, asyncio.Event()  # so many items are waited for

    async def put(self, item: Item, size: int = 0) -> Verdict:
        """Store an item of `size` bytes; return its verdict once it is durable."""
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()

        def done(verdict: Verdict | None, error: Exception | None) -> None:
            if answer.done():  # the caller is gone
                return
            answer.set_result(cast(Verdict, verdict)) if error is None else answer.set_exception(error)

        self.submit(item, size, done)
        return await answer

    def submit(self, item: Item, size: int, done: Done[Verdict]) -> None:
        """Store an item of `size` bytes; call `done` with its verdict once it is durable, or with an error."""
        if len(self._waiting) >= MOST_WAITING or self._bytes + size > MOST_BYTES:
            raise Refusal(503, "too many requests are waiting to be stored; send it again in a moment", retry_after=1)
        self._waiting.append((item, size, done))
        self._bytes += size
        if len(self._waiting) >= self._wanted:
            self._enough.set()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Store what is still waiting, and stop."""
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        self._thread.shutdown()

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            await self._write(batch)
            if len(batch) >= BUSY:  # callers just answered will send again at once, and larger groups are cheaper
                await self._gather(round(len(batch) * AGAIN))

    async def _gather(self, wanted: int) -> None:
        """Wait a moment until so many items are waiting."""
        self._wanted = wanted
        self._enough.clear()
        if len(self._waiting) < wanted:
            timer = asyncio.get_running_loop().call_later(GATHER, self._enough.set)
            await self._enough.wait()
            timer.cancel()

    async def _write(self, batch: list[tuple[Item, int, Done[Verdict]]]) -> None:
        loop = asyncio.get_running_loop()
        try:
            verdicts = await loop.run_in_executor(self._thread, self._store, [item for item, _, _ in batch])
        except DATABASE_AWAY as error:  # storing them one by one would only mean waiting again for each
            for _, size, done in batch:
                self._bytes -= size
                done(None, error)
            return
        except Exception as error:
            if len(batch) > 1:  # one bad item must not spoil the others
                for one in batch:
                    await self._write([one])
                return
            self._bytes -= batch[0][1]
            batch[0][2](None, error)
            return
        for (_, size, done), verdict in zip(batch, verdicts, strict=True):
            self._bytes -= size
            done(verdict, None)

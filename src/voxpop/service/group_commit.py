"""Group commit: all waiting items are stored in one transaction, and every caller is answered after the commit.

A durable transaction costs one disk flush, however much it holds. One writer per kind of request stores everything that
arrived during the last flush. The more requests arrive, the cheaper each becomes, and nobody waits for more than two
flushes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from voxpop.service.refusals import DATABASE_AWAY, Refusal

Item = TypeVar("Item")
Verdict = TypeVar("Verdict")
Waiting = tuple[Item, int, asyncio.Future[Verdict]]  # an item, its bytes, and the verdict on it

MOST_AT_ONCE = 500  # items in one transaction
MOST_WAITING = 20_000  # items
MOST_BYTES = 64 * 2**20  # of all items that are waiting or being stored
BUSY = 8  # a group with this many items means that many callers send at the same time
GATHER = 0.004  # seconds to wait at most for the next group while busy
AGAIN = 0.75  # of the callers, the share that is waited for; the others may come while these are stored


class GroupWriter(Generic[Item, Verdict]):
    """Stores items with a function that takes a list of items and returns a verdict on each."""

    def __init__(self, store: Callable[[list[Item]], list[Verdict]]) -> None:
        self._store = store
        self._waiting: list[Waiting[Item, Verdict]] = []
        self._bytes = 0
        self._thread = ThreadPoolExecutor(1, "writer")
        self._running: asyncio.Task[None] | None = None
        self._wanted, self._enough = 0, asyncio.Event()  # so many items are waited for

    async def put(self, item: Item, size: int = 0) -> Verdict:
        """Store an item of `size` bytes; return its verdict once it is durable."""
        if len(self._waiting) >= MOST_WAITING or self._bytes + size > MOST_BYTES:
            raise Refusal(503, "too many requests are waiting to be stored; send it again in a moment", retry_after=1)
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, size, answer))
        self._bytes += size
        if len(self._waiting) >= self._wanted:
            self._enough.set()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await answer

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
                await self._gather(round((len(batch) + len(self._waiting)) * AGAIN))

    async def _gather(self, wanted: int) -> None:
        """Wait a moment until so many items are waiting."""
        self._wanted = wanted
        self._enough.clear()
        if len(self._waiting) < wanted:
            timer = asyncio.get_running_loop().call_later(GATHER, self._enough.set)
            await self._enough.wait()
            timer.cancel()

    async def _write(self, batch: list[Waiting[Item, Verdict]]) -> None:
        loop = asyncio.get_running_loop()
        try:
            verdicts = await loop.run_in_executor(self._thread, self._store, [item for item, _, _ in batch])
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, DATABASE_AWAY):  # which each of them would wait for again
                for one in batch:  # one bad item must not spoil the others
                    await self._write([one])
                return
            for _, size, answer in batch:
                self._bytes -= size
                if not answer.done():  # otherwise the caller is gone
                    answer.set_exception(error)
            return
        for (_, size, answer), verdict in zip(batch, verdicts, strict=True):
            self._bytes -= size
            if not answer.done():
                answer.set_result(verdict)

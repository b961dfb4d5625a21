"""Connections that send no request in time are closed: uvicorn itself would wait for the rest of one for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 15.0  # from the first sign of a request to the end of its headers
MOST_CONNECTIONS = 4000  # beyond, the answer is 503

_Protocol: Any = AutoHTTPProtocol


class Impatient(_Protocol):  # type: ignore[misc]
    """uvicorn's protocol, with a time for every request's head; the guard has one for its body."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._stop()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop()
        super().connection_lost(error)

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._end)

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.close()

"""A time limit on the head of a request: uvicorn itself would wait indefinitely for the rest of it."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 15.0  # from the first sign of a request to the end of its headers
MOST_CONNECTIONS = 4000  # further ones are answered with 503

_Protocol: Any = AutoHTTPProtocol


class HeadTimeoutProtocol(_Protocol):  # type: ignore[misc]
    """uvicorn's protocol with a time limit on the head of every request; the guard has one for the body."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start_head_timer()
        else:
            self._stop_head_timer()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(error)

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._head_timed_out)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_timed_out(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()

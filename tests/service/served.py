"""A real server in a thread, on a port of its own."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import sleep
from typing import Any, Literal

import uvicorn
import uvicorn.server
from starlette.types import ASGIApp

from voxpop.service.web.connections import Connections, server_config


class Impatient:
    """The module asyncio for servers in tests: each of hundreds would sleep for a fifth of a second at its end."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


vars(uvicorn.server)["asyncio"] = Impatient()


@contextmanager
def served(
    app: ASGIApp, lifespan: Literal["on", "off"] = "off", limits: Connections | None = None, **settings: Any
) -> Iterator[str]:
    """Serve an application; without its lifespan nothing runs in the background, and the test takes every step."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(app, limits or Connections(0), lifespan=lifespan, **settings))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()

"""A real server in a thread, on a port of its own."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import sleep
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

from voxpop.service.web.head_timeout import HeadTimeoutProtocol


@contextmanager
def served(app: ASGIApp, lifespan: Literal["on", "off"] = "off") -> Iterator[str]:
    """Serve an application; without its lifespan nothing runs in the background, and the test takes every step."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, http=HeadTimeoutProtocol, lifespan=lifespan)
    )
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

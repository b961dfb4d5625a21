"""A proxy that cuts replies, and a coordinator process that can be killed at any moment."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import httpx

from tests.helpers_cli import ENVIRONMENT


class Proxy:
    """Passes requests on, one connection each, and drops a share of the replies after the server has sent them."""

    def __init__(self, port: int, cut: float, seed: int = 0) -> None:
        self.target, self.cut, self.rng = port, cut, random.Random(seed)
        self.passed = self.dropped = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self.listener))
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            with suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    back.write(await _message(reader))
                    reply = await _message(there)
                    if self.rng.random() < self.cut:
                        self.dropped += 1
                        break
                    self.passed += 1
                    writer.write(reply)
                    await writer.drain()
            back.close()
        writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


async def _message(reader: asyncio.StreamReader) -> bytes:
    """A whole request or reply: its head, and as many bytes as the head says."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.split(b":")[1]))
    return head


class Victim:
    """`voxpop serve` in a process that is killed and started again."""

    def __init__(self, folder: Path, database: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        self.log = (folder / "serve.log").open("a")
        secret = folder / "secret"
        secret.write_text("s" * 40)
        self.environment = {**ENVIRONMENT, "VOXPOP_SECRET_FILE": str(secret), "VOXPOP_RATE": "0"}
        self.command = [sys.executable, "-m", "voxpop", "serve", "--database", database, "--port", str(self.port)]
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self.command, env=self.environment, stderr=self.log)
        for _ in range(600):
            with suppress(httpx.TransportError):
                if httpx.get(f"http://127.0.0.1:{self.port}/readyz").status_code == 200:
                    return process
            time.sleep(0.1)
        raise AssertionError("the coordinator does not start")

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = self._start()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()


@contextmanager
def victim(folder: Path, database: str) -> Iterator[Victim]:
    it = Victim(folder, database)
    try:
        yield it
    finally:
        it.close()

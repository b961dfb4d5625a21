"""A helper as it is run: `voxpop shuffler`, a process of its own."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from voxpop.service.keys import Keyring
from voxpop.service.shuffler.signed_http import HttpShuffler

HANGING = 300.0  # seconds after which something hangs


def free_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def helper_in(folder: Path) -> Iterator[HttpShuffler]:
    """Run a helper, and return what the server needs to talk to it."""
    key, port = secrets.token_urlsafe(48), free_port()
    file = folder / "helper.key"
    file.write_text(key, encoding="ascii")
    file.chmod(0o600)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "voxpop", "shuffler", "--port", str(port), "--database", str(folder / "helper.db")]
    environment = os.environ | {"VOXPOP_SHUFFLER_KEY_FILE": str(file)}
    with (folder / "helper.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--coordinator-url", "http://127.0.0.1:9"], env=environment, stdout=log, stderr=log
        )
    try:
        helper = HttpShuffler(url, Keyring.of(key.encode()), url)
        deadline = time.monotonic() + HANGING
        while helper.problem() is not None:
            assert process.poll() is None, (folder / "helper.log").read_text(encoding="utf-8")
            assert time.monotonic() < deadline, "the helper hangs"
            time.sleep(0.2)
        yield helper
        helper.client.close()
    finally:
        process.terminate()
        process.wait(timeout=HANGING)

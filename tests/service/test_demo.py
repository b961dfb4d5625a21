"""The demonstration clears up after itself, however it ends, and does not take someone else's service for its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers_cli import ENVIRONMENT


def children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # it ended meanwhile
        if int(text.rsplit(")", 1)[1].split()[1]) == pid:
            found.append(int(path.parent.name))
    return found


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_when_it_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "voxpop", "demo", "--devices", "300"]
    environment = {**ENVIRONMENT, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # whatever ignores it here (nohup)
    )
    end = time.monotonic() + 90
    while len(children(process.pid)) < 4:  # coordinator, shuffler, two fleets
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.1)
    started = children(process.pid)
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=60)
    end = time.monotonic() + 30
    while any(map(lives, started)):
        assert time.monotonic() < end, "some process lives on"
        time.sleep(0.1)
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number, said
        assert list(tmp_path.glob("voxpop-demo-*")) == []


def test_a_port_that_someone_else_has_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        command = [sys.executable, "-m", "voxpop", "demo", "--devices", "20", "--port", str(port)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert done.stderr.count("error:") == 1

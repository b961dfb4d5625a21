"""Many real SuperNodes on a small machine: each is a process of its own that runs Flower's own program, but is forked.

A SuperNode and the SuperExec beside it take some 185 MB, nearly all of it imported modules, and every ClientApp takes
seconds to import its own. Here one process imports everything once and forks every process from itself, so that all
share these pages. It has no threads, and so may fork at any time; where Flower would start a program, it asks here.

    python -m tests.flower.farm FOLDER SUPERLINK NODES FIRST_PORT HELPER
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from flwr.supercore.cli import flower_superexec
from flwr.supernode.cli import flower_supernode, flwr_clientapp

import voxpop_flower
from voxpop.privacy import Secure
from voxpop.privacy.gaussian import noise_multiplier

PROGRAMS: dict[str, Callable[[], None]] = {
    "flower-superexec": flower_superexec,
    "flower-supernode": flower_supernode,
    "flwr-clientapp": flwr_clientapp,
}
HOME = "FLWR_HOME"
AT_ONCE = 6  # nodes that connect at a time; more would wait for each other


class Asked:
    """Stands for a program that the farm was asked to start; Flower does not look after those."""

    def __init__(self, command: list[str], **_: Any) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
            there.sendto(json.dumps([os.environ[HOME], command]).encode(), str(Path(os.environ[HOME]).parent / "farm"))


def fork(home: str, command: list[str]) -> int:
    """Run a program of Flower in a new process; return its process id."""
    child = os.fork()
    if child:
        return child
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.environ[HOME], sys.argv = home, command
    subprocess.Popen = Asked  # type: ignore[assignment,misc]
    log = os.open(f"{home}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 1
    try:
        PROGRAMS[command[0]]()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def node(folder: Path, superlink: str, number: int, port: int, helper: str) -> list[str]:
    """Return the command that starts a SuperNode."""
    own = f'partition-id={number} voxpop-memory="{folder / str(number)}.db" voxpop-helper="{helper}"'
    return ["flower-supernode", "--insecure", "--superlink", superlink, "--port", str(port), "--node-config", own]


def connected(folder: Path, number: int) -> bool:
    """Return True if the SuperLink knows a node."""
    log = folder / f"node-{number}.log"
    return log.exists() and "SuperNode ID" in log.read_text(encoding="utf-8", errors="replace")


def main() -> None:
    folder, superlink, nodes, port, helper = (
        Path(sys.argv[1]),
        sys.argv[2],
        int(sys.argv[3]),
        int(sys.argv[4]),
        sys.argv[5],
    )
    assert voxpop_flower is not None
    Secure().gaussian(1, 1, noise_multiplier(5.0, 1e-6))  # loads OpenDP and dp-accounting
    requests = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    requests.bind(str(folder / "farm"))
    children = set[int]()

    def stop(*_: object) -> None:
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    gc.collect()
    gc.freeze()
    waiting, connecting = list(range(nodes)), dict[int, int]()
    requests.settimeout(0.5)
    while True:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)[0]) > 0:
                children.discard(ended)
        for number, child in list(connecting.items()):
            if connected(folder, number):
                del connecting[number]
            elif child not in children:  # Flower gives up if its first request took too long: begin anew
                del connecting[number]
                waiting.append(number)
        while waiting and len(connecting) < AT_ONCE:
            number = waiting.pop(0)
            child = fork(str(folder / f"node-{number}"), node(folder, superlink, number, port + number, helper))
            children.add(child)
            connecting[number] = child
            (folder / f"{number}.pid").write_text(str(child), encoding="ascii")
        with suppress(TimeoutError):
            home, command = json.loads(requests.recv(65536))
            children.add(fork(home, command))


if __name__ == "__main__":
    main()

"""The processes of devices, as the program that starts them sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any

from voxpop.runtime.machine import end_with_parent


@dataclass
class Fleet:
    """One process of devices; what it says goes to `hear`, line by line."""

    settings: dict[str, Any]
    hear: Callable[[dict[str, Any]], None]
    process: subprocess.Popen[str] = field(init=False)
    born: float = field(default_factory=time.monotonic)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.fleet"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            preexec_fn=end_with_parent(),
        )
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.tell(self.settings)

    def tell(self, document: dict[str, Any]) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        with self._lock:
            self.process.stdin.write(json.dumps(document) + "\n")
            self.process.stdin.flush()

    def end(self) -> int:
        """Wait until everything it said was heard; return its exit code."""
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        return self.process.wait()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.hear(json.loads(line))

"""The other implementation, to ask what it refuses, reports and draws."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.clients_js.npm import ENVIRONMENT, NODE, SDK


@dataclass(frozen=True)
class Oracle:
    """A Node process that answers questions."""

    process: subprocess.Popen[str]

    def ask(self, **question: Any) -> Any:
        """Ask one question; `clients/js/test/oracle.ts` lists them."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question, allow_nan=False) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the process ended without an answer to {list(question)}"
        return json.loads(line)


@contextmanager
def oracle() -> Iterator[Oracle]:
    """Start the process, and end it afterwards."""
    command, pipe = [NODE, SDK / "test/oracle.ts"], subprocess.PIPE
    with subprocess.Popen(command, env=ENVIRONMENT, stdin=pipe, stdout=pipe, text=True) as process:
        yield Oracle(process)

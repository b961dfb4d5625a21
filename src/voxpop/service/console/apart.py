"""Long computations in a process of their own, so that nobody who asks or answers has to wait for them.

`python -m voxpop.service.console.apart TASK` reads what it needs from its input and writes what it found to its output:
nothing touches a disk. The service starts it, gives it some seconds, and ends it if it takes longer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from voxpop.errors import InputError
from voxpop.service.children import end_with_parent
from voxpop.service.refusals import Refusal

MOST_SECONDS = 20.0  # of one computation; a pilot or a study that needs more is one for the command line
MOST_WAITING = 4  # computations that may wait for their turn
PRIVATE = "VOXPOP_"  # settings and secrets of the service, which a computation does not need


class Apart:
    """Runs one computation at a time, each for so many seconds at most."""

    def __init__(self, seconds: float = MOST_SECONDS) -> None:
        self._seconds, self._turn, self._waiting = seconds, asyncio.Semaphore(1), 0

    async def run(self, task: str, **given: Any) -> Any:
        """Compute something, or refuse if that is impossible, takes too long, or too many wait for the same."""
        if self._waiting >= MOST_WAITING:
            raise Refusal(503, "too many plans are being computed at once; try again in a moment", retry_after=10)
        self._waiting += 1
        try:
            async with self._turn:
                reply = await _compute(task, json.dumps(given, default=str).encode(), self._seconds)
        finally:
            self._waiting -= 1
        if "error" in reply:
            raise InputError(str(reply["error"]))
        return reply["found"]


async def _compute(task: str, given: bytes, seconds: float) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        task,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # nothing of a pilot may get into a log
        env={**environment, "OMP_NUM_THREADS": "1"},
        preexec_fn=end_with_parent(signal.SIGKILL),  # otherwise a pilot could stay in memory without a service
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate(given)
    except TimeoutError:
        raise Refusal(
            422, f"this takes longer than {seconds:g} s; use fewer decisions, or: voxpop calibrate, voxpop run"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        reply: dict[str, Any] = json.loads(said)
    except ValueError:
        raise Refusal(500, "the computation failed; try it with: voxpop calibrate, voxpop run") from None
    return reply


def _calibrated(given: dict[str, Any]) -> Any:
    from voxpop.service.console.pilot import calibrated

    return asdict(calibrated(given["file"], base64.b64decode(given["content"]), given["typed"]))


def _rehearsed(given: dict[str, Any]) -> Any:
    from voxpop.service.console.rehearsal import prices

    promises = [(str(label), promise) for label, promise in given["promises"]]
    return [asdict(price) for price in prices(given["tables"], promises, given["most"], given["within"])]


def _begun(given: dict[str, Any]) -> Any:
    from voxpop.journal.wave import next_wave
    from voxpop.model.waves import End
    from voxpop.service.study.definition import Definition

    study = Definition.of(given["definition"])
    first = next_wave(study.problem, study.policy, study.privacy, study.policy.init(study.problem))
    return first.reason if isinstance(first, End) else ""


TASKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "calibrate": _calibrated,
    "rehearse": _rehearsed,
    "begin": _begun,  # finds why a study would end before anyone is asked; nothing if it would not
}


def main() -> None:
    """Do the task that the command line names."""
    os.nice(5)  # those who answer come first
    given = json.loads(sys.stdin.buffer.read())
    try:
        reply = {"found": TASKS[sys.argv[1]](given)}
    except InputError as error:
        reply = {"error": str(error)}
    sys.stdout.write(json.dumps(reply))


if __name__ == "__main__":
    main()

"""Trials to sweep, what to compare of them, and sweeps in a process of their own."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers_cli import ENVIRONMENT
from voxpop.lab.runs import Run
from voxpop.lab.sweep import Backend, SweepResult
from voxpop.lab.trials import Trial

# Workers know nothing of this file, so the functions are Python's own and voxpop's: eval stands for any of them.
DIE = "__import__('time').sleep(0.5) or __import__('os')._exit(3)"
SLOW = "__import__('time').sleep(1) or 'slow'"
PID = "__import__('os').getpid()"
REFUSE = "exec('from voxpop.core.errors import InputError; raise InputError(\"too much\")')"

TWO = Backend(jobs=2)
TRIALS = [Trial("sphere", policy, seed, size=10, horizon=150) for policy in ("dpbe", "dpbe-paper") for seed in range(3)]


def facts(run: Run | None) -> dict[str, Any]:
    assert run is not None
    return {key: value for key, value in run.as_dict().items() if key != "seconds"}


def by_trial(found: Iterator[SweepResult[Trial, Run]]) -> dict[Trial, dict[str, Any]]:
    done = list(found)
    assert [each.error for each in done] == [""] * len(done)
    assert Counter(each.item for each in done) == Counter(TRIALS)
    return {each.item: facts(each.result) for each in done}


BEGIN = """\
import sys
from voxpop.lab import sweep as module
from voxpop.core.errors import InputError
from voxpop.lab.sweep import Backend, sweep

module.PATIENCE = 1
"""


def alone(script: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Sweeps in a process of their own, which cannot hold up this one, nor leave anything to it."""
    command = [sys.executable, "-c", BEGIN + script]
    try:
        return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        pytest.fail(f"not done after {seconds} seconds")

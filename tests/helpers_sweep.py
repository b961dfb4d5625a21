"""Trials to sweep, the facts by which they are compared, and sweeps in a process of their own."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.helpers_cli import ENVIRONMENT
from tests.helpers_waiting import HANGING
from voxpop.simulation.runs import Run
from voxpop.simulation.sweep import Backend, SweepResult
from voxpop.simulation.trials import Trial

# Workers cannot import this file, so only functions of Python and voxpop can be swept: eval stands for any of them.
DIE = "__import__('os')._exit(3)"
PID = "__import__('os').getpid()"
REFUSE = "exec('from voxpop.errors import InputError; raise InputError(\"too much\")')"

TWO = Backend(jobs=2)
TRIALS = [Trial("sphere", policy, seed, size=10, horizon=150) for policy in ("dpbe", "dpbe-paper") for seed in range(3)]


def after(flag: Path, expression: str) -> str:
    """Return an expression that is evaluated once the flag exists."""
    turns = f"zip(range({HANGING * 100:.0f}), iter(__import__('pathlib').Path({str(flag)!r}).exists, True))"
    return f"all(__import__('time').sleep(0.01) is None for _ in {turns}) and {expression}"


def facts(run: Run | None) -> dict[str, Any]:
    assert run is not None
    return {key: value for key, value in run.as_dict().items() if key != "seconds"}


def by_trial(found: Iterator[SweepResult[Trial, Run]]) -> dict[Trial, dict[str, Any]]:
    done = list(found)
    assert [each.error for each in done] == [""] * len(done)
    assert Counter(each.item for each in done) == Counter(TRIALS)
    return {each.item: facts(each.result) for each in done}


BEGIN = f"""\
import sys
from pathlib import Path
import voxpop_dask
from voxpop.errors import InputError
from voxpop.simulation.sweep import Backend, sweep

voxpop_dask.PATIENCE = {HANGING}
"""


def alone(script: str) -> subprocess.CompletedProcess[str]:
    """Run sweeps in a process of their own, which cannot block this one or leave anything behind in it."""
    command = [sys.executable, "-c", BEGIN + script]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=HANGING, check=False)

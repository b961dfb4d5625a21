"""A hundred seeds of faults: what was acknowledged is counted, nothing twice, no study is stuck, plans are the same."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.__main__ import run

ROOT = Path(__file__).parents[2]
CHUNK = 10


@pytest.mark.parametrize("first", range(0, 100, CHUNK))
def test_nothing_is_wrong_whatever_breaks(first: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        found, counts, _, _ = run(seed)
        assert not found, f"python -m tests.faults {seed}: {found}"
        happened += counts
    assert not {"lost", "delayed", "doubled", "killed", "full", "closed", "finished"} - set(happened)


def test_a_seed_replays_a_run_exactly_also_in_another_process() -> None:
    found, counts, digest, log = run(14)
    assert (found, counts, digest, log) == run(14)
    environment = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.faults", "14"]
    again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert digest in again.stdout
    assert digest != run(15)[2]

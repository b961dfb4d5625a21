"""Run seeds, and say what broke, what was found, and how long it took.

python -m tests.faults 0 10000       # on two processes
python -m tests.faults 17            # one seed, with all that happened
"""

import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.faults.checks import wrongs
from tests.faults.simulation import simulated

MEMORY = Path("/dev/shm")
PROCESSES = 2


def run(seed: int) -> tuple[list[str], Counter[str], str, list[str]]:
    """Run a seed; return what is wrong, what happened how often, the digest of all that happened, and all of it."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        try:
            with simulated(seed, Path(folder)) as it:
                return wrongs(it), it.counts + Counter([it.model]), it.digest.hexdigest(), it.log
        except Exception:
            return [traceback.format_exc()], Counter(), "", []


def say(*lines: object) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def main() -> int:
    first, last = (*map(int, sys.argv[1:]), None)[:2]
    assert first is not None
    if last is None:
        found, counts, digest, log = run(first)
        say(*log, *found, f"seed {first}: {digest}", dict(counts))
        return bool(found)
    start, wrong, happened = time.monotonic(), 0, Counter[str]()
    with ProcessPoolExecutor(PROCESSES) as pool:
        for seed, (found, counts, _, _) in enumerate(pool.map(run, range(first, last), chunksize=8), first):
            happened += counts
            wrong += bool(found)
            for one in found:
                say(f"seed {seed}: {one}")
    hours = (time.monotonic() - start) / 3600
    rate = (last - first) / hours
    say(f"{last - first} seeds, {wrong} with something wrong, in {60 * hours:.0f} minutes: {rate:,.0f} an hour")
    say(", ".join(f"{name} {count:,}" for name, count in happened.most_common()))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.soak --minutes 60`: run a soak, write its report, and exit with 1 if anything was wrong."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from dataclasses import replace
from pathlib import Path

from tests.soak.report import write_report
from tests.soak.run import run
from tests.soak.scale import of_minutes


def main() -> int:
    """Read the options, and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Run the service while things break.")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long; below 10 also smaller")
    parser.add_argument("--seed", type=int, default=None, help="of the faults; printed, and in the report")
    parser.add_argument("--studies", type=int, default=None, help="at the same time")
    parser.add_argument("--devices", type=int, default=None, help="of each study")
    parser.add_argument("--kills", type=int, default=None, help="in all")
    parser.add_argument("--out", type=Path, default=Path("voxpop-soak"), help="a folder for report, picture and logs")
    given = parser.parse_args()
    named = {name: getattr(given, name) for name in ("studies", "devices", "kills")}
    scale = replace(of_minutes(given.minutes), **{name: value for name, value in named.items() if value is not None})
    seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)  # noqa: T201
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that processes and file systems are removed
    given.out.mkdir(parents=True, exist_ok=True)
    soak = run(scale, seed, given.out)
    write_report(soak, given.out)
    print((given.out / "soak.md").read_text(encoding="utf-8"))  # noqa: T201
    for sentence in soak.faults:
        print(f"seed {seed}: {sentence}", file=sys.stderr)  # noqa: T201
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Plant every fault of the list, one at a time, in a copy of the source, and show which test catches it.

    python -m tests.mutants [part of a name ...]

The tests are seen to pass without a fault first: otherwise a broken test would count as one that catches everything.
Exits with 1 if a fault survives or can no longer be planted.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.text import Text

from tests.mutants import FAULTS
from tests.mutants.fault import SOURCE, Fault

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "src",
    "tests",
    "docs",
    "reproduction",
    "benchmarks",
    "integrations",
    "clients",
    "pyproject.toml",
    "Makefile",
    "README.md",
    "CITATION.cff",
)
MODULES = "clients/js/node_modules"
SIDE_BY_SIDE = 2
HANGING = 300  # seconds that the tests of one fault may take
WIDTH = max(len(fault.name) for fault in FAULTS)
FAILED = re.compile(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", re.MULTILINE)
ARGUMENTS = ("-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "-k", "not postgresql")


@dataclass(frozen=True)
class Found:
    """How the tests of a fault ended."""

    fault: Fault
    caught_by: str | None
    problem: str = ""


@dataclass(frozen=True)
class Copy:
    """A copy of the tree, in which one fault at a time is planted."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which the copy is imported, also by the programs that tests start."""
        path = os.pathsep.join((str(self.folder / "src"), str(self.folder)))
        return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "400"}

    def run(self, *command: str, seconds: float = HANGING) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy, for no longer than this."""
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def require_imported(self) -> None:
        """Make sure that tests in the copy import the copy and nothing else."""
        done = self.run("-c", "import tests, voxpop; print(voxpop.__file__, tests.__file__)")
        found = [Path(name).parent for name in done.stdout.split()]
        if found != [self.folder / SOURCE, self.folder / "tests"]:
            raise SystemExit(f"the copy in {self.folder} is not what is imported: {done.stdout}{done.stderr}")

    def pytest(self, tests: Sequence[str], seconds: float = HANGING) -> subprocess.CompletedProcess[str]:
        """Run tests in the copy."""
        return self.run("-m", "pytest", *ARGUMENTS, *tests, seconds=seconds)

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """Plant a fault, and take it out again."""
        path = fault.place(self.folder)
        before = path.read_text(encoding="utf-8")
        compiled = Path(cache_from_source(str(path)))
        try:
            path.write_text(fault.planted(before), encoding="utf-8")
            compiled.unlink(missing_ok=True)  # it may be as old as the new source
            yield
        finally:
            path.write_text(before, encoding="utf-8")
            compiled.unlink(missing_ok=True)

    def attack(self, fault: Fault) -> Found:
        """Run the tests of a fault with the fault planted."""
        problem = fault.problem(self.folder)
        if problem is not None:
            return Found(fault, None, problem)
        with self.planted(fault):
            try:
                done = self.pytest(fault.commands)
            except subprocess.TimeoutExpired:
                return Found(fault, None, f"the tests took more than {HANGING} s")
        first = FAILED.search(done.stdout)
        if done.returncode == 1 and first is not None:
            return Found(fault, first[1])
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        return Found(fault, None, "" if done.returncode == 0 else f"pytest says: {' '.join(last)}")


def copy_to(folder: Path) -> Copy:
    """Copy what the tests need, without anything compiled."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            folder.mkdir(exist_ok=True)
            shutil.copy(source, folder / name)
    (folder / MODULES).symlink_to(ROOT / MODULES)
    return Copy(folder)


def require_passing(copy: Copy, faults: Sequence[Fault]) -> None:
    """Run all the tests of the list without a fault; they must pass."""
    named = sorted({test for fault in faults for test in fault.commands})
    files = {test for test in named if "::" not in test}
    once = [test for test in named if test in files or test.split("::")[0] not in files]
    done = copy.pytest(once, seconds=HANGING * len(faults))
    if done.returncode != 0:
        raise SystemExit(f"without a fault the tests must pass:\n{done.stdout}{done.stderr}")


def attack_all(copies: Sequence[Copy], faults: Sequence[Fault]) -> Iterator[Found]:
    """Attack with all faults, one in each copy at a time; yield what was found in the list's order."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def attack(fault: Fault) -> Found:
        copy = free.get()
        try:
            return copy.attack(fault)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        yield from pool.map(attack, faults)


def main(wanted: Sequence[str]) -> int:
    """Attack with the faults whose name holds one of the words, or with all; return the exit code."""
    faults = [fault for fault in FAULTS if not wanted or any(word in fault.name for word in wanted)]
    if not faults:
        raise SystemExit(f"no planted fault has one of the words {', '.join(wanted)} in its name")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="voxpop-mutants-") as folder:
        copies = [copy_to(Path(folder).resolve() / str(number)) for number in range(SIDE_BY_SIDE)]
        for copy in copies:
            copy.require_imported()
        require_passing(copies[0], faults)
        missed = 0
        for found in attack_all(copies, faults):
            missed += found.caught_by is None
            said = f"{found.fault.name:<{WIDTH}} {found.caught_by or f'SURVIVED {found.problem}'}"
            console.print(Text(said, "" if found.caught_by else "bold red"), soft_wrap=True)
    console.print(f"{len(faults) - missed} of {len(faults)} planted faults were caught", highlight=False)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The journal of a sweep: finished runs in a file, which survive interruption and later versions of the program."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

from voxpop.errors import InputError
from voxpop.simulation.comparison import RunSummary
from voxpop.simulation.trials import Trial

# What computes a run and its summary; a test holds this list to the import statements.
COMPUTING = (
    *("errors.py", "runtime", "model", "gp", "privacy", "policies", "calibration", "journal", "simulation"),
    "report/stakes.py",
)


@dataclass(frozen=True)
class Journal:
    """Finished runs in a file, one per line; what was written survives any interruption.

    A run is found again by what it was and by the source code that computed it, so that results of different
    programs are never mixed. A line that was cut short, by a full disk for example, is ignored.
    """

    path: Path

    def read(self, trials: Iterable[Trial]) -> dict[Trial, RunSummary]:
        """Find the trials that were run before."""
        wanted = {key_of(trial): trial for trial in trials}
        found: dict[Trial, RunSummary] = {}
        if self.path.exists():
            for line in self.path.read_bytes().splitlines():
                try:
                    entry = json.loads(line)
                    fields = entry["summary"]
                    summary = RunSummary(**{**fields, "curve": tuple(fields["curve"])})
                    trial = wanted.get(entry["key"])
                except (ValueError, TypeError, KeyError):
                    continue
                if trial is not None:
                    found[trial] = summary
        return found

    @contextmanager
    def writing(self) -> Iterator[Callable[[Trial, RunSummary], None]]:
        """Hold the journal, one process at a time; yield the function that keeps a finished run."""
        import fcntl  # here, because Windows does not have it

        with self._writable():
            file = self.path.open("a+b")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{str(self.path)!r} is being written by another process; wait for it, or choose another --out"
                ) from None
            yield partial(self._append, file.fileno())

    def _append(self, descriptor: int, trial: Trial, summary: RunSummary) -> None:
        """Write an entry. If the line before was cut short, this one still starts on a line of its own."""
        entry = {"key": key_of(trial), "trial": trial.as_dict(), "summary": asdict(summary)}
        data = f"\n{json.dumps(entry)}\n".encode()
        with self._writable():
            while data:
                data = data[os.write(descriptor, data) :]

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"cannot write {str(self.path)!r}: {error.strerror}; finished runs are kept: make room and run the "
                "command again"
            ) from None


def key_of(trial: Trial) -> str:
    """Compute the key of a trial from its description, its data and the source code that runs it."""
    data = "" if trial.data is None else _content(trial.data)
    text = json.dumps([{**trial.as_dict(), "data": data}, fingerprint()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def _content(folder: str) -> str:
    """Compute a digest of the files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(Path(folder).glob("*.csv")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def fingerprint() -> str:
    """Compute a digest of the source code and the shipped tables that a run and its summary depend on.

    How a run is shown, stored or served does not change it.
    """
    package, digest = Path(str(files("voxpop"))), hashlib.sha256()
    paths = (path for part in COMPUTING for path in (package / part, *(package / part).rglob("*")))
    for path in sorted(path for path in paths if path.suffix in (".py", ".csv")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package)} {len(content)}\n".encode() + content)
    return digest.hexdigest()

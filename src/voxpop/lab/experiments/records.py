"""What is kept of a run for tables and pictures, and where: a journal that survives interruption."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from voxpop.core.errors import Array, InputError
from voxpop.drivers.simulate import Run
from voxpop.lab.metrics import regret_curve
from voxpop.lab.trials import Trial

# What a run and its record depend on: everything but these, which only show, tell or distribute.
SHELLS = re.compile(
    r"(cli|report|service|stores|client)/.*|lab/(bench/.*|experiments/(?!records\.py).*|sweep\.py|theory\.py)"
)


@dataclass(frozen=True)
class Record:
    """One run in numbers."""

    regret: float
    numbers: int  # eq:comm_cost
    merged: int  # the same, if everyone sent one average for each distinct action
    people: int
    seconds: float
    kept: bool  # the best action was never dropped
    left: int  # actions that could still be best at the end
    norm_bound: float  # at the end; larger than at the start if it was refuted
    curve: tuple[float, ...]  # cumulative regret at `grid(horizon)`


def grid(horizon: int) -> Array:
    """The rounds at which curves are kept: evenly spaced, and evenly spaced on a logarithmic axis."""
    even, logarithmic = np.linspace(0, horizon, 161), np.geomspace(1, horizon, 81)
    return np.unique(np.round(np.concatenate([even, logarithmic])))


def perform(trial: Trial) -> Record:
    """Run a trial and keep what matters."""
    return summarise(trial.run())


def summarise(run: Run) -> Record:
    """A run in numbers."""
    horizon, f = run.scenario.problem.horizon, run.scenario.f
    rounds, regret = regret_curve(run.plans, run.best, horizon, f)
    return Record(
        regret=run.metrics.regret,
        numbers=run.metrics.communication,
        merged=sum(plan.participants * (1 if plan.reports == "one" else len(plan.arms)) for plan in run.plans),
        people=run.metrics.participants,
        seconds=run.seconds,
        kept=run.optimum_kept,
        left=len(run.state.active),
        norm_bound=run.state.norm_bound,
        curve=tuple(float(f"{value:.6g}") for value in np.interp(grid(horizon), rounds, regret)),
    )


class Journal:
    """Finished runs in a file, a line each: what was written stays, whatever happens next.

    A run is found again by what it was and by the source code that computed it, so that results of different
    programs are never mixed. A line that was cut short, by a full disk for example, is ignored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, trials: Iterable[Trial]) -> dict[Trial, Record]:
        """Those of the trials that were run before."""
        wanted = {key_of(trial): trial for trial in trials}
        found: dict[Trial, Record] = {}
        if self.path.exists():
            for line in self.path.read_bytes().splitlines():
                try:
                    entry = json.loads(line)
                    fields = entry["record"]
                    record = Record(**{**fields, "curve": tuple(fields["curve"])})
                    trial = wanted.get(entry["key"])
                except (ValueError, TypeError, KeyError):
                    continue
                if trial is not None:
                    found[trial] = record
        return found

    @contextmanager
    def writing(self) -> Iterator[JournalWriter]:
        """Append to the journal; one process at a time."""
        import fcntl

        try:
            file = self.path.open("a+b")
        except OSError as error:
            raise _unwritable(self.path, error) from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{str(self.path)!r} is being written by another process; wait for it, or choose another --out"
                ) from None
            yield JournalWriter(self.path, file.fileno())


@dataclass(frozen=True)
class JournalWriter:
    """An open journal."""

    path: Path
    descriptor: int

    def append(self, trial: Trial, record: Record) -> None:
        """Keep a finished run. If the line before was cut short, this one still starts on a line of its own."""
        entry = {"key": key_of(trial), "trial": trial.as_dict(), "record": asdict(record)}
        data = f"\n{json.dumps(entry)}\n".encode()
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
        except OSError as error:
            raise _unwritable(self.path, error) from None


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot write {str(path)!r}: {error.strerror}; finished runs are kept: make room and run the command again"
    )


def key_of(trial: Trial) -> str:
    """What a trial is known by: its description, its data and the source code."""
    data = "" if trial.data is None else _content(trial.data)
    text = json.dumps([{**trial.as_dict(), "data": data}, fingerprint()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def _content(folder: str) -> str:
    """A digest of the files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(Path(folder).glob("*.csv")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def fingerprint() -> str:
    """A digest of the source code and the shipped figures that a run depends on."""
    digest = hashlib.sha256()
    for name, source in _sources(files("voxpop"), ""):
        if not SHELLS.fullmatch(name):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _sources(folder: Traversable, place: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and not entry.name.startswith("_"):
            yield from _sources(entry, f"{place}{entry.name}/")
        elif entry.name.endswith((".py", ".csv")):  # the figures of the light study, too
            yield place + entry.name, entry

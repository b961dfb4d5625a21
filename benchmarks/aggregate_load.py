"""Compare the aggregate model with the others: uploads per second at both servers, and bytes a report.

    python -m benchmarks.aggregate_load

A report is two uploads, to two servers that different people run: so as many reports arrive as the slower of the two
takes. The rates are those of SQLite, between two runs of the central model (see service_load.py). Needs wrk.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.service_load import ARMS, SECRET, STUDY, Load, prepare, uploads, write_load
from voxpop.errors import Array
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan
from voxpop.privacy import Private, Simulated
from voxpop.privacy.release import Release
from voxpop.service.keys import Keyring, hash_key, new_key
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import inbox, reports

ANSWERS = np.random.default_rng(0).random((101, ARMS))
BATCH = new_key()


def bodies_of(release: Release, answers: Array) -> tuple[list[str], list[str]]:
    """Make what devices send to the coordinator, and what they send to the second server."""
    source = Simulated(np.random.default_rng(0))
    parts = [release.parts(report, source) for report in release.randomize(answers, source)]
    ours = [json.dumps(part.coordinator) for part in parts if part.coordinator]
    return ours, [json.dumps(part.helper) for part in parts if part.helper]


def at_coordinator(folder: Path, model: str, name: str) -> tuple[Load, Release, list[str]]:
    """Measure uploads to a coordinator; also return the release of its wave, and the tokens."""
    elsewhere = "http://127.0.0.1:1"
    link = HttpShuffler(elsewhere, Keyring.of(SECRET.encode()), elsewhere) if model == "aggregate" else None
    address = str(folder / f"{name}.db")
    coordinator, tokens = prepare(address, model, link)
    wave = coordinator.snapshots.current(STUDY).wave
    assert wave is not None
    write_load(folder, tokens, bodies_of(wave.release, ANSWERS)[0])
    flags = ["--shuffler-url", elsewhere] if link else []
    found = uploads(folder, ["serve", "--database", address, *flags], coordinator.database, inbox)
    coordinator.database.close()
    return found, wave.release, tokens


def at_helper(folder: Path, release: Release, tokens: list[str]) -> Load:
    """Measure uploads of the other shares to a helper."""
    address = str(folder / "helper.db")
    database = open_store(address, "shuffler")
    assert release.batch is not None
    hashes = [hash_key(token) for token in tokens]
    Shuffler(database, lambda kind, **values: None).announce(BATCH, release.batch, hashes, [])
    write_load(folder, tokens, bodies_of(release, ANSWERS)[1])
    command = ["shuffler", "--database", address, "--coordinator-url", "http://127.0.0.1:1"]
    found = uploads(folder, command, database, reports, f"/v2/batches/{BATCH}/report")
    database.close()
    return found


def rates(folder: Path) -> None:
    """Print the rates of both servers as shares of the central model's."""
    first, _, _ = at_coordinator(folder, "central", "first")
    ours, release, tokens = at_coordinator(folder, "aggregate", "second")
    theirs = at_helper(folder, release, tokens)
    last, _, _ = at_coordinator(folder, "central", "third")
    base = (first.rate + last.rate) / 2
    print(f"central {first}\n        {last}")
    print(f"aggregate, at the coordinator {ours}: {ours.rate / base:.2f} of central")
    print(f"aggregate, at the helper {theirs}: {theirs.rate / base:.2f} of central")


def sizes() -> None:
    """Print the bytes that a device sends in each model."""
    print("bytes a report, in bodies of JSON, and how many times the shuffle model's:")
    for arms, people, epsilon in itertools.product((4, 10, 40), (100, 20_000), (1.0, 5.0)):
        problem = Problem(np.linspace(0, 1, arms), SquaredExponential(0.1), 0.1, 0.2, norm_bound=1.0, horizon=100)
        plan = Plan(1, np.arange(arms), np.ones(arms, dtype=int), people)
        lengths = {}
        for model in ("central", "local", "shuffle", "aggregate"):
            release = Private(model, epsilon).calibrate(problem, State.prior(problem, 1.0), plan)
            sent = bodies_of(release, np.random.default_rng(1).standard_normal((200, arms)))
            lengths[model] = sum(len(body) for part in sent for body in part) / 200
        text = ", ".join(f"{model} {length:.0f}" for model, length in lengths.items())
        times = lengths["aggregate"] / lengths["shuffle"]
        print(f"  {arms} arms, {people:,} people, eps {epsilon:g}: {text}; {times:.2f}")


def main() -> None:
    sizes()
    with tempfile.TemporaryDirectory(prefix="voxpop-bench-") as name:
        rates(Path(name))


if __name__ == "__main__":
    main()

"""Print what two rehearsals foretell of a study, and what the study then takes.

python -m benchmarks.rehearsals [SEEDS]          # a minute for 20 seeds

Half of the customers would pay about 3.4 and half about 9, so that people are far from Gaussian. For each seed 40 of
them take part in a pilot, whose study is rehearsed with Gaussian people and with the pilot's own people, drawn again,
and is then conducted with new customers.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from voxpop.calibration import calibrate
from voxpop.io.studyfile import write_study
from voxpop.io.tables import read_pilot_table
from voxpop.model.decisions import Float, Space
from voxpop.model.waves import Plan
from voxpop.runtime.random_streams import stream
from voxpop.simulation.pricing import Customers, Segment
from voxpop.simulation.rehearsals import Rehearsal
from voxpop.simulation.runs import Run, Scenario, simulate
from voxpop.simulation.scenarios import PEOPLE, ROUNDS, TRIED

SEGMENTS = (Segment(0.5, 3.4, 0.12), Segment(0.5, 9.0, 0.12))
HORIZON, POINTS = 20_000, 51
SPACE = Space(price=Float(2.0, 12.0))


def customers(prices: Sequence[float]) -> Customers:
    """Return the people, who answer about these prices."""
    return Customers(np.array(prices), mood=0.07, segments=SEGMENTS)


def pilot(path: Path, seed: int) -> Path:
    """Ask some of the people about a dozen prices, and write a CSV file."""
    prices = np.linspace(2, 12, TRIED).round(2)
    plan = Plan(0, np.arange(TRIED), np.full(TRIED, ROUNDS), PEOPLE)
    answers = customers(prices.tolist()).observe(plan, PEOPLE, stream(seed, "pilot"))
    rows = [f"u{i},{price},{ROUNDS},{answers[i, j]}" for i in range(PEOPLE) for j, price in enumerate(prices)]
    path.write_text("\n".join(["person,price,rounds,reward", *rows]))
    return path


def runs(folder: Path, seed: int) -> dict[str, Run]:
    """Rehearse the study of one pilot twice, and conduct it."""
    table, study = pilot(folder / "pilot.csv", seed), folder / "study.toml"
    records = read_pilot_table(table).pilot
    study.write_text(write_study(calibrate(records, SPACE), SPACE, HORIZON, POINTS, "price", {"name": "waves"}))
    gaussian = Rehearsal(str(study), seed=seed)
    problem = gaussian.scenario().problem
    people = customers([label["price"] for label in problem.decisions])
    return {
        "Gaussian people": gaussian.run(),
        "the pilot's own people": replace(gaussian, resample=str(table)).run(),
        "the study itself": simulate(Scenario("price", problem, people, people.profit), "waves", seed),
    }


def main() -> None:
    """Print the table."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    found: dict[str, list[Run]] = {}
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            for name, run in runs(Path(folder), seed).items():
                found.setdefault(name, []).append(run)
    print(f"{'':24}{'people':>8}{'numbers':>9}{'waves':>7}{'regret':>8}{'model check':>13}")
    for name, all_runs in found.items():
        metrics = [run.metrics for run in all_runs]
        people, numbers, lost = (np.mean([getattr(m, key) for m in metrics]) for key in ("people", "numbers", "regret"))
        waves, warned = np.mean([len(run.closed) for run in all_runs]), sum(bool(run.warning) for run in all_runs)
        print(f"{name:24}{people:8,.0f}{numbers:9,.0f}{waves:7.1f}{lost:8,.0f}{f'{warned} of {seeds}':>13}")


if __name__ == "__main__":
    main()

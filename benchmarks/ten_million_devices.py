"""Collect one wave of ten million simulated devices on two Dask workers, and compare it with one process.

Each model's wave is drawn three times: by a plain NumPy program that only draws the answers and adds them up as
floats, by one process, and by a Dask cluster of this machine, with workers in processes of their own. The last two must
give the same total to the last bit. Every program has its processes to itself, so that each peak of memory is its own.

    python -m benchmarks.ten_million_devices [--people 10000000] [--workers 2]
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import numpy as np
from distributed import Client, LocalCluster

from voxpop.journal.wave import Wave
from voxpop.model.waves import Plan, Tally
from voxpop.privacy import crowds, make_privacy
from voxpop.privacy.models import RELEASES
from voxpop.runtime.random_streams import stream
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.simulator import Population
from voxpop.simulation.sweep import Backend
from voxpop_dask import collect_in_chunks

SEED, EPSILON, ARMS = 0, 5.0, 10


@dataclass(frozen=True)
class Measured:
    result: Any
    seconds: float
    peak: float  # megabytes

    def against(self, other: Self) -> str:
        return f"{self.seconds / other.seconds:.2f} | {self.peak / other.peak:.2f}"


def peak() -> float:
    """The largest memory that this process ever had, in megabytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def timed(work: Callable[..., Any], *given: Any) -> Measured:
    start = perf_counter()
    result = work(*given)
    return Measured(result, perf_counter() - start, peak())


def alone(work: Callable[..., Any], *given: Any) -> Measured:
    """Do some work in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(timed, work, *given).result()


def opened(model: str, people: int) -> tuple[Wave, Population]:
    scenario = make_scenario("synthetic", Options(horizon=40_000))
    problem, policy = scenario.problem, scenario.make_policy("dpbe")
    privacy, state = make_privacy(model, EPSILON), policy.init(problem)
    plan = Plan(1, np.arange(0, problem.size, problem.size // ARMS), np.full(ARMS, 4), people)
    return Wave(plan, privacy.calibrate(problem, state, plan)), scenario.population


def plain(model: str, people: int) -> object:
    wave, population = opened(model, people)
    total = np.zeros(len(wave.plan.arms))
    for number, size in enumerate(crowds.chunks(people, len(wave.plan.arms))):
        total += population.observe(wave.plan, size, stream(SEED, "people", 1, number)).sum(axis=0)
    return total


def one_process(model: str, people: int) -> Tally:
    return collect_in_chunks(*opened(model, people), SEED, Backend(jobs=1))


def on_dask(model: str, people: int, workers: int) -> tuple[Measured, list[float]]:
    """Return the tally, its time and the client's memory, and that of each worker; the scheduler is the client's."""
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:  # type: ignore[no-untyped-call]
        backend = Backend("dask", cluster.scheduler_address)
        found = timed(lambda: collect_in_chunks(*opened(model, people), SEED, backend))
        with Client(cluster) as client:  # type: ignore[no-untyped-call]
            peaks: dict[str, float] = client.run(peak)
    return found, list(peaks.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10**7)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    print(f"{chosen.people:,} people, {ARMS} arms, {chosen.workers} workers; times and peaks of memory as ratios")
    print("| model | plain NumPy sum | one process / plain: time | memory | Dask / one process: time ", end="")
    print("| largest worker's memory | scheduler's and client's | same total |")
    print("|---|---:|---:|---:|---:|---:|---:|---|", flush=True)
    for model in RELEASES:
        bare, one = alone(plain, model, chosen.people), alone(one_process, model, chosen.people)
        (cluster, workers) = alone(on_dask, model, chosen.people, chosen.workers).result
        same = "yes" if cluster.result == one.result else "NO"
        begin = f"| {model} | {bare.seconds:.1f} s, {bare.peak:.0f} MB | {one.against(bare)}"
        ratios = (cluster.seconds / one.seconds, max(workers) / one.peak, cluster.peak / one.peak)
        print(begin, *(f"{ratio:.2f}" for ratio in ratios), f"{same} |", sep=" | ", flush=True)


if __name__ == "__main__":
    main()

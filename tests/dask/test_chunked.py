"""A wave in chunks: the same total wherever and in whatever order the chunks are drawn and added."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce
from itertools import product
from operator import add

import numpy as np
import pytest
from distributed import LocalCluster

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.journal.wave import Wave
from voxpop.model.waves import End
from voxpop.privacy import crowds, make_privacy
from voxpop.runtime.random_streams import stream
from voxpop.simulation.people import TablePeople
from voxpop.simulation.runs import Scenario
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.sweep import Backend
from voxpop_dask import FAN, added, collect_in_chunks, tally_of

PEOPLE = 1000
MODELS = ("none", "central", "shuffle", "aggregate", "local")


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return make_scenario("sphere", Options(size=20, horizon=1000))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Backend]:
    """Two worker processes."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made:  # type: ignore[no-untyped-call]
        yield Backend("dask", made.scheduler_address)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds, "CHUNK", 100)


def wave_of(scenario: Scenario, model: str) -> Wave:
    problem, policy = scenario.problem, scenario.make_policy("dpbe")
    privacy, state = make_privacy(model, None if model == "none" else 5.0), policy.init(problem)
    plan = policy.plan(problem, state, privacy)
    assert not isinstance(plan, End)
    plan = replace(plan, people=PEOPLE)
    return Wave(plan, privacy.calibrate(problem, state, plan))


@pytest.mark.parametrize("model", MODELS)
def test_a_cluster_of_processes_gives_the_total_of_one_process(
    scenario: Scenario, cluster: Backend, model: str
) -> None:
    wave = wave_of(scenario, model)
    sizes = list(enumerate(crowds.chunks(wave.plan.people, len(wave.plan.arms))))
    parts = [tally_of(wave, scenario.population, 3, chunk) for chunk in sizes]
    whole = reduce(add, reversed(parts))
    assert len(parts) > FAN, "the tree has more than one level"
    assert whole.count == PEOPLE
    assert collect_in_chunks(wave, scenario.population, 3, cluster) == whole
    assert collect_in_chunks(wave, scenario.population, 3, Backend(jobs=1)) == whole
    assert collect_in_chunks(wave, scenario.population, 4, Backend(jobs=1)) != whole


def test_every_chunk_has_people_and_noise_of_its_own() -> None:
    keys = product(("people", "devices"), (1, 2), (None, 0, 1))
    draws = [stream(0, role, wave, chunk) for role, wave, chunk in keys]
    assert len({rng.integers(2**60) for rng in draws}) == len(draws)
    expected = np.random.PCG64(np.random.SeedSequence(7, spawn_key=(2, 3, 5))).state
    assert stream(7, "people", 3, 5).bit_generator.state == expected


def test_people_of_a_list_are_not_asked_in_chunks(scenario: Scenario) -> None:
    listed = TablePeople(np.ones((30, scenario.problem.size)))
    with pytest.raises(InputError, match="a list of 30 people cannot be asked in chunks") as refused:
        collect_in_chunks(wave_of(scenario, "none"), listed, 0)
    refusal(refused)


def test_a_chunk_that_fails_fails_the_wave(scenario: Scenario, cluster: Backend) -> None:
    wave = wave_of(scenario, "central")
    refused = partial(tally_of, wave, scenario.population, 0)
    said = re.escape("there is not a single report to add up; wait for one")
    for backend in (cluster, Backend(jobs=1)):
        with pytest.raises(InputError, match=said):
            added(refused, [(0, 10), (1, 0)], backend)

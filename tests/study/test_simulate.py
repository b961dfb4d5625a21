"""The simulation: reproducible, independent of how it is computed, and as good as required."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.journal.wave import Wave
from voxpop.model.state import State
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, crowds
from voxpop.runtime.random_streams import ROLES, stream
from voxpop.simulation.runs import Run, simulate
from voxpop.simulation.scenarios import SCENARIOS, Options, make_scenario
from voxpop.simulation.simulator import collect


def run_of(study: str, seed: int = 0, policy: str = "dpbe", **options: Any) -> Run:
    scenario = make_scenario(study, Options(seed=seed, **options))
    return simulate(scenario, scenario.make_policy(policy), seed)


def without_time(run: Run) -> dict[str, Any]:
    return {key: value for key, value in run.as_dict().items() if key != "seconds"}


STUDIES: dict[str, dict[str, Any]] = {
    "synthetic": {"horizon": 3000},
    "sphere": {"horizon": 3000},
    "camel": {"horizon": 3000},
    "michalewicz": {"horizon": 1000},
    "light": {"horizon": 3000},
    "sphere-minimum": {"horizon": 3000},
    "camel-minimum": {"horizon": 3000},
    "pricing": {"horizon": 1000, "size": 21},
    "train": {"horizon": 1000, "size": 21},
    "tariff": {"horizon": 1000, "size": 21},
    "voters": {"horizon": 1000, "size": 21},
}


def test_every_study_is_tested() -> None:
    assert set(STUDIES) == set(SCENARIOS)


@cache
def usual(study: str) -> Run:
    """One run of a study, for all tests that look at it."""
    return run_of(study, 3, **STUDIES[study])


@pytest.mark.parametrize("study", STUDIES)
def test_the_same_seed_gives_the_same_run(study: str) -> None:
    assert without_time(run_of(study, 3, **STUDIES[study])) == without_time(usual(study))


def test_another_seed_gives_another_study() -> None:
    first, second = (make_scenario("synthetic", Options(seed=seed)) for seed in (0, 1))
    assert not np.array_equal(first.problem.decisions.points, second.problem.decisions.points)
    assert not np.array_equal(first.f, second.f)


def test_another_seed_gives_other_people() -> None:
    scenario, policy = make_scenario("light", Options(horizon=500)), make_policy("dpbe")
    first, second = (simulate(scenario, policy, seed) for seed in (0, 1))
    assert not np.array_equal(first.closed[0].feedback.mean, second.closed[0].feedback.mean)


def test_streams_of_different_roles_and_waves_differ() -> None:
    draws = {stream(0, role, wave).integers(2**60) for role in ROLES for wave in range(5)}
    assert len(draws) == 5 * len(ROLES)


def test_a_wave_s_people_do_not_depend_on_other_waves() -> None:
    scenario = make_scenario("sphere", Options(seed=1, size=10))
    plan = Plan(3, np.array([2, 5]), np.array([3, 1]), 4)
    release = NoPrivacy().calibrate(scenario.problem, State.prior(scenario.problem, 1.0), plan)
    alone = collect(Wave(plan, release), scenario.population, 1)
    collect(Wave(replace(plan, wave=2), release), scenario.population, 1)
    assert collect(Wave(plan, release), scenario.population, 1) == alone


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_the_feedback_does_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    scenario = make_scenario("synthetic", Options(seed=0, size=20))
    plan = Plan(5, np.array([3, 1, 8]), np.array([4, 4, 8]), 100)
    release = NoPrivacy().calibrate(scenario.problem, State.prior(scenario.problem, 1.0), plan)
    wave = Wave(plan, release)
    whole = collect(wave, scenario.population, 0)
    monkeypatch.setattr(crowds, "CHUNK", chunk)
    assert collect(wave, scenario.population, 0) == whole
    assert [tally.count for tally in whole] == [100]


KEYS = {
    *("study", "policy", "seed", "horizon", "regret", "numbers", "people"),
    *("best", "optimum_kept", "seconds", "waves"),
}
WAVE_KEYS = {
    *("wave", "length", "rest", "reference", "arms", "pulls", "people"),
    *("active_before", "active_after", "max_width"),
}


@pytest.mark.parametrize("study", STUDIES)
def test_a_run_as_json_has_all_its_keys(study: str) -> None:
    data = json.loads(json.dumps(usual(study).as_dict(), allow_nan=False))
    assert data.keys() >= KEYS
    assert data["best"].keys() >= {"index", "action"}
    assert (data["study"], data["policy"], data["seed"], data["horizon"]) == (
        study,
        "dpbe",
        3,
        STUDIES[study]["horizon"],
    )
    for number, wave in enumerate(data["waves"], start=1):
        assert wave.keys() >= WAVE_KEYS
        assert wave["wave"] == number
        assert wave["length"] == sum(wave["pulls"]) + wave["rest"] <= 2 ** (number - 1)
        assert len(wave["arms"]) == len(wave["pulls"]) == len(set(wave["arms"]))
        assert wave["active_after"] >= 1


@pytest.mark.parametrize("study", STUDIES)
def test_the_totals_are_sums_over_the_waves(study: str) -> None:
    run = usual(study)
    data, f = run.as_dict(), run.scenario.f
    assert data["numbers"] == sum(p["people"] * len(p["arms"]) for p in data["waves"])
    assert data["people"] == sum(p["people"] for p in data["waves"])
    played = sum(p["length"] for p in data["waves"])
    assert played <= data["horizon"]
    lost = sum((f.max() - f[a]) * n for p in data["waves"] for a, n in zip(p["arms"], p["pulls"], strict=True))
    lost += sum((f.max() - f[p["reference"]]) * p["rest"] for p in data["waves"])
    lost += (f.max() - f[data["best"]["index"]]) * (data["horizon"] - played)
    assert data["regret"] == pytest.approx(lost, rel=1e-9, abs=1e-9)


def test_watching_sees_every_wave() -> None:
    seen: list[int] = []
    scenario = make_scenario("sphere", Options(size=20, horizon=200))
    run = simulate(scenario, make_policy("dpbe"), watch=lambda wave: seen.append(wave.plan.wave))
    assert seen == list(range(1, len(run.closed) + 1))


def test_one_action_needs_no_question() -> None:
    run = run_of("sphere", size=1, horizon=100)
    data = run.as_dict()
    assert (data["numbers"], data["regret"], data["best"]["index"], data["optimum_kept"]) == (0, 0, 0, True)


def test_the_pricing_study_knows_only_its_pilot() -> None:
    scenario = make_scenario("pricing", Options(seed=4))
    found = scenario.calibration
    assert found is not None
    assert scenario.problem.norm_bound == found.norm_bound.value
    assert scenario.problem.noise_std == found.noise_std.value
    assert scenario.pilot_numbers == 40 * 12
    other = make_scenario("pricing", Options(seed=5))
    np.testing.assert_array_equal(other.f, scenario.f)  # the same customers, another pilot
    assert other.problem.norm_bound != scenario.problem.norm_bound


@pytest.mark.parametrize("seed", range(3))
def test_the_pricing_study_finds_a_price_that_earns_almost_the_most(seed: int) -> None:
    run = run_of("pricing", seed)
    f = run.scenario.f
    assert f[run.best] >= 0.97 * f.max()
    low, high = run.state.lower[run.best], run.state.upper[run.best]
    assert low <= f[run.best] <= high


@cache
def acceptance(policy: str) -> list[dict[str, Any]]:
    """Seeds 0 to 19 of the synthetic study at the paper's settings."""
    return [run_of("synthetic", seed, policy).as_dict() for seed in range(20)]


def mean(policy: str, key: str) -> float:
    return float(np.mean([run[key] for run in acceptance(policy)]))


def test_the_acceptance_runs_use_the_paper_s_settings() -> None:
    for policy in ("dpbe", "dpbe-paper"):
        for run in acceptance(policy):
            assert (run["horizon"], run["size"]) == (40_000, 100)
            assert (run["settings"]["alpha"], run["settings"]["ratio"]) == (0.7, 1.6)


def test_dpbe_reaches_the_accepted_regret_and_numbers_sent() -> None:
    assert mean("dpbe", "regret") <= 400
    assert mean("dpbe", "numbers") <= 6500
    assert sum(run["optimum_kept"] for run in acceptance("dpbe")) == 20


def test_dpbe_paper_has_the_regret_and_numbers_sent_of_the_paper_s_algorithm() -> None:
    assert 1000 <= mean("dpbe-paper", "regret") <= 2500
    assert 5000 <= mean("dpbe-paper", "numbers") <= 20_000


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown study": ("synthetc", {}, "did you mean 'synthetic'"),
    "negative seed": ("sphere", {"seed": -1}, "seed must be a whole number, at least 0, got -1"),
    "size zero": ("sphere", {"size": 0}, "size must be a whole number, at least 1"),
    "huge size": ("sphere", {"size": 10**9}, "at most 1000000, got 1000000000"),
    "horizon zero": ("sphere", {"horizon": 0}, "horizon must be a whole number, at least 1.*got 0"),
    "negative horizon": ("pricing", {"horizon": -5}, "horizon must be a whole number, at least 1.*got -5"),
    "small pricing": ("pricing", {"size": 5}, "size of the pricing study.*at least 12, got 5"),
    "light without data": ("light", {"data": Path("nowhere")}, "'nowhere'.*light_train_601x41.csv"),
    "light with a size": ("light", {"size": 10}, "leave out the size of 10"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_study_that_cannot_be_made_is_refused(case: str) -> None:
    study, options, said = REFUSED[case]
    with pytest.raises(InputError, match=said) as caught:
        make_scenario(study, Options(**options))
    refusal(caught)


@pytest.mark.parametrize("seed", [0, 1, 7, 2**32 - 1, 2**32, 2**70])
@pytest.mark.parametrize("wave", [0, 1, 255, 256, 40_000, 2**32 - 1, 2**32])
def test_a_stream_is_that_of_the_seed_and_its_spawn_key(seed: int, wave: int) -> None:
    for role, key in ROLES.items():
        sequence = np.random.SeedSequence(seed, spawn_key=(key, wave))
        expected = np.random.PCG64(sequence).state
        assert stream(seed, role, wave).bit_generator.state == expected

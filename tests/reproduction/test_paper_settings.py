"""The exhibits have the numbers and the settings of the paper."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from reproduction import all_exhibits, choose
from reproduction import paper as printed
from reproduction.exhibits import FULL, QUICK
from tests.reproduction.helpers import NAMES, PAPER, STUDIES, catalogue, of_group
from voxpop.simulation.runs import Scenario
from voxpop.simulation.trials import Trial

# The paper's numbers


def test_costs_are_those_of_the_tables() -> None:
    assert as_tuples(PAPER["tab:runtime"]) == printed.COST["synthetic"]
    found = {name: as_tuples(rows) for name, rows in PAPER["tab:communication_time_baseline"].items()}
    assert found == {NAMES[study]: cost for study, cost in printed.COST.items() if study != "synthetic"}
    assert printed.COST.keys() == set(STUDIES)


def as_tuples(rows: Mapping[str, list[float]]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(values) for name, values in rows.items()}


def test_seconds_are_those_of_the_tables() -> None:
    rows = {"synthetic": PAPER["tab:wallclock"]["Running time"]}
    rows |= {study: PAPER["tab:wallclock_functions"][name] for study, name in NAMES.items()}
    for study, values in rows.items():
        assert (tuple(values[:6]), *values[6:]) == printed.SECONDS[study]
    assert printed.SECONDS.keys() == rows.keys() == set(STUDIES)


def test_alphas_and_epsilons_are_those_of_the_text() -> None:
    for label in ("tab:wallclock", "tab:wallclock_functions"):
        assert tuple(PAPER[label]["alphas"]) == printed.ALPHAS
    sets = [tuple(values) for symbol in ("alpha", "epsilon") for values in PAPER["sets"][symbol]]
    assert printed.TRADEOFF_ALPHAS in sets
    assert printed.ALPHAS in sets
    assert sets.count(printed.EPSILONS) == 2
    assert set(sets) == {printed.TRADEOFF_ALPHAS, printed.ALPHAS, printed.EPSILONS}


def test_the_cost_of_the_largest_alpha_is_that_of_the_text() -> None:
    said = PAPER["cost_at_largest_alpha"]
    assert said["alpha"] == printed.ALPHAS[-1]
    assert said["peers"] == FULL.horizon
    assert said["DPBE"] == printed.COST_AT_LARGEST_ALPHA


# The paper's settings


def specified(study: str) -> dict[str, float]:
    """Return the settings of a study; a caption takes precedence over the text."""
    return {**PAPER["text"][study], **PAPER["caption"].get(study, {})}


def bias(row: Mapping[str, float]) -> float:
    """Return v, which the paper gives either plainly or squared."""
    return row["v"] if "v" in row else math.sqrt(row["v_squared"])


@cache
def scenario_of(trial: Trial) -> Scenario:
    return trial.scenario()


def settings(trial: Trial) -> dict[str, Any]:
    return trial.make_policy(scenario_of(trial)).settings()


def assert_setting(trial: Trial, sigma: float, v: float, horizon: int) -> None:
    problem = scenario_of(trial).problem
    size = 41 if trial.study == "light" else 100
    assert problem.size == size
    assert (problem.noise_std, problem.bias_std) == pytest.approx((sigma, v), rel=1e-12)
    assert problem.horizon == trial.horizon == horizon
    assert problem.beta == pytest.approx(1 / (size * horizon), rel=1e-12)
    assert problem.ridge == pytest.approx(sigma**2 / v**2, rel=1e-12)


def test_every_setting_is_run_twenty_times() -> None:
    assert FULL.seeds == 20
    assert FULL.note == ""
    for exhibit in catalogue():
        for trials in exhibit.series.values():
            assert [trial.seed for trial in trials] == list(range(20))
            assert len({replace(trial, seed=0) for trial in trials}) == 1
        assert len(set(exhibit.trials)) == len(exhibit.trials)


@pytest.mark.parametrize("study", STUDIES)
def test_ablations_have_the_settings_of_the_paper(study: str) -> None:
    row, exhibit = specified(study), dict(of_group("ablation"))[study]
    policies = {name: trials[0].policy for name, trials in exhibit.series.items()}
    assert sorted(policies.values()) == ["dpbe", "dpbe-fixed", "dpbe-nobatching", "dpbe-paper"]
    assert (policies["DPBE"], policies["voxpop"]) == ("dpbe-paper", "dpbe")
    for trials in exhibit.series.values():
        for trial in (trials[0], trials[-1]):
            assert trial.study == study
            assert trial.privacy == "none"
            assert not trial.true_norm
            assert_setting(trial, row["sigma"], bias(row), 40_000)
            if study != "light":
                assert scenario_of(trial).problem.decisions.points.shape[1] == row["d"]
        made = settings(trials[0])
        if trials[0].policy != "dpbe-fixed":
            assert made["alpha"] == row["alpha"]
        if trials[0].policy != "dpbe-nobatching":
            assert made["ratio"] == row["C"]


def test_text_and_captions_disagree_on_one_setting_only() -> None:
    """The light sensors' alpha, where the caption is followed."""
    text, caption = PAPER["text"], PAPER["caption"]
    differing = {
        (study, name): (text[study][name], said)
        for study, row in caption.items()
        for name, said in row.items()
        if text[study].get(name, said) != said
    }
    assert differing == {("light", "alpha"): (0.7, 0.8)}
    assert list(caption) == list(PAPER["appendix"]) == list(NAMES)


def test_the_first_function_of_a_benchmark_spans_minus_one_to_one() -> None:
    for study in ("sphere", "camel", "michalewicz"):
        scenario = scenario_of(dict(of_group("ablation"))[study].series["DPBE"][0])
        assert scenario.problem.norm_bound == 1.0
        assert np.abs(scenario.f).max() <= 1.0
    light = scenario_of(dict(of_group("ablation"))["light"].series["DPBE"][0])
    assert light.problem.norm_bound == light.f.max() == 1.0


@pytest.mark.parametrize("study", STUDIES)
def test_peers_have_the_settings_of_the_appendix(study: str) -> None:
    row = PAPER["appendix"].get(study, PAPER["text"][study])  # the synthetic function keeps its own
    exhibit = dict(of_group("peers"))[study]
    for name, trials in exhibit.series.items():
        trial = trials[0]
        assert (trial.study, trial.privacy, trial.true_norm) == (study, "none", False)
        assert_setting(trial, row["sigma"], bias(row), 40_000)
        if trial.policy in ("dpbe", "dpbe-paper"):
            made = settings(trial)
            assert made["ratio"] == row["C"]
            assert f"alpha = {made['alpha']}" in name
    for policy, name in (("dpbe-paper", "DPBE"), ("dpbe", "voxpop")):
        chosen = [trials[0] for trials in exhibit.series.values() if trials[0].policy == policy]
        assert tuple(settings(trial)["alpha"] for trial in chosen) == (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
        assert [exhibit.series[f"{name}, alpha = {settings(trial)['alpha']}"][0] for trial in chosen] == chosen
    assert exhibit.series["GP-UCB"][0].policy == "gp-ucb"
    assert exhibit.series["BPE"][0].policy == "bpe"


def test_the_tradeoff_has_the_alphas_of_the_paper() -> None:
    exhibit = choose(["tradeoff"], FULL)[0]
    for policy in ("dpbe-paper", "dpbe"):
        trials = [trials[0] for trials in exhibit.series.values() if trials[0].policy == policy]
        assert [settings(trial)["alpha"] for trial in trials] == [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
        for trial in trials:
            assert_setting(trial, 0.01, 0.1, 40_000)
            assert settings(trial)["ratio"] == 1.6
            assert trial.study == "synthetic"


@pytest.mark.parametrize("study", STUDIES)
def test_private_studies_have_the_budgets_of_the_paper(study: str) -> None:
    row, exhibit = specified(study), dict(of_group("privacy"))[study]
    firsts = {name: trials[0] for name, trials in exhibit.series.items()}
    for trial in firsts.values():
        assert_setting(trial, row["sigma"], bias(row), 1_000_000)
        assert settings(trial)["alpha"] == row["alpha"]
        assert trial.delta == 1e-6
    assert (firsts["DPBE"].privacy, firsts["DPBE"].policy) == ("none", "dpbe-paper")
    private = [trial for trial in firsts.values() if trial.privacy != "none"]
    assert {trial.privacy for trial in private} == {"central"}
    given = [trial for trial in private if not trial.true_norm]  # with the paper's norm bound
    modes = {(t.policy, t.calibration, t.floor) for t in given}
    whole = {("dpbe-paper", "paper", None), ("dpbe-paper", "paper-v", None), ("dpbe", "exact", None)}
    assert whole < modes
    for mode in modes:
        wanted = [5, 10, 15, 20, 25, 30] if mode in whole else [5, 15, 30]
        assert [t.epsilon for t in given if (t.policy, t.calibration, t.floor) == mode] == wanted
    for epsilon in (5, 30):
        named = [firsts[f"{name}, eps = {epsilon}"] for name in ("DP-DPBE", "voxpop, private")]
        assert [(trial.policy, trial.epsilon) for trial in named] == [("dpbe-paper", epsilon), ("dpbe", epsilon)]


def test_the_trust_models_are_compared_at_one_budget() -> None:
    exhibit = choose(["trust"], FULL)[0]
    for model in ("central", "local", "shuffle"):
        for mode, policy, calibration in (("as printed", "dpbe-paper", "paper"), ("voxpop", "dpbe", "exact")):
            trial = exhibit.series[f"{model}, {mode}"][0]
            assert (trial.privacy, trial.policy, trial.calibration) == (model, policy, calibration)
            assert (trial.study, trial.horizon, trial.epsilon, trial.delta) == ("synthetic", 1_000_000, 15.0, 1e-6)


def test_quick_is_less_of_the_same_and_says_so() -> None:
    quick, full = all_exhibits(QUICK), all_exhibits(FULL)
    assert [exhibit.name for exhibit in quick] == [exhibit.name for exhibit in full]
    for small, large in zip(quick, full, strict=True):
        assert small.series.keys() == large.series.keys()
        for name, trials in small.series.items():
            assert len(trials) == QUICK.seeds < FULL.seeds
            assert int(trials[0].horizon or 0) < int(large.series[name][0].horizon or 0)
            assert replace(trials[0], horizon=None) == replace(large.series[name][0], horizon=None)
    for said in (f"{QUICK.seeds} seeds", f"{QUICK.horizon:,}", f"{QUICK.private_horizon:,}", "quick"):
        assert said in QUICK.note

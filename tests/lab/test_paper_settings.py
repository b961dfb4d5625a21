"""The exhibits have the numbers and the settings of the paper."""

import math
import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import SHARED
from tests.helpers_experiments import NAMES, STUDIES, catalogue, numbers, of_group, paper, table
from voxpop.lab.experiments import all_exhibits, choose
from voxpop.lab.experiments import paper as printed
from voxpop.lab.experiments.exhibits import FULL, QUICK
from voxpop.lab.scenarios import Scenario
from voxpop.lab.trials import Trial

# The paper's numbers


def test_costs_are_those_of_the_tables() -> None:
    rows = re.findall(r"\\texttt\{(DPBE[\w-]*)\}([^\\]*&.*?)\\\\", table("tab:runtime"), re.DOTALL)
    assert {name: tuple(numbers(text)) for name, text in rows} == printed.COST["synthetic"]
    parts = re.split(r"\\multirow\{4\}\*\{([^}]*)\}", table("tab:communication_time_baseline"))
    found = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        rows = re.findall(r"\\texttt\{(DPBE[\w-]*)\}(.*?)\\\\", text, re.DOTALL)
        assert len(rows) == 3
        found[name] = {policy: tuple(numbers(row)) for policy, row in rows}
    assert found == {NAMES[study]: cost for study, cost in printed.COST.items() if study != "synthetic"}
    assert printed.COST.keys() == set(STUDIES)


def test_seconds_are_those_of_the_tables() -> None:
    values = numbers(table("tab:wallclock"))
    assert (tuple(values[:6]), *values[6:]) == printed.SECONDS["synthetic"]
    for study, name in NAMES.items():
        row = re.search(rf"{name}\s*&(.*?)\\\\", table("tab:wallclock_functions"))
        assert row is not None
        values = numbers(row[1])
        assert (tuple(values[:6]), *values[6:]) == printed.SECONDS[study]
    assert printed.SECONDS.keys() == set(STUDIES)


def test_alphas_and_epsilons_are_those_of_the_text() -> None:
    for label in ("tab:wallclock", "tab:wallclock_functions"):
        assert tuple(map(float, re.findall(r"\\alpha=([\d.]+)", table(label)))) == printed.ALPHAS
    sets = [
        tuple(float(value) for value in re.findall(r"[\d.]+", inside))
        for inside in re.findall(r"\\(?:alpha|epsilon)\s*\\in\s*\\\{([^}]*)\\\}", paper())
    ]
    assert printed.TRADEOFF_ALPHAS in sets
    assert printed.ALPHAS in sets
    assert sets.count(printed.EPSILONS) == 2
    assert set(sets) == {printed.TRADEOFF_ALPHAS, printed.ALPHAS, printed.EPSILONS}


def test_the_cost_of_the_largest_alpha_is_that_of_the_text() -> None:
    said = re.search(r"even when \$\\alpha=0.9\$ \((.*?) vs\. (.*?)\)", paper())
    assert said is not None
    assert numbers(said[1]) == [FULL.horizon]
    assert numbers(said[2]) == [printed.COST_AT_LARGEST_ALPHA]


# The paper's settings


def specified() -> dict[str, dict[str, str]]:
    """The table of studies in SPEC section 7."""
    lines = (SHARED / "SPEC.md").read_text(encoding="utf-8").split("## 7.")[1].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    header = rows[0]
    assert header == ["study", "f", "d", "sigma", "v", "C", "alpha"]
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows[2:7]}


def value(text: str) -> float:
    root = re.fullmatch(r"sqrt\((.*)\)", text)
    return math.sqrt(float(root[1])) if root else float(text)


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
def test_ablations_have_the_settings_of_the_specification(study: str) -> None:
    row, exhibit = specified()[study], dict(of_group("ablation"))[study]
    policies = {name: trials[0].policy for name, trials in exhibit.series.items()}
    assert sorted(policies.values()) == ["dpbe", "dpbe-fixed", "dpbe-nobatching", "dpbe-paper"]
    assert (policies["DPBE"], policies["voxpop"]) == ("dpbe-paper", "dpbe")
    for trials in exhibit.series.values():
        for trial in (trials[0], trials[-1]):
            assert trial.study == study
            assert trial.privacy == "none"
            assert not trial.true_norm
            assert_setting(trial, value(row["sigma"]), value(row["v"]), 40_000)
            if study != "light":
                assert scenario_of(trial).problem.decisions.points.shape[1] == int(row["d"])
        made = settings(trials[0])
        if trials[0].policy != "dpbe-fixed":
            assert made["alpha"] == float(row["alpha"])
        if trials[0].policy != "dpbe-nobatching":
            assert made["ratio"] == float(row["C"])


def test_the_captions_say_the_same_as_the_specification() -> None:
    found = re.findall(
        r"Settings: \$d=(\d),\s*\{?C=([\d.]+)\}?,\s*\\sigma=([\d.]+),\s*\\lambda[^,]*,\s*\\alpha=([\d.]+)", paper()
    )
    rows = specified()
    for study, (d, C, sigma, alpha) in zip(NAMES, found, strict=True):
        row = rows[study]
        assert (float(C), float(sigma), float(alpha)) == tuple(value(row[name]) for name in ("C", "sigma", "alpha"))
        assert row["d"] in (d, "-")


def test_the_first_function_of_a_benchmark_spans_minus_one_to_one() -> None:
    for study in ("sphere", "camel", "michalewicz"):
        scenario = scenario_of(dict(of_group("ablation"))[study].series["DPBE"][0])
        assert scenario.problem.norm_bound == 1.0
        assert np.abs(scenario.f).max() <= 1.0
    light = scenario_of(dict(of_group("ablation"))["light"].series["DPBE"][0])
    assert light.problem.norm_bound == light.f.max() == 1.0


def appendix() -> dict[str, tuple[float, float, float]]:
    """C, sigma and v^2 of the comparison with GP-UCB and BPE."""
    found = re.findall(
        r"Settings: \$d=\d,\s*\{?C=([\d.]+)\}?,\s*\\sigma=([\d.]+),\s*v\^2=([\d.]+)",
        paper().split("app:experiments")[-1],
    )
    C, sigma, v = (float(text) for text in ("1.6", "0.01", "0.1"))  # the synthetic function keeps its own
    return {
        "synthetic": (C, sigma, v**2),
        **{study: (float(a), float(b), float(c)) for study, (a, b, c) in zip(NAMES, found, strict=True)},
    }


@pytest.mark.parametrize("study", STUDIES)
def test_peers_have_the_settings_of_the_appendix(study: str) -> None:
    C, sigma, square = appendix()[study]
    exhibit = dict(of_group("peers"))[study]
    for name, trials in exhibit.series.items():
        trial = trials[0]
        assert (trial.study, trial.privacy, trial.true_norm) == (study, "none", False)
        assert_setting(trial, sigma, math.sqrt(square), 40_000)
        if trial.policy in ("dpbe", "dpbe-paper"):
            made = settings(trial)
            assert made["ratio"] == C
            assert f"alpha = {made['alpha']}" in name
    for policy, name in (("dpbe-paper", "DPBE"), ("dpbe", "voxpop")):
        chosen = [trials[0] for trials in exhibit.series.values() if trials[0].policy == policy]
        assert tuple(trial.alpha for trial in chosen) == (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
        assert [exhibit.series[f"{name}, alpha = {trial.alpha}"][0] for trial in chosen] == chosen
    assert exhibit.series["GP-UCB"][0].policy == "gp-ucb"
    assert exhibit.series["BPE"][0].policy == "bpe"


def test_the_tradeoff_has_the_alphas_of_the_paper() -> None:
    exhibit = choose(["tradeoff"], FULL)[0]
    for policy in ("dpbe-paper", "dpbe"):
        trials = [trials[0] for trials in exhibit.series.values() if trials[0].policy == policy]
        assert [trial.alpha for trial in trials] == [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
        for trial in trials:
            assert_setting(trial, 0.01, 0.1, 40_000)
            assert settings(trial)["ratio"] == 1.6
            assert trial.study == "synthetic"


@pytest.mark.parametrize("study", STUDIES)
def test_private_studies_have_the_budgets_of_the_paper(study: str) -> None:
    row, exhibit = specified()[study], dict(of_group("privacy"))[study]
    firsts = {name: trials[0] for name, trials in exhibit.series.items()}
    for trial in firsts.values():
        assert_setting(trial, value(row["sigma"]), value(row["v"]), 1_000_000)
        assert settings(trial)["alpha"] == float(row["alpha"])
        assert trial.delta == 1e-6
    assert (firsts["DPBE"].privacy, firsts["DPBE"].policy) == ("none", "dpbe-paper")
    private = [trial for trial in firsts.values() if trial.privacy != "none"]
    assert {trial.privacy for trial in private} == {"central"}
    given = [trial for trial in private if not trial.true_norm]  # with the paper's norm bound
    modes = {(t.policy, t.calibration, t.floor) for t in given}
    assert {("dpbe-paper", "paper", None), ("dpbe", "exact", None)} <= modes
    for mode in modes:
        assert [t.epsilon for t in given if (t.policy, t.calibration, t.floor) == mode] == [5, 10, 15, 20, 25, 30]
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

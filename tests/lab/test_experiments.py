"""The catalogue covers the paper with the paper's settings and numbers, and verdicts follow from the runs."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import refusal
from tests.helpers_experiments import LABELS, NAMES, PAPER, cell, record
from voxpop.core.errors import InputError
from voxpop.lab.experiments import all_exhibits, choose
from voxpop.lab.experiments import paper as printed
from voxpop.lab.experiments.drawing import short
from voxpop.lab.experiments.exhibits import (
    FULL,
    QUICK,
    Cell,
    Exhibit,
    Finding,
    Scale,
    Shown,
    Verdict,
    compare,
    quantity,
    sign,
    trend,
)
from voxpop.lab.experiments.output import COLOURS, cells_of
from voxpop.lab.experiments.records import Record, grid
from voxpop.lab.scenarios import Scenario
from voxpop.lab.trials import Trial

STUDIES = ("synthetic", "sphere", "camel", "michalewicz", "light")
SMALL = Scale(seeds=3, horizon=400, private_horizon=600)


# Verdicts


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([-5.0, -5.1, -4.9, -5.0], "reproduced"),
        ([5.0, 5.1, 4.9, 5.0], "not reproduced"),
        ([-2.0, -2.0, -2.0], "reproduced"),  # no spread at all
        ([0.0, 0.0, 0.0], "undecided"),
        ([-1.0, 1.0, -1.0, 1.0], "undecided"),
        ([-9.0, 1.0, 2.0, -3.0], "undecided"),
        ([-1000.0], "undecided"),  # one run says nothing
        ([1000.0], "undecided"),
    ],
)
def test_a_sign_counts_beyond_chance_only(differences: list[float], verdict: str) -> None:
    assert sign(np.array(differences)) == verdict


def test_chance_is_two_standard_errors() -> None:
    """Differences of -m - 1 and -m + 1 have the mean -m and the standard error sqrt(2) / sqrt(2) = 1."""
    assert sign(np.array([-1.99 - 1, -1.99 + 1])) == "undecided"
    assert sign(np.array([-2.01 - 1, -2.01 + 1])) == "reproduced"
    assert sign(np.array([1.99 - 1, 1.99 + 1])) == "undecided"
    assert sign(np.array([2.01 - 1, 2.01 + 1])) == "not reproduced"


def test_compare_pairs_runs_by_seed() -> None:
    """Seeds differ by hundreds, policies by one: only the right pairs tell them apart."""
    levels = {0: 100.0, 1: 900.0, 2: 400.0, 3: 700.0}
    less = cell(levels)
    more = cell({seed: levels[seed] + 1 + 0.01 * seed for seed in (3, 1, 0, 2)})
    assert compare("c", less, more).verdict == "reproduced"
    assert compare("c", more, less).verdict == "not reproduced"
    shuffled = cell({seed: levels[(seed + 1) % 4] + 1 for seed in levels})
    assert compare("c", less, shuffled).verdict == "undecided"


def test_compare_leaves_out_seeds_that_only_one_has() -> None:
    less = cell({0: 10.0, 1: 20.0, 2: 30.0, 7: 9999.0})
    more = cell({5: 0.0, 2: 32.0, 1: 22.1, 0: 11.9})
    found = compare("c", less, more)
    assert found.verdict == "reproduced"
    assert "20 against 22" in found.evidence
    assert "3 seeds" in found.evidence
    assert "(0.91 times)" in found.evidence


def test_compare_without_a_common_seed_decides_nothing() -> None:
    """With two seeds, one run of each policy may have failed; nan is not evidence."""
    found = compare("c", cell({0: 10.0}), cell({1: 20.0}))
    assert found.verdict == "undecided"
    assert "nan" not in found.evidence


def test_a_trend_without_a_common_seed_decides_nothing() -> None:
    assert trend("c", {1: cell({0: 10.0}), 2: cell({1: 20.0})}, "regret", rises=True).verdict == "undecided"


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "not reproduced"), (1.5, "not reproduced"), (2.0, "undecided"), (2.5, "reproduced")]
)
def test_compare_with_a_factor(factor: float, verdict: str) -> None:
    less, more = cell([20.0, 40.0, 60.0]), cell([10.0, 20.0, 30.0])
    assert compare("c", less, more, factor=factor).verdict == verdict


def test_compare_takes_the_number_it_is_told() -> None:
    less, more = cell([1, 2, 3], "numbers"), cell([10, 20, 31], "numbers")
    assert compare("c", less, more, "numbers").verdict == "reproduced"
    assert compare("c", less, more, "regret").verdict == "undecided"


def test_compare_with_zero() -> None:
    found = compare("c", cell([0.0, 0.0]), cell([0.0, 0.0]))
    assert (found.claim, found.verdict) == ("c", "undecided")
    assert "times" not in found.evidence


FALLING = {0.3: cell([30.0, 31.0, 32.0]), 0.5: cell([20.0, 21.5, 22.0]), 0.9: cell([10.0, 10.5, 12.0])}


def test_a_trend_that_falls() -> None:
    falls = trend("c", FALLING, "regret", rises=False)
    assert falls.verdict == "reproduced"
    assert falls.evidence == "0.3: 31, 0.5: 21.2, 0.9: 10.8"
    assert trend("c", dict(reversed(FALLING.items())), "regret", rises=True).verdict == "reproduced"


def test_a_trend_the_other_way() -> None:
    rises = trend("c", FALLING, "regret", rises=True)
    assert rises.verdict == "not reproduced"
    assert re.search(r"0\.3 to 0\.5, 0\.5 to 0\.9", rises.evidence)
    assert trend("c", dict(reversed(FALLING.items())), "regret", rises=False).verdict == "not reproduced"


@pytest.mark.parametrize("rises", [False, True])
def test_a_step_the_other_way_is_named(rises: bool) -> None:
    levels = {1: 50.0, 2: 30.0, 4: 40.0, 8: 20.0}
    turn = -1.0 if rises else 1.0
    cells = {key: cell([turn * level + s + 0.01 * key * s for s in range(3)]) for key, level in levels.items()}
    found = trend("c", cells, "regret", rises=rises)
    assert found.verdict == "not reproduced"
    assert "2 to 4" in found.evidence
    assert "1 to 2" not in found.evidence
    assert "4 to 8" not in found.evidence


def test_a_step_the_other_way_within_chance_is_no_step() -> None:
    cells = {1: cell([50.0, 51.0, 52.0]), 2: cell([30.0, 31.0, 32.0]), 3: cell([29.0, 33.0, 31.5])}
    assert trend("c", cells, "regret", rises=False).verdict == "reproduced"


def test_a_trend_in_noise_is_undecided() -> None:
    cells = {1: cell([10.0, 30.0, 20.0]), 2: cell([25.0, 12.0, 21.0]), 3: cell([20.0, 10.0, 29.0])}
    assert trend("c", cells, "regret", rises=False).verdict == "undecided"
    assert trend("c", cells, "regret", rises=True).verdict == "undecided"


def test_a_trend_of_one_seed_is_undecided() -> None:
    cells = {1: cell([50.0]), 2: cell([30.0]), 3: cell([10.0])}
    assert trend("c", cells, "regret", rises=False).verdict == "undecided"


def test_a_trend_pairs_runs_by_seed() -> None:
    first = cell({0: 100.0, 1: 900.0, 2: 500.0, 3: 0.0})
    last = cell({2: 498.9, 9: 1e6, 1: 899.0, 0: 98.8})
    assert trend("c", {1: first, 2: last}, "regret", rises=False).verdict == "reproduced"


def test_a_target_of_our_own_is_reached_or_not() -> None:
    verdicts: dict[Verdict, Verdict] = {
        "reproduced": "reached",
        "not reproduced": "not reached",
        "undecided": "undecided",
    }
    for verdict, ours in verdicts.items():
        assert Finding("c", verdict, "e").as_target() == Finding("c", ours, "e", target=True)


def test_a_reason_is_given_where_a_claim_does_not_simply_reproduce() -> None:
    given: dict[Verdict, str] = {"reproduced": "", "reached": "", "not reproduced": "w", "undecided": "w"}
    for verdict, reason in given.items():
        assert Finding("c", verdict, "e").because("w").reason == reason


# Numbers for people


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0, "0"), (0.0, "0"), (5870, "5,870"), (5870.4, "5,870"), (0.1234, "0.123"), (2.1e7, "2.1e+07")),
        *((99.94, "99.9"), (100, "100"), (1234567, "1,234,567"), (-5870, "-5,870"), (-0.5, "-0.5"), (1e-5, "1e-05")),
        *((9_999_999, "9,999,999"), (1e7, "1e+07"), (0.07, "0.07"), (5.2, "5.2"), (27.49, "27.5")),
    ],
)
def test_quantities(value: float, text: str) -> None:
    assert quantity(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.01, "0.01"), (1, "1"), (500, "500"), (999, "999"), (1000, "1k"), (2500, "2.5k"), (2e4, "20k")),
        *((1e5, "100k"), (1e6, "1M"), (2.5e6, "2.5M"), (1e9, "1000M"), (1e12, "1e+12")),
    ],
)
def test_short_numbers(value: float, text: str) -> None:
    assert short(value) == text


# Cells


def test_a_cell_s_statistics_are_numpy_s() -> None:
    rng = np.random.default_rng(0)
    curves = rng.uniform(size=(6, 9))
    regret, sent = rng.uniform(1, 9, 6), rng.integers(1, 99, 6)
    records = {
        seed: record(regret=regret[i], numbers=int(sent[i]), kept=bool(i % 3), curve=tuple(curves[i].tolist()))
        for i, seed in enumerate((4, 0, 7, 2, 9, 1))
    }
    made = Cell(records, ())
    np.testing.assert_array_equal(made["regret"], regret)
    assert made.mean() == pytest.approx(np.mean(regret))
    assert made.std() == pytest.approx(np.std(regret))
    assert made.mean("numbers") == pytest.approx(np.mean(sent))
    assert made.std("numbers") == pytest.approx(np.std(sent))
    np.testing.assert_array_equal(made.curves, curves)
    assert made.kept == "4/6"


def test_cells_hold_the_runs_there_are() -> None:
    exhibit = choose(["ablation/sphere"], SMALL)[0]
    records = {trial: record(regret=trial.seed) for trial in exhibit.trials}
    lost = exhibit.series["DPBE-Fixed"][1]
    cells = cells_of(exhibit, {trial: found for trial, found in records.items() if trial != lost})
    assert cells is not None
    assert {name: list(cell.records) for name, cell in cells.items()} == {
        name: [0, 2] if name == "DPBE-Fixed" else [0, 1, 2] for name in exhibit.series
    }
    assert cells["DPBE-Fixed"].mean() == 1.0
    assert cells_of(exhibit, {t: f for t, f in records.items() if t.policy != "dpbe-fixed"}) is None


# The catalogue covers the paper


@cache
def catalogue() -> list[Exhibit]:
    return all_exhibits(FULL)


def of_group(group: str) -> list[tuple[str, Exhibit]]:
    """The exhibits of a group with their studies."""
    return [(e.name.split("/")[1], e) for e in catalogue() if e.name.startswith(f"{group}/")]


ILLUSTRATIONS = {"fig:dynamic_pricing", "fig:schedule"}


def test_every_figure_and_table_of_the_paper_is_covered() -> None:
    wanted = {*PAPER["labels"]["figures"], *PAPER["labels"]["tables"]}
    assert len(wanted) >= 30
    assert wanted >= ILLUSTRATIONS | {"fig:tradeoff", "fig:dp_dpbe", "fig:light_dp_delta", "tab:wallclock_functions"}
    covered = {label for exhibit in catalogue() for label in exhibit.labels}
    assert wanted - covered == ILLUSTRATIONS


def test_every_label_of_an_exhibit_is_the_paper_s() -> None:
    assert [(e.name, label) for e in catalogue() for label in e.labels if label not in LABELS] == []


def test_names_and_titles_are_unique_and_fit_for_files() -> None:
    names = [exhibit.name for exhibit in catalogue()]
    assert len(names) == len({name.replace("/", "-") for name in names})
    assert len({exhibit.title for exhibit in catalogue()}) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z]+(/[a-z]+)?", name)] == []


@pytest.mark.parametrize("group", ["ablation", "peers", "privacy"])
def test_every_study_has_its_figures(group: str) -> None:
    assert [study for study, _ in of_group(group)] == list(STUDIES)


SUBFIGURES = {"sphere": "sphere", "camel": "six-hump", "michalewicz": "michalewicz", "light": "light"}


@pytest.mark.parametrize("study", SUBFIGURES)
def test_a_study_s_figures_carry_its_own_labels(study: str) -> None:
    """A panel of one function is not the panel of another."""
    for group in ("ablation", "peers", "privacy"):
        exhibit = dict(of_group(group))[study]
        named = [label for label in exhibit.labels if any(word in label for word in SUBFIGURES.values())]
        assert named
        assert [label for label in named if not label.startswith(f"fig:{SUBFIGURES[study]}")] == []


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
    """The settings of a study; what a caption says goes before what the text says."""
    return {**PAPER["text"][study], **PAPER["caption"].get(study, {})}


def bias(row: Mapping[str, float]) -> float:
    """v, which the paper gives as it is or squared."""
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


# Choosing


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (["tradeoff"], ["tradeoff"]),
        (["ablation/camel"], ["ablation/camel"]),
        (["peers"], [f"peers/{study}" for study in STUDIES]),
        (["fig:tradeoff"], ["tradeoff"]),
        (["tab:runtime"], ["ablation/synthetic"]),
        (["fig:light"], ["ablation/light"]),
        (["tab:wallclock_functions"], [f"peers/{study}" for study in STUDIES[1:]]),
        (["fig:dp_functions_epsilon"], [f"privacy/{study}" for study in STUDIES[1:]]),
        (["trust", "ablation/sphere"], ["trust", "ablation/sphere"]),
        (["ablation/sphere", "trust", "ablation/sphere", "fig:sphere"], ["ablation/sphere", "trust"]),
        (["ablation/camel", "ablation"], ["ablation/camel", *(f"ablation/{s}" for s in STUDIES if s != "camel")]),
        (["fig:dp_dpbe", "fig:regret_time"], ["privacy/synthetic"]),
        (["tab:complexity", "tab:bounds"], ["bounds"]),
    ],
)
def test_exhibits_are_chosen_by_name_group_and_label(wanted: list[str], names: list[str]) -> None:
    assert [exhibit.name for exhibit in choose(wanted, SMALL)] == names


def test_everything_is_chosen_when_nothing_is_named() -> None:
    assert [exhibit.name for exhibit in choose([], SMALL)] == [exhibit.name for exhibit in all_exhibits(SMALL)]
    assert [exhibit.name for exhibit in choose(iter(()), SMALL)] == [exhibit.name for exhibit in all_exhibits(SMALL)]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("tradeof", "tradeoff"),
        ("fig:tradeof", "fig:tradeoff"),
        ("ablaton", "ablation"),
        ("peers/spere", "peers/sphere"),
    ],
)
def test_an_unknown_name_is_refused_with_a_near_one(name: str, near: str) -> None:
    with pytest.raises(InputError) as call:
        choose(["trust", name], SMALL)
    assert f"{name!r}" in refusal(call)
    assert f"did you mean {near!r}?" in refusal(call)


@pytest.mark.parametrize("name", ["", "Ablation", "ablation/", "ablation/pricing", "fig:schedule", "../ablation"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InputError) as call:
        choose([name], SMALL)
    assert f"unknown figure {name!r}" in refusal(call)


def test_a_folder_of_readings_is_for_the_light_study_alone() -> None:
    named = all_exhibits(replace(SMALL, data="folder"))
    assert [exhibit.name for exhibit in named] == [exhibit.name for exhibit in all_exhibits(SMALL)]
    assert {t.data for e in named for t in e.trials if t.study == "light"} == {"folder"}
    assert {t.data for e in named for t in e.trials if t.study != "light"} == {None}
    assert {t.data for e in all_exhibits(SMALL) for t in e.trials} == {None}


@pytest.mark.parametrize("name", ["ablation/light", "peers/light", "fig:light", "fig:light_sec8", "fig:light_dp_delta"])
def test_a_light_figure_needs_no_folder(name: str) -> None:
    chosen = choose([name], SMALL)
    assert len(chosen) == 1
    assert {(trial.study, trial.data) for trial in chosen[0].trials} == {("light", None)}


def test_a_misspelt_light_figure_is_unknown_with_and_without_a_folder() -> None:
    for data in (None, "folder"):
        with pytest.raises(InputError, match="unknown figure 'abltion/light'"):
            choose(["abltion/light"], replace(SMALL, data=data))


# What the exhibits claim, in worlds made up so that the answer is known

World = Callable[[str, Trial], dict[str, Any]]


def flat(horizon: int) -> tuple[float, ...]:
    """All regret early."""
    return tuple(float(min(rounds / (0.1 * horizon), 1)) for rounds in grid(horizon))


def steady(horizon: int) -> tuple[float, ...]:
    """As much regret late as early."""
    return tuple(float(rounds / horizon) for rounds in grid(horizon))


def ablation_world(name: str, _: Trial) -> dict[str, Any]:
    regret = {"DPBE": 100.0, "DPBE-Fixed": 200.0, "DPBE-NoBatching": 90.0, "voxpop": 40.0}[name]
    sent = {"DPBE": 1000, "DPBE-Fixed": 1000, "DPBE-NoBatching": 9000, "voxpop": 500}[name]
    seconds = {"DPBE": 0.1, "DPBE-Fixed": 0.2, "DPBE-NoBatching": 0.9, "voxpop": 0.1}[name]
    return {"regret": regret, "numbers": sent, "seconds": seconds}


def tradeoff_world(_: str, trial: Trial) -> dict[str, Any]:
    alpha = float(trial.alpha or 0)
    return {"regret": 100 / alpha, "numbers": round(10_000 * alpha)}


def privacy_world(_: str, trial: Trial) -> dict[str, Any]:
    regret = 1000 / (trial.epsilon or 1000)
    if trial.true_norm:
        regret = 100.0 if trial.epsilon is None else 150.0
    return {"regret": regret, "curve": flat(int(trial.horizon or 0))}


def peers_world(_: str, trial: Trial) -> dict[str, Any]:
    sent = {"dpbe-paper": 1000, "dpbe": 500}.get(trial.policy, 40_000)
    regret = {"dpbe-paper": 100.0, "dpbe": 60.0}.get(trial.policy, 80.0)
    return {"regret": regret, "numbers": sent, "seconds": 0.1 if trial.policy.startswith("dpbe") else 5.0}


def trust_world(_: str, trial: Trial) -> dict[str, Any]:
    return {"regret": {"none": 90.0, "central": 100.0, "shuffle": 100.0, "local": 500.0}[trial.privacy]}


def norms_world(_: str, trial: Trial) -> dict[str, Any]:
    return {"regret": 100.0 if trial.policy == "dpbe-paper" else 40.0, "numbers": 9 if trial.policy == "dpbe" else 99}


WORLDS: dict[str, World] = {
    "ablation": ablation_world,
    "peers": peers_world,
    "privacy": privacy_world,
    "tradeoff": tradeoff_world,
    "trust": trust_world,
    "norms": norms_world,
}
GOOD, BAD = {"reproduced", "reached"}, {"not reproduced", "not reached"}


def show(exhibit: Exhibit, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Shown:
    """The exhibit of a made-up world; every seed scales all its numbers, so that only pairs can tell."""
    world, cells = WORLDS[exhibit.name.split("/")[0]], {}
    for name, trials in exhibit.series.items():
        records: dict[int, Record] = {}
        for trial in trials:
            made = {**world(name, trial), **(changes or {}).get(name, {})}
            known = {"horizon": int(trial.horizon or 0), **made, "regret": made["regret"] * (1 + trial.seed)}
            records[trial.seed] = record(**known)
        cells[name] = Cell(records, trials)
    return exhibit.present(cells)


@cache
def small(name: str) -> Exhibit:
    return choose([name], SMALL)[0]


@cache
def shown_as_claimed(name: str) -> Shown:
    return show(small(name))


@pytest.mark.parametrize("name", [e.name for e in all_exhibits(SMALL) if e.name.split("/")[0] in WORLDS])
def test_claims_hold_in_a_world_where_they_are_true(name: str) -> None:
    shown = shown_as_claimed(name)
    assert [f"{f.claim}: {f.verdict}, {f.evidence}" for f in shown.findings if f.verdict not in GOOD] == []
    assert len({finding.claim for finding in shown.findings}) == len(shown.findings) >= 2
    assert not any(finding.reason for finding in shown.findings)
    for finding in shown.findings:
        assert finding.target == (finding.verdict == "reached") == ("voxpop" in finding.claim)


# A claim of the paper or a target of ours, its exhibit, and what makes it false: its verdict then changes.
TWISTS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "DPBE loses less than DPBE-Fixed": ("ablation/camel", {"DPBE-Fixed": {"regret": 95.0}}),
    "NoBatching loses a little less": ("ablation/camel", {"DPBE-NoBatching": {"regret": 105.0}}),
    "NoBatching sends more": ("ablation/camel", {"DPBE-NoBatching": {"numbers": 900}}),
    "NoBatching takes longer": ("ablation/camel", {"DPBE-NoBatching": {"seconds": 0.05}}),
    "our regret is half": ("ablation/camel", {"voxpop": {"regret": 60.0}}),
    "we send no more": ("ablation/camel", {"voxpop": {"numbers": 1200}}),
    "regret falls with alpha": ("tradeoff", {"DPBE, alpha = 0.9": {"regret": 5000.0}}),
    "regret falls with alpha all the way": ("tradeoff", {"DPBE, alpha = 0.5": {"regret": 90.0}}),
    "cost rises with alpha": ("tradeoff", {"DPBE, alpha = 0.9": {"numbers": 5}}),
    "regret falls with eps": ("privacy/camel", {"DP-DPBE, eps = 30": {"regret": 5000.0}}),
    "our privacy costs little at eps = 5": (
        "privacy/camel",
        {"voxpop, private, true norm, eps = 5": {"regret": 210.0}},
    ),
    "our privacy costs little at eps = 30": (
        "privacy/camel",
        {"voxpop, private, true norm, eps = 30": {"regret": 210.0}},
    ),
    "regret per round tends to 0": ("privacy/camel", {"DP-DPBE, eps = 15": {"curve": steady(600)}}),
    "mended, it falls with eps": ("privacy/camel", {"DP-DPBE, errata mended, eps = 10": {"regret": 5000.0}}),
    "mended, it tends to 0": ("privacy/camel", {"DP-DPBE, errata mended, eps = 15": {"curve": steady(600)}}),
    "DPBE is close to GP-UCB": ("peers/camel", {"GP-UCB": {"regret": 45.0}, "voxpop, alpha = 0.9": {"regret": 9.0}}),
    "DPBE is close to BPE": ("peers/camel", {"BPE": {"regret": 45.0}}),
    "at a fraction of GP-UCB's time": ("peers/camel", {"GP-UCB": {"seconds": 0.5}}),
    "at a fraction of BPE's time": ("peers/camel", {"BPE": {"seconds": 0.05}}),
    "at a fraction of GP-UCB's cost": ("peers/camel", {"GP-UCB": {"numbers": 700}}),
    "we beat GP-UCB": ("peers/camel", {"voxpop, alpha = 0.9": {"regret": 90.0}}),
    "we send less than GP-UCB": ("peers/camel", {"voxpop, alpha = 0.9": {"numbers": 41_000}}),
    "shuffle beats local": ("trust", {"shuffle, as printed": {"regret": 600.0}}),
    "central beats local": ("trust", {"central, as printed": {"regret": 600.0}}),
    "our shuffle beats local": ("trust", {"local, voxpop": {"regret": 99.0}}),
    "our shuffle costs little": ("trust", {"none, voxpop": {"regret": 70.0}}),
    "half with a valid norm": ("norms", {"camel, voxpop, true norm": {"regret": 60.0}}),
    "no more numbers with a valid norm": ("norms", {"camel, voxpop, true norm": {"numbers": 120}}),
}


@pytest.mark.parametrize("claim", TWISTS)
def test_a_claim_fails_in_a_world_where_it_is_false(claim: str) -> None:
    name, changes = TWISTS[claim]
    exhibit = small(name)
    assert changes.keys() <= exhibit.series.keys()
    failed = [finding for finding in show(exhibit, changes).findings if finding.verdict not in GOOD]
    assert len(failed) == 1
    assert failed[0].verdict in BAD
    assert failed[0].target == (failed[0].verdict == "not reached")


@pytest.mark.parametrize("name", [e.name for e in all_exhibits(SMALL) if e.name.split("/")[0] in WORLDS])
def test_tables_are_whole_and_labelled(name: str) -> None:
    exhibit, shown = small(name), shown_as_claimed(name)
    assert shown.tables
    assert {table.label for table in shown.tables} <= {*exhibit.labels, ""}
    for sheet in shown.tables:
        assert sheet.rows
        assert {len(row) for row in sheet.rows} == {len(sheet.headings)}
        assert all(isinstance(cell, str) for row in sheet.rows for cell in row)
        assert not any("nan" in cell for row in sheet.rows for cell in row)


def columns(shown: Shown, number: int = 0) -> dict[str, dict[str, str]]:
    """A table by the name of the row and the heading of the column."""
    sheet = shown.tables[number]
    return {row[0]: dict(zip(sheet.headings, row, strict=True)) for row in sheet.rows}


@pytest.mark.parametrize("study", STUDIES)
def test_the_paper_s_costs_stand_beside_ours(study: str) -> None:
    rows = columns(shown_as_claimed(f"ablation/{study}"))
    for policy, (sent, seconds) in printed.COST[study].items():
        assert rows[policy]["numbers sent, paper"] == f"{sent:,.0f}"
        assert float(rows[policy]["seconds, paper"]) == seconds
        assert rows[policy]["numbers sent"] == f"{ablation_world(policy, Trial(study))['numbers']:,}"
    assert (rows["voxpop"]["numbers sent"], rows["voxpop"]["numbers sent, paper"]) == ("500", "")
    assert rows["voxpop"]["regret at T"].startswith("80 ±")  # 40, 80, 120


@pytest.mark.parametrize("study", STUDIES)
def test_the_paper_s_seconds_stand_beside_ours(study: str) -> None:
    shown = shown_as_claimed(f"peers/{study}")
    row = columns(shown)["paper, DPBE"]
    alphas, ucb, bpe = printed.SECONDS[study]
    assert [float(row[f"alpha = {alpha}"]) for alpha in printed.ALPHAS] == list(alphas)
    assert (float(row["GP-UCB"]), float(row["BPE"])) == pytest.approx((ucb, bpe), rel=0.005)
    ours = columns(shown)["here, DPBE"]
    assert (ours["alpha = 0.4"], ours["GP-UCB"], ours["BPE"]) == ("0.1", "5", "5")


def test_the_tradeoff_s_numbers_stand_beside_ours() -> None:
    rows = columns(shown_as_claimed("tradeoff"))
    assert (rows["0.7"]["numbers, paper"], rows["0.7"]["numbers, DPBE"]) == ("5,870", "7,000")
    assert (rows["0.9"]["numbers, paper"], rows["0.9"]["numbers, DPBE"]) == ("11,900", "9,000")
    assert rows["0.3"]["numbers, paper"] == ""


def test_our_lemmas_hold_and_what_does_not_hold_has_a_reason() -> None:
    exhibit = small("bounds")
    cells = {name: Cell({t.seed: record(400) for t in trials}, trials) for name, trials in exhibit.series.items()}
    shown = exhibit.present(cells)
    ours = [finding for finding in shown.findings if "our form" in finding.claim]
    said = [finding for finding in shown.findings if "our form" not in finding.claim]
    assert len(ours) == len(said) == 4
    assert {finding.verdict for finding in ours} == {"reached"}
    assert {bool(finding.reason) for finding in said if finding.verdict == "not reproduced"} <= {True}
    assert [table.label for table in shown.tables] == ["tab:complexity", "tab:bounds"]
    assert {row[0] for row in shown.tables[0].rows} == {"GP-UCB", "BBKB", "mini-GP-Opt", "DPBE"}


def test_every_verdict_has_a_colour() -> None:
    assert COLOURS.keys() == GOOD | BAD | {"undecided"}
    assert len({COLOURS[verdict] for verdict in ("reproduced", "not reproduced", "undecided")}) == 3

"""Verdicts follow from the runs, seed by seed and beyond chance; numbers are shown as people read them."""

import re

import numpy as np
import pytest

from reproduction import choose
from reproduction.exhibits import Finding, Verdict, compare, sign, trend
from reproduction.output import cells_of
from tests.reproduction.helpers import SMALL, cell, summary
from voxpop.simulation.comparison import Cell, quantity
from voxpop.simulation.pictures import short

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


@pytest.mark.parametrize(
    ("factor", "said"), [(1.0, "(about the same)"), (1.01, "(about the same)"), (1.1, "(1.1 times)")]
)
def test_a_ratio_that_is_rounded_to_one_is_not_written(factor: float, said: str) -> None:
    more = {0: 10.0, 1: 20.0, 2: 30.0}
    found = compare("c", cell({seed: factor * value for seed, value in more.items()}), cell(more))
    assert said in found.evidence


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
def test_quantities_are_formatted_for_tables(value: float, text: str) -> None:
    assert quantity(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.01, "0.01"), (1, "1"), (500, "500"), (999, "999"), (1000, "1k"), (2500, "2.5k"), (2e4, "20k")),
        *((1e5, "100k"), (1e6, "1M"), (2.5e6, "2.5M"), (1e9, "1000M"), (1e12, "1e+12")),
    ],
)
def test_short_numbers_are_formatted_for_axes(value: float, text: str) -> None:
    assert short(value) == text


# Cells


def test_a_cell_s_statistics_are_numpy_s() -> None:
    rng = np.random.default_rng(0)
    curves = rng.uniform(size=(6, 9))
    regret, sent = rng.uniform(1, 9, 6), rng.integers(1, 99, 6)
    runs = {
        seed: summary(regret=regret[i], numbers=int(sent[i]), kept=bool(i % 3), curve=tuple(curves[i].tolist()))
        for i, seed in enumerate((4, 0, 7, 2, 9, 1))
    }
    made = Cell(runs, ())
    np.testing.assert_array_equal(made["regret"], regret)
    assert made.mean() == pytest.approx(np.mean(regret))
    assert made.std() == pytest.approx(np.std(regret))
    assert made.mean("numbers") == pytest.approx(np.mean(sent))
    assert made.std("numbers") == pytest.approx(np.std(sent))
    np.testing.assert_array_equal(made.curves, curves)
    assert made.kept == "4/6"


def test_cells_hold_the_runs_there_are() -> None:
    exhibit = choose(["ablation/sphere"], SMALL)[0]
    summaries = {trial: summary(regret=trial.seed) for trial in exhibit.trials}
    lost = exhibit.series["DPBE-Fixed"][1]
    cells = cells_of(exhibit, {trial: found for trial, found in summaries.items() if trial != lost})
    assert cells is not None
    assert {name: list(cell.runs) for name, cell in cells.items()} == {
        name: [0, 2] if name == "DPBE-Fixed" else [0, 1, 2] for name in exhibit.series
    }
    assert cells["DPBE-Fixed"].mean() == 1.0
    assert cells_of(exhibit, {t: f for t, f in summaries.items() if t.policy != "dpbe-fixed"}) is None

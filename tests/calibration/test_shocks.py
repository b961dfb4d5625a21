"""Shocks that everybody shares, from a history and from a pilot's rounds: right on average, and as sure as they say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import draw, refusal
from voxpop import Study, calibrate
from voxpop.calibration.pilot import Pilot
from voxpop.calibration.shocks import WINDOW, ShockEstimate, estimate_shocks, shocks_of_rounds
from voxpop.errors import Array, InputError
from voxpop.model.kernels import SquaredExponential
from voxpop.report.figures.history import history_figure
from voxpop.report.summary import shock_sentences
from voxpop.simulation.weather import Weather


def weather(seed: int, rounds: int, persist: float = 0.0) -> Array:
    return 5 + Weather(0.3, persist).rounds(seed, 0, rounds)


def found_in(persist: float, rounds: int, period: int | None = None) -> list[ShockEstimate]:
    return [estimate_shocks(weather(seed, rounds, persist), period) for seed in range(400)]


@pytest.mark.parametrize("persist", [0.0, 0.5, 0.8])
def test_the_variance_among_neighbours_is_right_and_its_freedom_is_what_it_says(persist: float) -> None:
    """Correlated rounds are alike within a window of ten; the estimate is smaller by that much, and less sure."""
    places, centre = np.arange(WINDOW), np.eye(WINDOW) - 1 / WINDOW
    expected = np.trace(centre @ persist ** np.abs(np.subtract.outer(places, places)) @ centre) / (WINDOW - 1)
    found = found_in(persist, 60)
    squares = np.array([each.shock_std**2 for each in found]) / 0.3**2
    assert squares.mean() == pytest.approx(expected, rel=0.06)
    assert np.mean([each.freedom for each in found]) == pytest.approx(2 * squares.mean() ** 2 / squares.var(), rel=0.3)
    assert np.mean([each.persist for each in found]) == pytest.approx(persist, abs=0.04)
    assert np.mean([each.long_std for each in found]) / 0.3 == pytest.approx(1, abs=0.15), "over all rounds"


def test_a_cycle_that_is_not_there_is_hardly_ever_found() -> None:
    for persist in (0.0, 0.8):
        found = found_in(persist, 60, 7)
        assert np.mean([each.weekly > 0 for each in found]) < 0.04
        assert np.mean([each.trend != 0 for each in found]) < 0.08


def test_a_weekly_cycle_and_a_trend_are_found_said_and_kept_apart() -> None:
    rounds = np.arange(84)
    days = np.array([0.0, 0.1, 0.2, 0.1, 0.0, -0.2, -0.2])
    noise = 0.1 * np.random.default_rng(1).standard_normal(84)
    found = estimate_shocks(3 + 0.01 * rounds + days[(rounds + 2) % 7] + noise, 7, 2)
    assert found.weekly == pytest.approx(days.var() / (days.var() + 0.01), abs=0.12)
    assert found.trend == pytest.approx(0.01, rel=0.2)
    assert np.abs(found.cycle - days[(rounds + 2) % 7]).max() < 0.1
    assert abs(found.persist) < 0.25, "the cycle is not taken for runs of good rounds"
    assert found.shock_std == pytest.approx(np.sqrt(days.var() + 0.01), rel=0.2), "a cycle is a shock among neighbours"
    said = " ".join(found.advice)
    assert "blocks of whole weeks" in said
    assert f"rises by {found.trend:.3g} a round; removed" in said
    assert "upper estimate" in said


def test_gaps_are_counted_and_do_not_join_what_is_apart() -> None:
    series = weather(0, 100, 0.8)
    gappy = series.copy()
    gappy[[3, 50, 51]] = np.nan
    found = estimate_shocks(gappy)
    assert found.rounds == 97
    assert "3 rounds of the history without a value" in " ".join(found.advice)
    assert found.shock_std == pytest.approx(estimate_shocks(series).shock_std, rel=0.05)
    every_other = np.full(200, np.nan)
    every_other[::2] = weather(0, 100, 0.8)
    assert estimate_shocks(every_other).persist < 0.1, "no two rounds follow each other"


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ([1.0, 2.0] * 6, "at least 14 rounds with a value, and one in 3, got 12 in 12"),
        ([1.0] * 20, "the history is 1 in its first round and never varies"),
        (list(range(1, 20)), "never varies"),
        ([1.0, 2.0, *[np.nan] * 6] * 9, "got 18 in 72"),
        (["a"] * 20, "give one such column"),
        ([[1.0, 2.0]] * 20, "give one such column"),
        ([1.0, np.inf] * 20, "finite numbers"),
    ],
)
def test_what_is_no_history_is_refused(history: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        estimate_shocks(history)
    assert said in refusal(caught)


POINTS = np.linspace(0, 1, 8)[:, None]
KERNEL = SquaredExponential(0.3)


def rows(seed: int, shock: float, rounds: int = 12, repeat: bool = True) -> list[dict[str, Any]]:
    """A pilot in which every row belongs to a day; without `repeat` each decision has one day of its own."""
    rng = np.random.default_rng(seed)
    own, shocks = 0.5 * draw(KERNEL(POINTS, POINTS), rng, 40), shock * rng.standard_normal(rounds)
    found = []
    for person in range(40):
        for action, price in enumerate(POINTS[:, 0].tolist()):
            day = int(rng.integers(rounds)) if repeat else action
            reward = np.sin(3 * price) + own[person, action] + shocks[day] + 0.3 * rng.standard_normal()
            found.append({"person": person, "price": price, "date": f"2024-05-{day + 1:02d}", "reward": reward})
    return found


def from_rounds(seed: int, shock: float, **named: Any) -> ShockEstimate | None:
    pilot = Pilot.from_table(rows(seed, shock, **named))
    return shocks_of_rounds(pilot, 0.25 * KERNEL(POINTS, POINTS), 0.3)


def test_a_pilot_over_many_days_shows_shocks_beyond_people_s_noise() -> None:
    found = [from_rounds(seed, 0.3) for seed in range(60)]
    squares = np.array([each.shock_std**2 for each in found if each])
    assert len(squares) == 60
    assert squares.mean() == pytest.approx(0.09, rel=0.12)
    freedom = np.mean([each.freedom for each in found if each])
    assert freedom == pytest.approx(2 * squares.mean() ** 2 / squares.var(), rel=0.4)
    assert freedom < 11


def test_days_without_shocks_and_days_of_one_decision_show_nothing() -> None:
    assert sum(from_rounds(seed, 0.0) is None for seed in range(20)) >= 14
    assert from_rounds(0, 0.3, repeat=False) is None


def test_a_calibration_carries_shocks_into_the_problem() -> None:
    told = rows(0, 0.3)
    found = calibrate(told, kernel="squared-exponential")
    assert list(found.length_scales) == ["price"], "a date is no parameter"
    assert found.shocks is not None
    problem = found.problem(found.pilot, 100)
    assert (problem.shock_std, problem.shock_freedom) == (found.shocks.shock_std, found.shocks.freedom)
    history = weather(0, 60) - 4
    assert calibrate(told, kernel="squared-exponential", history=history).shocks is not None
    study = Study.from_pilot(told, horizon=500, points=11, kernel="squared-exponential", history=history)
    assert study.problem.shock_std == pytest.approx(estimate_shocks(history).shock_std)


def test_without_a_history_the_assumption_is_said_as_the_problem_makes_it() -> None:
    undated = [{name: cell for name, cell in row.items() if name != "date"} for row in rows(0, 0.0)]
    found = calibrate(undated, kernel="squared-exponential")
    assert found.shocks is None
    (said,) = shock_sentences(found)
    assumed = found.problem(found.require_space().grid(51), 100).shock_std
    assert assumed == pytest.approx(0.01 * found.bias_std.value, rel=0.01)
    assert f"({assumed:.3g}) until the first wave shows them" in said


def test_a_history_of_another_unit_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        calibrate(rows(0, 0.0), kernel="squared-exponential", history=1000 * weather(0, 60))
    assert "another unit" in refusal(caught)


def test_rounds_that_are_worth_it_balance_shocks_and_people() -> None:
    found = ShockEstimate(0.2, 50.0)
    rounds = found.rounds_worth(0.5, 0.3, people=400)
    assert found.shock_std**2 / rounds == pytest.approx((0.25 + 0.09 / rounds) / 400, rel=0.02)
    assert replace(found, shock_std=0.001).rounds_worth(0.5, 0.3) == 1


def test_the_picture_shows_series_cycle_and_autocorrelation() -> None:
    series = np.append(3 + np.tile([0.0, 0.1, 0.2, 0.1, 0.0, -0.2, -0.2], 8), np.nan)
    above, below = history_figure(estimate_shocks(series + 0.01 * np.arange(57) % 0.02, 7)).axes
    assert above.get_legend_handles_labels()[1] == ["one shock around ten rounds' mean", "history", "weekly cycle"]
    heights = [bar.get_bbox().height for bar in below.containers[0]]
    assert round(heights[6], 1) >= 0.8, "rounds a week apart are alike"

"""The pictures of a run: what they show, and that they fit a few waves as well as many phases."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from tests.report.test_summary import warned
from voxpop.lab.runs import Run
from voxpop.lab.trials import Trial
from voxpop.report.figures import DRAWINGS, figure, overview
from voxpop.report.page import render


def axes(run: Run, name: str) -> Axes:
    return figure(run.course, name, run.scenario.f).axes[0]


def legend(ax: Axes) -> set[str]:
    found = ax.get_legend()
    assert found is not None
    return {text.get_text() for text in found.get_texts()}


def test_each_wave_has_a_bar_for_its_gain_and_one_for_its_cost(waves: Run) -> None:
    bars: list[Any] = list(axes(waves, "cost").patches)
    forecasts = [plan.forecast for plan in waves.plans if plan.forecast is not None]
    assert len(bars) == 2 * len(forecasts) > 0
    expected = [forecast.gain for forecast in forecasts] + [f.answers + f.exploring for f in forecasts]
    assert [bar.get_height() for bar in bars] == pytest.approx(expected)


def test_forecasts_far_apart_are_drawn_on_a_logarithmic_axis(waves: Run) -> None:
    def scale(gain: float) -> str:
        changed = []
        for phase in waves.phases:
            assert phase.plan.forecast is not None
            forecast = replace(phase.plan.forecast, gain=gain, answers=1.0, exploring=0.0)
            changed.append(replace(phase, plan=replace(phase.plan, forecast=forecast)))
        return axes(replace(waves, phases=tuple(changed)), "cost").get_yscale()

    assert (scale(20.0), scale(2000.0), scale(0.0)) == ("linear", "log", "linear")


def test_the_estimate_shows_the_certified_band_the_pooled_mean_and_all_answers(waves: Run) -> None:
    ax = axes(waves, "estimate")
    assert legend(ax) >= {"certified (90 % confidence)", "likely (2 std)", "all answers pooled", "truth", "chosen"}
    assert legend(ax) >= {"answers, pilot", "answers, waves"}
    drawn = {str(line.get_label()): line for line in ax.get_lines()}
    np.testing.assert_allclose(np.asarray(drawn["all answers pooled"].get_ydata()), waves.state.centre)
    pilot = waves.scenario.problem.pilot[0]
    np.testing.assert_allclose(np.asarray(drawn["answers, pilot"].get_ydata()), pilot.mean)
    prices = 2 + 10 * pilot.points[:, 0]
    np.testing.assert_allclose(np.asarray(drawn["answers, pilot"].get_xdata()), prices, atol=10 / 24 / 2 + 1e-9)


def test_actions_without_an_order_have_a_bar_each() -> None:
    ax = axes(Trial("sphere", size=12, horizon=300).run(), "estimate")
    bars: Any = ax.collections[0]
    assert len(bars.get_segments()) == 12


def test_the_pilot_is_drawn_as_wave_0(waves: Run) -> None:
    ax = axes(waves, "active")
    assert "tried in the pilot" in legend(ax)
    assert ax.get_xlim()[0] == pytest.approx(-0.6)
    assert ax.get_xlabel() == "wave"
    assert [text.get_text() for text in ax.get_xticklabels()] == [*map(str, range(len(waves.phases) + 1)), "end"]
    left = next(line for line in ax.get_lines() if set(np.asarray(line.get_xdata())) == {len(waves.phases) + 1})
    assert len(np.asarray(left.get_ydata())) == len(waves.state.active)


def test_phases_of_dpbe_are_drawn_as_before(phases: Run) -> None:
    assert axes(phases, "active").get_xlabel() == "phase"
    assert axes(phases, "cost").get_title(loc="left") == "Numbers sent"
    assert "estimate, if still active" in legend(axes(phases, "estimate"))


def test_a_study_that_asks_nobody_can_be_drawn() -> None:
    run = Trial("pricing", size=25, horizon=1000, answer_cost=1e9).run()
    assert run.phases == ()
    assert len(overview(run.course, run.scenario.f).axes) == len(DRAWINGS)
    assert "asking people does not pay" in render(run.course, run.scenario.f)


def test_the_page_shows_the_forecasts_both_figures_and_the_warning(waves: Run) -> None:
    page = render(warned(waves, "the answers vary too much; calibrate again").course)
    said = ["Expected loss", "Certified", "expected gain", "cost of answers", "Wave by wave", "Stopped because"]
    said += ["<strong>Model check:</strong> the answers vary too much; calibrate again"]
    assert [part for part in said if part not in page] == []
    assert "Model check" not in render(warned(waves, "").course)

"""Weather in the simulator: as correlated and as weekly as it says, and the same for everybody who asks."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.model.waves import Plan
from voxpop.simulation.runs import simulate
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.trials import Trial
from voxpop.simulation.weather import AT_ONCE, Weather


@pytest.mark.parametrize("persist", [0.0, 0.5, 0.9])
def test_shocks_are_as_large_and_as_correlated_as_they_say(persist: float) -> None:
    found = Weather(0.2, persist).rounds(1, 0, 40_000)
    assert found.std() == pytest.approx(0.2, rel=0.06)
    assert np.corrcoef(found[1:], found[:-1])[0, 1] == pytest.approx(persist, abs=0.02)


def test_half_of_weekly_weather_comes_back_after_a_week() -> None:
    found = Weather(0.2, weekly=True).rounds(3, 0, 7 * 4000).reshape(-1, 7)
    assert found.mean(axis=0).var() == pytest.approx(0.02, rel=0.02)
    assert (found - found.mean(axis=0)).var() == pytest.approx(0.02, rel=0.02)
    pilot = Weather(0.2, weekly=True).rounds(3, 0, 7 * 4000, run=1).reshape(-1, 7)
    assert pilot.mean(axis=0) == pytest.approx(found.mean(axis=0), abs=0.01), "a pilot has the same weekdays"
    later = Weather(0.2, weekly=True).rounds(3, 7 * 4000 - 3, 7)
    assert (later[:3] == found.ravel()[-3:]).all()


def test_rounds_have_the_same_shocks_in_whatever_order_they_are_asked_for() -> None:
    weather = Weather(0.1, 0.6, weekly=True)
    whole = weather.rounds(5, 0, AT_ONCE + 50)
    for first, count in ((AT_ONCE - 2, 5), (0, 3), (10, 1), (AT_ONCE, 50)):
        assert weather.rounds(5, first, count) == pytest.approx(whole[first : first + count], abs=1e-12)
    assert not np.allclose(weather.rounds(6, 0, 9), whole[:9])
    assert not np.allclose(weather.rounds(5, 0, 9, run=1), whole[:9])


def test_an_arm_has_the_average_of_the_rounds_in_which_it_is_in_force() -> None:
    plan = Plan(1, np.array([4, 7]), np.array([6, 6]), 20).shuffled(np.random.default_rng(0))
    weather = Weather(0.1)
    happened = weather.rounds(0, 30, 12)
    expected = [happened[plan.sequence == arm].mean() for arm in (4, 7)]
    assert weather.of(plan, 30, 0)[0] == pytest.approx(expected)


def test_policies_of_one_seed_live_in_one_weather_and_the_pilot_is_hit_as_well() -> None:
    calm, stormy = (make_scenario("pricing", Options(seed=2, shocks=size)) for size in (0.0, 0.3))
    assert calm.weather is None
    assert stormy.weather is not None
    assert stormy.weather.shocks == pytest.approx(0.3 * np.ptp(stormy.f))
    moved = stormy.problem.pilot[0].mean - calm.problem.pilot[0].mean
    assert moved.std() == pytest.approx(stormy.weather.shocks / np.sqrt(20), rel=0.6), "20 rounds of each decision"
    runs = [simulate(stormy, policy, seed=2) for policy in ("gp-ucb", "equal-split", "gp-ucb")]
    assert runs[0].as_dict()["weather"] == {"shocks": stormy.weather.shocks, "persist": 0.0, "weekly": False}
    first, again = (run.closed[0].feedback.mean.tolist() for run in (runs[0], runs[2]))
    assert first == again
    (wave, *_), (other, *_) = (run.closed for run in (runs[0], simulate(replace(stormy, weather=None), "gp-ucb", 2)))
    assert wave.plan.arms.tolist() == other.plan.arms.tolist()
    shock = stormy.weather.rounds(2, 0, 1)[0]
    assert wave.feedback.mean[0] - other.feedback.mean[0] == pytest.approx(shock, abs=1e-9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shocks": -0.1}, "shocks must be a number at least 0, got -0.1"),
        ({"shocks": 0.1, "shocks_persist": 1.0}, "shocks_persist must be a number at least 0 and below 1, got 1.0"),
        ({"weekly": True}, "weekly is about shocks, and there are none; add --shocks 0.1"),
        ({"shocks_persist": 0.5}, "shocks_persist 0.5 is about shocks, and there are none"),
    ],
)
def test_weather_that_cannot_be_is_refused(given: dict[str, float], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Trial("sphere", size=12, horizon=100, **given).scenario()  # type: ignore[arg-type]
    assert said in refusal(caught)

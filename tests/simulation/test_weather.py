"""Weather in the simulator: as correlated and as weekly as it says, and the same for everybody who asks."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.model.waves import Plan
from voxpop.report.stakes import measure, played, regret_curve
from voxpop.simulation.runs import simulate
from voxpop.simulation.scenarios import Options, least_norm, make_scenario
from voxpop.simulation.trials import Trial
from voxpop.simulation.weather import AT_ONCE, Weather

NONE = {"carry_over": 0.0, "drift_rate": 0.0}


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
    assert weather.of(plan, 30, 0, np.zeros(8))[0] == pytest.approx(expected)


def test_a_decision_is_felt_in_the_first_round_of_the_next() -> None:
    plan = Plan(1, np.array([0, 2]), np.array([2, 2]), 20, reference=1)
    f = np.array([1.0, 2.0, 5.0])
    happened = Weather(carry_over=0.5).of(plan, 0, 0, f)
    assert happened.tolist() == [[0.5 * (2 - 1) / 2, 0.5 * (1 - 5) / 2]], "in one of two rounds each"
    washed = replace(plan, washout=1)
    assert Weather(carry_over=0.5).of(washed, 0, 0, f).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("privacy", ["none", "central"])
def test_carry_over_biases_a_study_and_a_washout_removes_all_of_it(privacy: str) -> None:
    """What is left of one decision in the first round of the next pulls all averages together."""
    epsilon = None if privacy == "none" else 5.0
    trial = Trial("sphere", size=12, horizon=4000, carry_over=0.5, privacy=privacy, epsilon=epsilon)
    biased, washed = trial.run(), replace(trial, settings={"washout": 1}).run()
    calm = replace(trial, carry_over=0.0, settings={"washout": 1}).run()
    (wave, *_), f = biased.closed, biased.scenario.f
    slope = np.polyfit(f[wave.plan.arms], wave.feedback.mean, 1)[0]
    assert slope < 0.8
    assert [one.feedback.mean.tolist() for one in washed.closed] == [one.feedback.mean.tolist() for one in calm.closed]
    assert all(one.plan.washout == 1 for one in washed.closed)
    assert washed.metrics.regret == calm.metrics.regret


def test_the_rounds_of_a_washout_are_planned_and_paid_for() -> None:
    """A turn of 2 rounds that do not count and 2 that do; what is expected to be lost is that of all of them."""
    run = Trial("pricing", size=25, horizon=4000, shocks=0.1, settings={"washout": 2}).run()
    for wave in run.closed:
        plan = wave.plan
        assert (plan.each, plan.asked) == (2, 2 * int(plan.pulls.sum()))
        assert plan.length == len(plan.sequence) == len(plan.counting)
        turns = plan.sequence.reshape(-1, 4)
        assert (turns == turns[:, :1]).all()
        assert (plan.counting.reshape(-1, 4)[:, :2] == 0).all()
        assert (plan.counting.reshape(-1, 4)[:, 2:] > 0).all()
        for block in plan.numbered:
            counted = plan.sequence[plan.counting == block].tolist()
            assert [counted.count(arm) for arm in plan.arms] == plan.lived.tolist()
    assert run.state.rounds == sum(wave.plan.length for wave in run.closed)
    arms, pulls = played(run.plans, run.best, 4000)
    assert run.metrics.regret == pytest.approx(float((run.scenario.f.max() - run.scenario.f[arms]) @ pulls))


def test_a_moving_truth_keeps_its_rate_in_the_rkhs_and_is_what_people_live_through() -> None:
    calm, moving = (Trial("pricing", size=25, horizon=3000, drift_rate=rate) for rate in (0.0, 1e-4))
    scenario = moving.scenario()
    assert scenario.weather is not None
    rate, problem = scenario.weather.drift_rate, scenario.problem
    assert rate == pytest.approx(1e-4 * np.ptp(scenario.f))
    moves = scenario.weather.moves(problem, 0)
    assert moves is not None
    norm = least_norm(replace(problem, prior_mean=0.0, pilot=()), moves)
    assert norm == pytest.approx(rate / np.sqrt(problem.largest_variance), rel=1e-3)
    assert 0 < np.abs(moves).max() <= rate * (1 + 1e-9)
    plan = Plan(1, np.array([3, 9]), np.array([2, 2]), 5)
    happened = scenario.weather.of(plan, 10, 0, scenario.f, moves)
    assert happened[0] == pytest.approx([10.5 * moves[3], 12.5 * moves[9]])
    run, still = moving.run(), calm.run()
    assert (run.truth, still.moves) == (None, None)
    assert run.now == pytest.approx(run.scenario.f + run.state.rounds * moves)
    assert run.closed[0].plan.arms.tolist() == still.closed[0].plan.arms.tolist()


def test_regret_in_a_moving_world_is_against_what_was_best_in_each_round() -> None:
    f, moves = np.array([0.0, 1.0]), np.array([0.5, -0.25])
    plan = Plan(1, np.array([0, 1]), np.array([1, 2]), 5)
    lost = [max(f + t * moves) - (f + t * moves)[arm] for t, arm in enumerate([0, 1, 1, 0, 0])]
    assert measure([plan], 0, 5, f, moves).regret == pytest.approx(sum(lost))
    rounds, regret = regret_curve([plan], 0, 5, f, moves)
    assert rounds.tolist() == [0, 1, 3, 5]
    assert regret == pytest.approx([0, *np.cumsum(lost)[[0, 2, 4]]])


def test_policies_of_one_seed_live_in_one_weather_and_the_pilot_is_hit_as_well() -> None:
    calm, stormy = (make_scenario("pricing", Options(seed=2, shocks=size)) for size in (0.0, 0.3))
    assert calm.weather is None
    assert stormy.weather is not None
    assert stormy.weather.shocks == pytest.approx(0.3 * np.ptp(stormy.f))
    moved = stormy.problem.pilot[0].mean - calm.problem.pilot[0].mean
    assert moved.std() == pytest.approx(stormy.weather.shocks / np.sqrt(20), rel=0.6), "20 rounds of each decision"
    runs = [simulate(stormy, policy, seed=2) for policy in ("gp-ucb", "equal-split", "gp-ucb")]
    assert runs[0].as_dict()["weather"] == {"shocks": stormy.weather.shocks, "persist": 0.0, "weekly": False} | NONE
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
        ({"carry_over": 1.5}, "carry_over must be a number at least 0 and at most 1, got 1.5"),
        ({"drift_rate": -0.1}, "drift_rate must be a number at least 0, got -0.1"),
        ({"weekly": True}, "weekly is about shocks, and there are none; add --shocks 0.1"),
        ({"shocks_persist": 0.5}, "shocks_persist 0.5 is about shocks, and there are none"),
    ],
)
def test_weather_that_cannot_be_is_refused(given: dict[str, float], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Trial("sphere", size=12, horizon=100, **given).scenario()  # type: ignore[arg-type]
    assert said in refusal(caught)

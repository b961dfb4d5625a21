"""Waves in whole cycles: every decision is played as often on each day of the week, so that days cancel out."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import random_problem
from tests.helpers_waves import everyone, played, truth
from voxpop import Problem, SquaredExponential, Study
from voxpop.calibration import calibrate
from voxpop.calibration.shocks import estimate_shocks
from voxpop.errors import Array, InputError
from voxpop.io.studyfile import read_study, write_study
from voxpop.model.calendar import Calendar
from voxpop.model.decisions import Float, Space
from voxpop.model.waves import Plan, changed
from voxpop.policies.waves.policy import Waves
from voxpop.simulation.trials import Trial


class Given:
    """A generator that draws these orders."""

    def __init__(self, orders: list[list[int]]) -> None:
        self.orders = np.array(orders)

    def permuted(self, rows: Array, axis: int) -> Array:
        """Return the orders for so many rows."""
        assert rows.shape == self.orders.shape
        assert axis == 1
        return self.orders


def plan_of(arms: int, cycle: int, together: int = 2, washout: int = 0, blocks: int = 2) -> Plan:
    pulls = np.full(arms, together * cycle * max(1, washout))
    plan = Plan(1, np.arange(arms), pulls, 100, blocks=blocks, cycle=cycle, washout=washout)
    return plan.shuffled(np.random.default_rng(arms + cycle))


def on_days(plan: Plan, block: int) -> Array:
    """Count how often each arm is played on each day of the cycle in a block, (arms, days)."""
    counts, at = np.zeros((len(plan.arms), plan.cycle), dtype=int), np.flatnonzero(plan.counting == block)
    np.add.at(counts, (plan.sequence[at], (at + 3) % plan.cycle), 1)
    return counts


@pytest.mark.parametrize("washout", [0, 1, 2])
@pytest.mark.parametrize("cycle", [2, 6, 7])
@pytest.mark.parametrize("arms", [2, 3, 6, 7, 14])
def test_every_arm_is_played_on_the_same_days_in_every_block(arms: int, cycle: int, washout: int) -> None:
    plan = plan_of(arms, cycle, washout=washout)
    for block in (1, 2):
        counts = on_days(plan, block)
        assert (counts == counts[0]).all()
        assert counts[0].sum() == cycle * max(1, washout)
        if not washout:
            assert (counts == 1).all()


@pytest.mark.parametrize(("arms", "cycle"), [(3, 2), (4, 2), (3, 3), (4, 7)])
def test_the_variance_is_that_within_the_turns_that_belong_together(arms: int, cycle: int) -> None:
    """Over all orders, for any shocks; what a day does by itself is not in it."""
    rng, days = np.random.default_rng(arms), np.random.default_rng(9).normal(0, 100, cycle)
    plan = Plan(1, np.arange(arms), np.full(arms, cycle), 100, cycle=cycle)
    happened = rng.normal(size=arms * cycle)
    weights = np.append(np.full(arms - 1, 1.0), 1.0 - arms)
    found: list[tuple[float, float]] = []
    for order in permutations(range(arms)):
        one = plan.shuffled(Given([list(order)]))  # type: ignore[arg-type]
        averages = [
            np.array([values[one.sequence == arm].mean() for arm in range(arms)])
            for values in (happened, happened + days[np.arange(arms * cycle) % cycle])
        ]
        assert averages[0] - averages[0].mean() == pytest.approx(averages[1] - averages[1].mean())
        found.append((float(weights @ averages[0]), float(np.var(averages[0], ddof=1))))
    moved, within = np.array(found).T
    assert moved.mean() == pytest.approx(0, abs=1e-12)
    assert np.ptp(within) < 1e-12  # S / W: the same averages, with other names
    assert np.square(moved).mean() == pytest.approx(within[0] * weights @ weights)


def test_a_day_that_was_lost_is_left_out_for_all() -> None:
    plan = plan_of(3, 7)
    lost = plan.sequence.copy()
    lost[[4, 9]] = -1
    late = plan.as_played(lost)
    first, second = (on_days(changed(late, cycle=7), block) for block in (1, 2))
    assert (first == first[0]).all()
    assert sorted(first[0].tolist()) == [0, 0, 1, 1, 1, 1, 1]
    assert (second == 1).all()
    assert late.counts is not None
    assert late.counts.tolist() == [[5] * 3, [7] * 3]


def test_a_decision_that_took_the_place_of_another_is_asked_about() -> None:
    plan = plan_of(3, 7)
    late = plan.as_played(np.where(plan.sequence == 1, 5, plan.sequence))
    assert late.arms.tolist() == [0, 2, 5]
    assert late.counts is None
    assert late.pulls.tolist() == [14] * 3


@pytest.mark.parametrize("settings", [{}, {"washout": 1}, {"tolerance": 0.05}])
def test_waves_are_planned_in_whole_cycles(settings: dict[str, float]) -> None:
    problem = random_problem(3, n=12, horizon=20_000)
    study = played(Waves(cycle=5, **settings), problem, everyone(problem, truth(problem, 3), 3))  # type: ignore[arg-type]
    assert study.plans
    for plan in study.plans:
        assert (plan.turns % (5 * plan.blocks) == 0).all()
        assert plan.cycle == 5
    assert any(plan.blocks > 1 for plan in study.plans) or "tolerance" in settings


def test_a_study_without_one_is_as_before() -> None:
    assert "cycle" not in Waves().settings()
    assert Waves(cycle=7).settings()["cycle"] == 7
    problem = random_problem(3, horizon=2000)
    study = played(Waves(), problem, everyone(problem, truth(problem, 3), 3))
    assert not any(plan.cycle for plan in study.plans)


def test_a_short_horizon_has_no_room_for_a_cycle() -> None:
    problem = random_problem(3, horizon=7)
    policy = Waves(cycle=7)
    assert str(policy.plan(problem, policy.init(problem))).startswith("End(reason='a wave takes 7 rounds or more")


def weekly(days: int = 140) -> Array:
    rng = np.random.default_rng(0)
    return 1 + np.array([0.1, 0, 0, 0, 0, 0.3, -0.4])[np.arange(days) % 7] + 0.05 * rng.standard_normal(days)


def rows() -> list[dict[str, float]]:
    rng = np.random.default_rng(1)
    tried = [
        (who, taste, price) for who, taste in enumerate(rng.normal(0.4, 0.1, 30)) for price in (0.0, 0.3, 0.6, 1.0)
    ]
    return [{"person": who, "price": p, "reward": 1 - (p - t) ** 2 + 0.05 * rng.normal()} for who, t, p in tried]


def test_what_is_beyond_the_cycle_is_told_from_it() -> None:
    found = estimate_shocks(weekly(), 7)
    assert found.period == 7
    assert found.balanced.shock_std == pytest.approx(0.05, rel=0.15)
    assert found.shock_std > 4 * found.balanced.shock_std
    assert 0.8 * found.freedom < found.balanced.freedom < found.freedom
    open_days = np.where(np.arange(140) % 7 < 5, weekly(), np.nan)
    assert estimate_shocks(open_days + 0.2 * (np.arange(140) % 7 == 2), 7).period == 5
    flat = estimate_shocks(np.random.default_rng(0).normal(size=140), 7)
    assert flat.balanced is flat


def test_a_history_with_a_cycle_plays_whole_weeks_unless_the_study_is_short(tmp_path: Path) -> None:
    found = calibrate(rows(), Space(price=Float(0, 1)), history=estimate_shocks(weekly(), 7))
    for horizon, whole in ((20_000, True), (300, False)):
        path = tmp_path / f"{horizon}.toml"
        path.write_text(write_study(found, found.require_space(), horizon, 11, "tea", {"name": "waves"}))
        assert ("cycle = 7 # without it, shock_std is 0.2" in path.read_text(encoding="utf-8")) is whole
        told, given, _ = read_study(path)
        study = Study.from_calibration(found, horizon, 11, tmp_path / f"{horizon}.study")
        for policy, problem in ((given, told), (study.policy, study.problem)):
            assert policy.settings().get("cycle") == (7 if whole else None)
            assert problem.shock_std == pytest.approx(0.05 if whole else found.shocks.shock_std, rel=0.15)  # type: ignore[union-attr]


def test_a_study_in_weeks_goes_on_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    told: dict[str, Any] = {
        "horizon": 20_000,
        "history": estimate_shocks(weekly(), 7),
        "path": tmp_path / "a.study",
        "resume": True,
    }
    first = Study.from_pilot(rows(), **told).ask()
    assert first is not None
    assert all(rounds % 7 == 0 for rounds in first.rounds)
    assert Study.from_pilot(rows(), **told).ask() == first


def test_a_study_refuses_a_cycle_that_is_no_week_of_its_calendar() -> None:
    problem = Problem(np.linspace(0, 1, 5), SquaredExponential(0.3), 0.1, 0.3, 1.0, 500)
    with pytest.raises(InputError, match="give cycle = 6"):
        Study(problem, cycle=7, calendar=Calendar("day", "2026-03-02", "UTC", ["sunday"]))


def test_days_of_the_week_no_longer_blur_what_is_certified() -> None:
    trials = [
        Trial("light", seed=seed, shocks=0.3, weekly=True, shocks_persist=0.5, settings=settings)
        for seed in (100, 101, 102)
        for settings in ({}, {"cycle": 7})
    ]
    runs = [trial.run() for trial in trials]
    assert all(run.certificate_true for run in runs)
    plain, whole = (np.mean([run.state.problem.shocks.variance for run in runs[at::2]]) for at in (0, 1))  # type: ignore[attr-defined]
    assert whole < 0.8 * plain

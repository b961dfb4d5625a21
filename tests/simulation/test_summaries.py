"""The summary of a run: its numbers are right."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import RUNNABLE
from tests.reproduction.helpers import exact_regret
from voxpop.simulation.comparison import grid, perform, summarise
from voxpop.simulation.runs import Run
from voxpop.simulation.trials import Trial

# The rounds at which curves are kept


@pytest.mark.parametrize("horizon", [1, 2, 7, 100, 161, 4_000, 40_000, 1_000_000])
def test_the_grid_is_whole_rounds_from_none_to_all(horizon: int) -> None:
    rounds = grid(horizon)
    assert (rounds[0], rounds[-1]) == (0, horizon)
    assert (np.diff(rounds) >= 1).all()
    assert (rounds == rounds.astype(int)).all()
    assert len(rounds) <= min(horizon + 1, 161 + 81)


@pytest.mark.parametrize("horizon", [4_000, 40_000, 1_000_000])
def test_the_grid_is_fine_on_both_axes(horizon: int) -> None:
    rounds = grid(horizon)
    gaps = np.diff(rounds)
    assert gaps.max() <= horizon / 160 + 1
    assert (gaps <= 1 + 0.2 * rounds[:-1]).all()


# A run in numbers


def every_round(run: Run) -> list[int]:
    """List the action of every round, the slow way."""
    arms: list[int] = []
    for plan in run.plans:
        arms += [int(plan.sequence[place]) for place in range(plan.asked)]
        arms += [plan.reference] * plan.rest
    return arms + [run.best] * (run.scenario.problem.horizon - len(arms))


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """A run of every policy."""
    return {policy: Trial("camel", policy, seed=3, size=25, horizon=700).run() for policy in RUNNABLE}


@pytest.mark.parametrize("policy", RUNNABLE)
def test_the_curve_is_the_regret_at_every_round_of_the_grid(runs: dict[str, Run], policy: str) -> None:
    run = runs[policy]
    lost = exact_regret(every_round(run), run.scenario.f)
    kept = summarise(run)
    assert len(lost) == 701
    assert lost[-1] > 0
    np.testing.assert_allclose(kept.curve, lost[grid(700).astype(int)], rtol=1e-5, atol=1e-9)
    assert kept.regret == pytest.approx(lost[-1], rel=1e-12)


@pytest.mark.parametrize("policy", ["dpbe", "dpbe-paper", "dpbe-fixed"])
def test_people_who_average_send_a_number_for_each_action(runs: dict[str, Run], policy: str) -> None:
    run = runs[policy]
    kept = summarise(run)
    assert kept.numbers == sum(plan.people * len(set(plan.arms.tolist())) for plan in run.plans)
    assert kept.merged == kept.numbers
    assert kept.people == sum(plan.people for plan in run.plans)


def test_waves_are_waves(runs: dict[str, Run]) -> None:
    assert {name: summarise(run).waves for name, run in runs.items()} == {n: len(r.closed) for n, r in runs.items()}
    assert summarise(runs["equal-split"]).waves == 1


def test_only_what_says_more_than_the_prior_is_a_certificate(runs: dict[str, Run]) -> None:
    """What follows from the norm bound alone is true without asking anybody."""
    for name in ("pilot-only", "equal-split", "halving", "thompson"):
        assert summarise(runs[name]).certificate is None
    sure = runs["dpbe"]
    assert summarise(sure).certificate is True
    bold = replace(sure, state=replace(sure.state, certified=-1.0))
    assert summarise(bold).certificate is False
    vague = replace(sure, state=replace(sure.state, certified=1e9))
    assert summarise(vague).certificate is None


def test_without_batching_every_round_is_sent(runs: dict[str, Run]) -> None:
    run = runs["dpbe-nobatching"]
    kept = summarise(run)
    assert kept.numbers == sum(plan.people * plan.pulls.sum() for plan in run.plans)
    assert kept.merged == sum(plan.people * len(set(plan.arms.tolist())) for plan in run.plans)
    assert kept.merged < kept.numbers


@pytest.mark.parametrize("policy", ["gp-ucb", "bpe", "bbkb", "mini-gp-opt"])
def test_one_person_a_round_sends_one_number_a_round(runs: dict[str, Run], policy: str) -> None:
    run = runs[policy]
    kept = summarise(run)
    rounds = sum(int(plan.pulls.sum()) for plan in run.plans)
    assert (kept.numbers, kept.merged, kept.people) == (rounds, rounds, rounds)
    if policy == "gp-ucb":
        assert rounds == 700


def test_the_rest_of_a_summary_is_the_run_s(runs: dict[str, Run]) -> None:
    for run in runs.values():
        kept, data = summarise(run), run.as_dict()
        assert (kept.kept, kept.seconds) == (data["optimum_kept"], data["seconds"])
        assert (kept.left, kept.norm_bound) == (len(run.state.active), data["norm_bound"]["final"])


def test_a_trial_is_performed_alike_every_time() -> None:
    trial = Trial("sphere", seed=2, size=20, horizon=300)
    first, second = perform(trial), perform(trial)
    assert {**vars(first), "seconds": 0} == {**vars(second), "seconds": 0}
    assert perform(Trial("sphere", seed=3, size=20, horizon=300)).curve != first.curve

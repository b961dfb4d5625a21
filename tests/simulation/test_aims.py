"""What a study takes to certify more or less, before it starts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.io.schema import Definition
from voxpop.model.kernels import SquaredExponential
from voxpop.model.money import Money
from voxpop.model.problem import Evidence, Problem
from voxpop.policies import make_policy
from voxpop.simulation.aims import Aim, aims_of, best_of, picture
from voxpop.simulation.rehearsals import Outcome, rehearse, truth_of, truths_of
from voxpop.simulation.sweep import Backend

POINTS = np.linspace(0, 1, 6)[:, None]
GROUP = Evidence(POINTS, np.full(6, 4), 6, 1.0 - 2 * (POINTS[:, 0] - 0.6) ** 2)
PROBLEM = Problem(POINTS, SquaredExponential(0.3), 0.3, 0.3, norm_bound=3.0, horizon=3_000, pilot=(GROUP,))
STUDY = Definition(PROBLEM, make_policy("waves"))


@pytest.fixture(scope="module")
def aims() -> list[Aim]:
    return aims_of(STUDY, runs=4, where=Backend(jobs=1))


def test_the_first_aim_asks_while_asking_pays_and_the_others_certify_more(aims: list[Aim]) -> None:
    first, *others = aims
    assert first.tolerance is None
    assert first.outcomes == tuple(rehearse(PROBLEM, STUDY.policy, STUDY.privacy, seed) for seed in range(4))
    tolerances = [aim.tolerance or 0.0 for aim in others]
    assert tolerances == sorted(tolerances, reverse=True)
    assert max(tolerances) < first.typical("certified")
    for aim in others:
        assert aim.definition.policy.settings()["tolerance"] == aim.tolerance
        assert aim.reached == sum(each.certified <= (aim.tolerance or 0) for each in aim.outcomes)
    assert others[-1].typical("people") > first.typical("people")
    assert others[-1].typical("certified") < first.typical("certified")


def test_the_aim_that_pays_loses_least_in_all(aims: list[Aim]) -> None:
    best = best_of(aims)
    assert best is not None
    assert best.total == min(aim.total for aim in aims) < best.not_asking
    assert best.total == pytest.approx(np.mean([each.lost + each.answers for each in best.outcomes]))
    dear = [replace(aim, outcomes=tuple(replace(each, lost=1e9) for each in aim.outcomes)) for aim in aims]
    assert best_of(dear) is None


def test_money_counts_all_people_and_the_price_of_a_number() -> None:
    outcomes = (Outcome(20, 1, 0.5, 1.0, 4, 60, 0.2, 0.1), Outcome(40, 1, 0.7, 1.0, 4, 80, 0.2, math.inf))
    money = replace(STUDY, money=Money("EUR", 1_000, 2.0))
    aim = Aim(money, None, outcomes)
    assert aim.totals == [1_000 * 0.5 + 60 * 2.0, 1_000 * 0.7 + 80 * 2.0]
    assert aim.not_asking == pytest.approx(1_000 * Aim(STUDY, None, outcomes).not_asking)
    assert (aim.reached, replace(aim, tolerance=0.05).reached) == (1, 0)


def test_the_tolerance_of_the_study_is_one_of_the_aims() -> None:
    own = replace(STUDY, policy=make_policy("waves", tolerance=0.123, most_waves=1))
    told: list[int] = []
    found = aims_of(own, runs=3, where=Backend(jobs=1), watch=told.append)
    assert 0.123 in [aim.tolerance for aim in found]
    assert {aim.definition.policy.settings()["most_waves"] for aim in found} == {1}
    assert told == [18] * 18


def test_truths_are_drawn_together_as_one_by_one() -> None:
    together = truths_of(PROBLEM, 5, 400)
    assert np.allclose(together[0], truth_of(PROBLEM, 5))
    assert np.corrcoef(together.mean(axis=0), GROUP.mean)[0, 1] > 0.95


def test_the_picture_marks_the_aim_that_pays(aims: list[Aim]) -> None:
    best = best_of(aims)
    assert best is not None
    stars = [line for ax in picture(aims).axes for line in ax.lines if line.get_marker() == "*"]
    assert [tuple(np.array(line.get_data(), dtype=float).ravel()) for line in stars] == [
        (best.typical("certified"), best.typical("people")),
        (best.typical("certified"), best.total),
    ]


def test_the_picture_shows_what_asking_nobody_loses(aims: list[Aim]) -> None:
    free = [
        replace(aim, outcomes=tuple(replace(each, lost=0.0, answers=1e-9) for each in aim.outcomes)) for aim in aims
    ]
    assert picture(free).axes[1].get_ylim()[1] > free[0].not_asking > 0


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(InputError) as call:
        aims_of(replace(STUDY, policy=make_policy("dpbe")), runs=3)
    assert refusal(call) == "the policy 'dpbe' has no tolerance to plan for; use waves"
    with pytest.raises(InputError, match="runs must be a whole number, at least 3"):
        aims_of(STUDY, runs=1)

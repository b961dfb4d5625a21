"""What is certified keeps the level it was made with, whatever an owner who sees everything does afterwards."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tests.helpers import random_problem
from tests.helpers_waves import everyone, truth
from voxpop.errors import Array
from voxpop.journal.journal import Amended, Course, Definition, Finished, Opened, Released, TakenBack
from voxpop.journal.wave import Wave
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Plan, Tally
from voxpop.policies.waves import Waves
from voxpop.policies.waves.state import ASIDE, LOOK
from voxpop.privacy import Entry, NoPrivacy
from voxpop.simulation.people import GPPeople


def told(course: Course, seed: int) -> Course:
    """Play the wave that follows."""
    wave = course.following
    assert isinstance(wave, Wave)
    feedback = everyone(course.problem, truth(course.problem, seed), seed)(wave.plan)
    return course.after(Opened(wave.plan, wave.release)).after(Released(feedback, Entry("none", feedback.count)))


def left(state: State) -> float:
    return Waves().delta - state.spent


def waves_of(course: Course) -> tuple[Plan, Any]:
    """Return what opens the wave that follows."""
    wave = course.following
    assert isinstance(wave, Wave)
    return wave.plan, wave.release


def begun(policy: Waves, seed: int, **changes: Any) -> Course:
    return Course.begin(Definition(random_problem(seed, horizon=3000, **changes), policy, NoPrivacy()))


def over(policy: Waves, seed: int) -> Course:
    """Play a study to its end."""
    course = begun(policy, seed)
    while isinstance(course.following, Wave):
        course = told(course, seed)
    return course


def test_an_answer_that_was_taken_back_stays_paid_and_the_wave_before_says_what_it_said() -> None:
    first = told(begun(Waves(tolerance=0.012), 3), 3)
    again = told(first.after(TakenBack(1)), 3)
    assert again.state.spent > first.state.spent
    assert again.state.certificate >= first.state.certificate
    second = told(again, 3)
    back = second.after(TakenBack(2))
    assert back.state.spent == second.concluded.state.otherwise().spent > second.concluded.state.spent
    assert (back.state.certificate, back.state.active.tolist()) == (
        again.state.certificate,
        again.state.active.tolist(),
    )
    trail = [each.state.certificate for each in second.replayed()]
    assert trail[1:] == [again.state.certificate, second.state.certificate]


def test_a_changed_horizon_keeps_what_the_end_certified_and_leaves_a_quarter_of_the_rest() -> None:
    course = over(Waves(), 5)
    end = course.concluded.state
    assert end.spent > 0.9 * Waves().delta
    longer = course.after(Amended(horizon=course.problem.horizon + 1))
    assert left(longer.state) == pytest.approx(left(end) / 4)
    assert (longer.state.certificate, longer.state.best) == (end.certificate, end.best)
    assert longer.concluded.state.certificate == end.certificate


def test_a_horizon_costs_nothing_before_anything_was_certified() -> None:
    course = begun(Waves(), 5)
    assert course.after(Amended(horizon=50)).state.spent == 0
    opened = course.after(Opened(*waves_of(course)))
    assert opened.after(Amended(horizon=50_000)).state.spent == 0


@pytest.mark.parametrize("tolerance", [0.1, 0.3])
def test_where_what_is_sealed_ends_a_study_nothing_more_is_spent(tolerance: float) -> None:
    course = over(Waves(tolerance=tolerance), 5)
    assert course.state.certificate <= tolerance
    assert course.concluded.state.spent == course.state.spent < 0.95 * Waves().delta
    assert course.concluded.state.certificate == course.state.certificate


def test_who_ends_a_study_early_gets_what_was_certified_so_far() -> None:
    course = told(begun(Waves(), 6), 6)
    ended = course.after(Finished("enough", early=True))
    assert ended.concluded.state.spent == course.state.spent == pytest.approx(LOOK * Waves().delta)
    assert np.array_equal(ended.state.active, course.state.active)


# An owner who sees every answer and every statement, and does what suits. Two actions are best, and nothing but the
# level protects the one that is not chosen.

TIE, BOTH = Problem.of_matrix(np.eye(2), 0.3, 0.3, norm_bound=2.0, horizon=2000), np.array([0.5, 0.5])
DELTA, OWNERS, ROLLS = 0.2, 40, 20


def tied(most_waves: int) -> tuple[Course, Plan]:
    """Open the first wave."""
    course = Course.begin(Definition(TIE, Waves(delta=DELTA, most_waves=most_waves), NoPrivacy()))
    plan, release = waves_of(course)
    return course.after(Opened(plan, release)), plan


def answered(plan: Plan, rng: np.random.Generator) -> Array:
    return GPPeople(TIE, BOTH).observe(plan, plan.people, rng)


def closed(course: Course, answers: Array) -> Course:
    feedback = Tally.of(answers, TIE.grid_step).feedback()
    return course.after(Released(feedback, Entry("none", feedback.count)))


def closes_when_it_suits(rng: np.random.Generator) -> bool:
    course, plan = tied(most_waves=1)
    answers = answered(plan, rng)
    moments = np.linspace(plan.people, plan.people // 8, 12).astype(int).tolist()
    return any(len(closed(course, answers[:people]).concluded.state.active) < 2 for people in moments)


def takes_back_until_it_suits(rng: np.random.Generator, ends_by_horizon: bool) -> bool:
    course, plan = tied(most_waves=2 if ends_by_horizon else 1)
    for _ in range(1 + ROLLS):
        told = closed(course, answered(plan, rng))
        ended = told.after(Amended(horizon=told.state.rounds)) if ends_by_horizon else told
        if len(ended.concluded.state.active) < 2:
            return True
        course = told.after(TakenBack(1))
    return False


@pytest.mark.parametrize(
    "lies",
    [
        closes_when_it_suits,
        lambda rng: takes_back_until_it_suits(rng, ends_by_horizon=False),
        lambda rng: takes_back_until_it_suits(rng, ends_by_horizon=True),
    ],
    ids=["closes early", "takes back", "takes back and ends"],
)
def test_who_chooses_the_moment_is_wrong_no_more_often_than_promised(
    lies: Callable[[np.random.Generator], bool],
) -> None:
    wrong = sum(lies(np.random.default_rng([seed, 5])) for seed in range(OWNERS))
    assert wrong <= float(binom.isf(1e-6, OWNERS, DELTA))


def test_whoever_ends_a_study_by_its_horizon_gets_no_more_than_a_small_rest_can_say() -> None:
    course = told(begun(Waves(), 6), 6)
    ended = course.after(Amended(horizon=course.state.rounds))
    assert ended.concluded.ended or not isinstance(ended.following, Wave)
    assert left(ended.state) == pytest.approx(ASIDE / 5 * left(course.state))
    assert ended.concluded.state.spent < Waves().delta


def test_every_number_of_people_below_the_planned_one_has_its_own_small_level() -> None:
    course = begun(Waves(), 4, shock_std=0.0)
    plan, release = waves_of(course)
    feedback = everyone(course.problem, truth(course.problem, 4), 4, most=plan.people - 1)(plan)
    early = course.after(Opened(plan, release)).after(Released(feedback, Entry("none", feedback.count)))
    share = left(early.state) / (1 - LOOK) / Waves().delta
    assert (plan.people - 1) * share == pytest.approx(ASIDE / 2)
    assert told(course, 4).state.concluded().certificate < early.state.concluded().certificate < math.inf


def test_what_is_set_aside_covers_everything_that_can_be_done_otherwise() -> None:
    """All numbers of people, and any number of changed horizons, the last perhaps a wave that is taken back."""
    otherwise = sum((2 * ASIDE / 5) ** times for times in range(1, 50))
    assert ASIDE / 2 + otherwise <= ASIDE < LOOK
    assert sum((2 / 4) ** times for times in range(1, 50)) <= 1  # of what the end leaves

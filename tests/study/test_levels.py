"""What is certified keeps the level it was made with, whatever happens to a study afterwards."""

import numpy as np
import pytest

from tests.helpers import random_problem
from tests.helpers_waves import everyone, truth
from voxpop.journal.journal import Amended, Course, Definition, Finished, Opened, Released, TakenBack
from voxpop.journal.wave import Wave
from voxpop.policies.waves import Waves
from voxpop.policies.waves.policy import LOOK
from voxpop.privacy import Entry, NoPrivacy


def told(course: Course, seed: int) -> Course:
    """Play the wave that follows."""
    wave = course.following
    assert isinstance(wave, Wave)
    feedback = everyone(course.problem, truth(course.problem, seed), seed)(wave.plan)
    return course.after(Opened(wave.plan, wave.release)).after(Released(feedback, Entry("none", feedback.count)))


def begun(policy: Waves, seed: int) -> Course:
    return Course.begin(Definition(random_problem(seed, horizon=3000), policy, NoPrivacy()))


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
    assert back.state.spent == second.concluded.state.spent
    assert (back.state.certificate, back.state.active.tolist()) == (
        again.state.certificate,
        again.state.active.tolist(),
    )
    trail = [each.state.certificate for each in second.replayed()]
    assert trail[1:] == [again.state.certificate, second.state.certificate]


def test_a_changed_horizon_keeps_what_the_end_certified_and_costs_nothing() -> None:
    course = over(Waves(), 5)
    end = course.concluded.state
    assert end.spent > 0.9 * Waves().delta
    longer = course.after(Amended(horizon=course.problem.horizon + 1))
    assert longer.state.spent == end.spent
    assert (longer.state.certificate, longer.state.best) == (end.certificate, end.best)
    assert longer.concluded.state.certificate == end.certificate


@pytest.mark.parametrize("tolerance", [0.1, 0.3])
def test_where_what_is_sealed_ends_a_study_nothing_more_is_spent(tolerance: float) -> None:
    course = over(Waves(tolerance=tolerance), 0)
    assert course.state.certificate <= tolerance
    assert course.concluded.state.spent == course.state.spent < 0.9 * Waves().delta
    assert course.concluded.state.certificate == course.state.certificate


def test_who_ends_a_study_early_gets_what_was_certified_so_far() -> None:
    course = told(begun(Waves(), 6), 6)
    ended = course.after(Finished("enough", early=True))
    assert ended.concluded.state.spent == course.state.spent == pytest.approx(LOOK * Waves().delta)
    assert np.array_equal(ended.state.active, course.state.active)

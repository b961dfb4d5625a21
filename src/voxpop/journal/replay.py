"""Replaying the reports of a study in the simulator: its plans and state must be the same, to the last bit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from voxpop.io import schema as wire
from voxpop.journal.course import Course
from voxpop.journal.wave import Wave, next_wave, release_wave
from voxpop.model.waves import End, Feedback
from voxpop.privacy import Ledger, Simulated
from voxpop.runtime.random_streams import stream

Reports = Mapping[int, list[list[float]]]
PARTS = ("active", "lower", "upper", "centre", "lead", "norm_bound", "decision", "certified", "expected_loss")
FAR = 8.0  # standard deviations by which two draws of noise never differ


def disagreements(course: Course, reports: Reports, own_noise: bool = False, early: bool = False) -> list[str]:
    """Return the differences between a study and the simulator's run on the same reports, ideally none.

    The simulator draws the agent's noise, if there is any, with seed 0. Whoever serves real people draws their own:
    with `own_noise` their releases need only be as close as the noise allows, and the simulator goes on from them.
    `early` says that somebody ended the study, which the simulator does not do.
    """
    ledger = Ledger(course.ledger.budget)
    problem, policy, privacy = course.problem, course.policy, course.privacy
    state, found = policy.init(problem), list[str]()
    for closed in course.closed:
        wave = next_wave(problem, policy, privacy, state)
        number = closed.plan.wave
        if isinstance(wave, End):
            return [f"the simulator ends before wave {number}, because {wave.reason}"]
        if wire.plan_to_dict(wave.plan) != wire.plan_to_dict(closed.plan):
            return [*found, f"the plans of wave {number} differ"]
        feedback, drawn = _released(wave, ledger, reports[number])
        if own_noise and drawn:
            if not _as_close_as_noise(feedback, closed.feedback):
                found.append(f"the releases of wave {number} differ by more than noise can explain")
            feedback = closed.feedback
        elif not np.array_equal(feedback.mean, closed.feedback.mean):  # the state need not show it: bounds may be wide
            found.append(f"the releases of wave {number} differ")
        state, _ = policy.advance(problem, state, wave.plan, feedback)
    if course.ended is not None and not early:
        end = next_wave(problem, policy, privacy, state)
        if not isinstance(end, End):
            found.append(f"the simulator goes on after wave {len(course.closed)}")
        elif end.reason != course.ended:
            found.append(f"the simulator ends because {end.reason}, and the study because {course.ended}")
    differing = [name for name in PARTS if not np.array_equal(getattr(state, name), getattr(course.state, name))]
    return found + [f"the final states differ in {name}" for name in differing]


def _released(wave: Wave, ledger: Ledger, reports: list[list[float]]) -> tuple[Feedback, bool]:
    """Release a wave as the simulator does; also return whether the agent drew noise for it."""
    drawn = []

    def noise() -> np.random.Generator:
        drawn.append(wave)
        return stream(0, "agent", wave.plan.wave)

    tally = wave.release.tally(np.array(reports, dtype=float))
    feedback, entry = release_wave(wave, tally, ledger, Simulated(noise))
    ledger.record(entry)
    return feedback, bool(drawn)


def _as_close_as_noise(one: Feedback, other: Feedback) -> bool:
    """Return True if two releases of the same answers differ by no more than their noise can."""
    assert one.noise is not None
    return bool(np.all(np.square(one.mean - other.mean) <= 2 * FAR**2 * one.noise.diagonal()))

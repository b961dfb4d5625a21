"""Replaying the reports of a study in the simulator: its plans and state must be the same, to the last bit."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from voxpop.io.schema import encode
from voxpop.journal.journal import Course, Opened, Released
from voxpop.journal.wave import Wave, release_wave
from voxpop.model.waves import End, changed
from voxpop.privacy import Ledger, Simulated
from voxpop.runtime.random_streams import stream

Reports = Mapping[int, list[list[float]]]  # by wave
Blocks = Mapping[int, list[int]]  # by wave, in the order of the reports
PARTS = ("active", "lower", "upper", "centre", "lead", "norm_bound", "decision", "certified", "expected_loss", "keeps")
FAR = 8.0  # standard deviations by which two draws of noise never differ


def disagreements(
    course: Course, reports: Reports, own_noise: bool = False, early: bool = False, blocks: Blocks | None = None
) -> list[str]:
    """Return the differences between a study and the simulator's run on the same reports, ideally none.

    The simulator draws the agent's noise, if there is any, with seed 0. Whoever serves real people draws their own:
    with `own_noise` their releases need only be as close as the noise allows, and the simulator goes on from them.
    `early` says that somebody ended the study, which the simulator does not do. `blocks` says to which block each
    report belongs, if there are several.
    """
    replayed, found = Course.begin(course.definition), list[str]()
    for closed in course.closed:
        wave = replayed.following
        number = closed.plan.wave
        if isinstance(wave, End):
            return [f"the simulator ends before wave {number}, because {wave.reason}"]
        # The orders of play, and whether they are in blocks, are the driver's.
        wave = replace(wave, plan=changed(wave.plan, blocks=closed.plan.blocks, orders=closed.plan.orders))
        if encode(wave.plan) != encode(closed.plan):
            return [*found, f"the plans of wave {number} differ"]
        event, drawn = _released(wave, replayed.ledger, reports[number], (blocks or {}).get(number))
        if own_noise and drawn:
            assert event.feedback.noise is not None
            far = 2 * FAR**2 * event.feedback.noise.diagonal()
            if not np.all(np.square(event.feedback.mean - closed.feedback.mean) <= far):
                found.append(f"the releases of wave {number} differ by more than noise can explain")
            event = replace(event, feedback=closed.feedback)
        elif not np.array_equal(event.feedback.mean, closed.feedback.mean):  # the state need not show it
            found.append(f"the releases of wave {number} differ")
        replayed = replayed.after(Opened(wave.plan, wave.release)).after(event)
    if course.ended is not None and not early:
        end = replayed.following
        if not isinstance(end, End):
            found.append(f"the simulator goes on after wave {len(course.closed)}")
        elif end.reason != course.ended:
            found.append(f"the simulator ends because {end.reason}, and the study because {course.ended}")
    over = course.ended is not None and not course.early
    states = (replayed.state.concluded() if over else replayed.state), course.state
    differing = [name for name in PARTS if not np.array_equal(*(getattr(state, name) for state in states))]
    return found + [f"the final states differ in {name}" for name in differing]


def _released(
    wave: Wave, ledger: Ledger, reports: list[list[float]], blocks: list[int] | None
) -> tuple[Released, bool]:
    """Release a wave as the simulator does; also return whether the agent drew noise for it."""
    drawn = []

    def noise() -> np.random.Generator:
        drawn.append(wave)
        return stream(0, "agent", wave.plan.wave)

    rows, each = np.array(reports, dtype=float), range(1, wave.plan.blocks + 1)
    parts = [rows] if blocks is None or len(each) == 1 else [rows[np.equal(blocks, block)] for block in each]
    tallies = [wave.release.tally(part) for part in parts]
    return Released(*release_wave(wave, tallies, ledger, Simulated(noise))), bool(drawn)

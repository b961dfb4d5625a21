"""One phase, as all drivers conduct it: plan, enlist, calibrate; collect; check the ledger, release, learn.

Simulator, study and service call the same two functions, `next_phase` and `release_phase`. They differ only in how they
collect answers and in what they save. `run_phases` is the whole loop, for a driver that can collect without a break.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from voxpop.model.problem import Indices, Problem
from voxpop.model.state import State
from voxpop.model.waves import End, Feedback, Info, Plan, Tally, changed
from voxpop.policies import Policy
from voxpop.privacy import Entry, Ledger, Privacy, Release, Source


@dataclass(frozen=True, eq=False)
class Phase:
    """A phase that awaits its feedback: what to play and ask, and how the answers will be released."""

    plan: Plan
    release: Release


@dataclass(frozen=True, eq=False)
class ClosedPhase:
    """A phase that is over. It holds everything but the state, which may be large."""

    plan: Plan
    release: Release
    feedback: Feedback
    info: Info
    active: Indices  # the actions that could still be best afterwards

    @property
    def people(self) -> int:
        """The people who answered."""
        return self.plan.people if self.plan.reports == "one" else self.feedback.count

    @property
    def numbers(self) -> int:
        """The numbers that they sent."""
        return self.plan.numbers * self.people // self.plan.people


Collect = Callable[[Phase], Tally]


def next_phase(problem: Problem, policy: Policy, privacy: Privacy, state: State) -> Phase | End:
    """Plan the next phase, with enough people to hide in, or say why there is none."""
    plan = policy.plan(problem, state, privacy)
    return plan if isinstance(plan, End) else Phase(plan, privacy.calibrate(problem, state, plan))


def error_ratio(problem: Problem, privacy: Privacy, state: State, plan: Plan, count: float) -> float:
    """Predict how many times as large the errors of a phase's averages are if only `count` people answer."""
    people = np.array([count, plan.people], dtype=float)
    variances = float(np.trace(problem.answer_noise(plan.arms, plan.pulls))) / people
    prospect = privacy.prospect(problem, state, plan)
    if prospect is not None:
        variances = variances + prospect.variance(people) * float(np.trace(prospect.shape))
    return math.sqrt(variances[0] / variances[1])


def entry_of(phase: Phase, count: int, names: tuple[str, ...] = ()) -> Entry:
    """Return the ledger's entry for the answers of `count` people; `names` are their pseudonyms, if known."""
    return changed(phase.release.entry(count), phase=phase.plan.phase, names=names)


def release_phase(
    phase: Phase, tally: Tally, ledger: Ledger, source: Source, names: tuple[str, ...] = ()
) -> tuple[Feedback, Entry]:
    """Release the answers of a phase, if the ledger allows it; the caller records the entry with the feedback.

    This draws noise: call it once per phase.
    """
    plan, release = phase.plan, phase.release
    # If every round is answered by another person, the tally is one average over all of them.
    answered = plan.people if plan.reports == "one" else tally.count
    entry = entry_of(phase, answered, names)
    ledger.check(entry)
    return release.analyze(release.require_whole(tally), source), entry


def run_phases(
    problem: Problem,
    policy: Policy,
    privacy: Privacy,
    ledger: Ledger,
    collect: Collect,
    source: Callable[[Phase], Source],
) -> Generator[tuple[ClosedPhase, State], None, End]:
    """Conduct phase after phase; yield each with the state after it, and return why there are no more."""
    state = policy.init(problem)
    while not isinstance(phase := next_phase(problem, policy, privacy, state), End):
        feedback, entry = release_phase(phase, collect(phase), ledger, source(phase))
        ledger.record(entry)
        state, info = policy.advance(problem, state, phase.plan, feedback)
        yield ClosedPhase(phase.plan, phase.release, feedback, info, state.active), state
    return phase

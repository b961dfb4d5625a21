"""One phase, written once: plan, enlist, calibrate; collect; charge, release, learn.

Simulator, study and service call the same two functions. They differ only in how they collect answers, and in what they
keep: `run_phases` is the loop of a driver that has everything at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from voxpop.core.frozen import changed
from voxpop.core.phases import Feedback, Info, Plan, Tally
from voxpop.core.problem import Indices, Problem
from voxpop.core.state import State
from voxpop.policies import Policy
from voxpop.privacy import Entry, Ledger, Privacy, Release, Source


@dataclass(frozen=True, eq=False)
class Phase:
    """A phase whose feedback is not in yet: what to play and ask, and how the answers will be released."""

    plan: Plan
    release: Release


@dataclass(frozen=True, eq=False)
class ClosedPhase:
    """A phase that is over. It holds everything but the state, which may be large."""

    plan: Plan
    release: Release
    feedback: Feedback
    info: Info
    active: Indices  # what could still be best afterwards


Collect = Callable[[Phase], Tally]


def next_phase(problem: Problem, policy: Policy, privacy: Privacy, state: State) -> Phase | None:
    """Plan the next phase, with enough people to hide in; None when nothing is left to learn."""
    plan = policy.plan(problem, state)
    if plan is None:
        return None
    plan = privacy.enlist(problem, state, plan)
    return Phase(plan, privacy.calibrate(problem, state, plan))


def entry_of(phase: Phase, count: int, names: tuple[str, ...] = ()) -> Entry:
    """What releasing the answers of `count` people costs them; `names` are their pseudonyms where they are known."""
    return changed(phase.release.entry(count), phase=phase.plan.phase, names=names)


def release_phase(
    phase: Phase, tally: Tally, ledger: Ledger, source: Source, names: tuple[str, ...] = ()
) -> tuple[Feedback, Entry]:
    """Release the answers of a phase, if the ledger allows it. The caller keeps the entry together with the feedback.

    Noise is drawn here: call it once for a phase.
    """
    plan, release = phase.plan, phase.release
    # Where every round is answered by another person, the tally is one average over all of them.
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
) -> Iterator[tuple[ClosedPhase, State]]:
    """Play phase after phase until nothing is left to learn; yield each with the state after it."""
    state = policy.init(problem)
    while (phase := next_phase(problem, policy, privacy, state)) is not None:
        feedback, entry = release_phase(phase, collect(phase), ledger, source(phase))
        ledger.record(entry)
        state, info = policy.advance(problem, state, phase.plan, feedback)
        yield ClosedPhase(phase.plan, phase.release, feedback, info, state.active), state

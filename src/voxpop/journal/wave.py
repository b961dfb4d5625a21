"""One wave, as all drivers conduct it: plan, enlist, calibrate; collect; check the ledger, release, learn.

Simulator, study and service call the same two functions, `next_wave` and `release_wave`. They differ only in how they
collect answers and in what they save.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from voxpop.model.problem import Indices, Problem
from voxpop.model.state import State
from voxpop.model.waves import End, Feedback, Info, Plan, Tally, changed, in_blocks
from voxpop.policies import Policy
from voxpop.privacy import Entry, Ledger, Privacy, Release, Source


@dataclass(frozen=True, eq=False)
class Wave:
    """A wave that awaits its feedback: what to play and ask, and how the answers will be released."""

    plan: Plan
    release: Release


@dataclass(frozen=True, eq=False)
class ClosedWave:
    """A wave that is over. It holds everything but the state, which may be large."""

    plan: Plan
    release: Release
    feedback: Feedback
    info: Info
    active: Indices  # the actions that could still be best afterwards
    spent: float = 0.0  # of the chance of error, before it

    @property
    def objective(self) -> Feedback:
        """What they said of the objective."""
        return self.feedback.of_metric(self.plan)

    @property
    def people(self) -> int:
        """The people who answered."""
        return self.plan.people if self.plan.reports == "one" else self.feedback.count

    @property
    def numbers(self) -> int:
        """The numbers that they sent."""
        return self.plan.numbers * self.people // self.plan.people


def next_wave(problem: Problem, policy: Policy, privacy: Privacy, state: State) -> Wave | End:
    """Plan the next wave, with enough people to hide in, or say why there is none."""
    plan = policy.plan(problem, state, privacy)
    return plan if isinstance(plan, End) else Wave(plan, privacy.calibrate(problem, state.unsealed, plan))


def error_ratio(problem: Problem, privacy: Privacy, state: State, plan: Plan, count: float) -> float:
    """Predict how many times as large the errors of a wave's averages are if only `count` people answer."""
    people = np.array([count, plan.people], dtype=float)
    variances = float(np.trace(problem.answer_noise(plan.arms, plan.lived))) / people
    if plan.same:  # what matters is who is missing
        missing = np.maximum(1 / people - 1 / plan.same, 0.0)
        own = float(np.trace(problem.about_people().answer_noise(plan.arms, plan.pulls))) / people
        variances = own + missing * problem.bias_std**2 * float(problem.prior_variance[plan.arms].sum())
    prospect = privacy.prospect(problem, state.unsealed, plan)
    if prospect is not None:
        variances = variances + prospect.variance(people) * float(np.trace(prospect.of_metric(0, len(plan.arms))))
    return math.sqrt(variances[0] / variances[1])


def entry_of(wave: Wave, count: int, names: tuple[str, ...] = ()) -> Entry:
    """Return the ledger's entry for the answers of `count` people; `names` are their pseudonyms, if known."""
    return changed(wave.release.entry(count), wave=wave.plan.wave, names=names)


def release_wave(
    wave: Wave, tallies: Sequence[Tally], ledger: Ledger, source: Source, names: tuple[str, ...] = ()
) -> tuple[Feedback, Entry]:
    """Release the answers of a wave, one tally a block, if the ledger allows it.

    This draws noise: call it once per wave. The caller records the entry with the feedback.
    """
    plan, release = wave.plan, wave.release
    # If every round is answered by another person, the tally is one average over all of them.
    each = tallies[:1] if plan.same else tallies
    answered = plan.people if plan.reports == "one" else sum(tally.count for tally in each)
    entry = entry_of(wave, answered, names)
    ledger.check(entry)
    parts = [release.analyze(release.require_whole(tally), source) for tally in tallies]
    return in_blocks(parts, plan.same > 0), entry

"""Replaying the reports in the simulator: its plans and state must be the same as the service's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from voxpop.core.phases import Tally
from voxpop.drivers.phase import Phase, run_phases
from voxpop.formats import wire
from voxpop.privacy import Ledger, Simulated
from voxpop.runtime.random_streams import stream
from voxpop.service.study.events import Event
from voxpop.service.study.snapshot import fold


def disagreements(events: list[Event], reports: Mapping[int, list[list[float]]]) -> list[str]:
    """Return the differences between the service's log and the simulator's run on the same reports, ideally none.

    The simulator draws the agent's noise with seed 0. In the central model the service draws its own noise, so the two
    agree only if the service was given the same source.
    """
    served = fold(events)
    definition = served.definition

    def collect(phase: Phase) -> Tally:
        return phase.release.tally(np.array(reports[phase.plan.phase], dtype=float))

    def noise(phase: Phase) -> Simulated:
        return Simulated(partial(stream, 0, "agent", phase.plan.phase))

    state = definition.policy.init(definition.problem)
    ledger = Ledger(definition.budget)
    found, phases = [], 0
    for phase, after in run_phases(definition.problem, definition.policy, definition.privacy, ledger, collect, noise):
        state, phases = after, phases + 1
        if phases > len(served.closed):
            continue
        if wire.plan_to_dict(phase.plan) != wire.plan_to_dict(served.closed[phases - 1].plan):
            found.append(f"the plans of phase {phase.plan.phase} differ")
    if phases != len(served.closed):
        found.append(f"the simulator has {phases} phases, and the service {len(served.closed)}")
    parts = ("active", "lower", "upper", "centre", "lead", "norm_bound")
    differing = [name for name in parts if not np.array_equal(getattr(state, name), getattr(served.state, name))]
    return found + [f"the final states differ in {name}" for name in differing]

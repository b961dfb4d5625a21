"""What can be seen of a study: its closed waves, what is known of every decision, and what it has cost in privacy."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from voxpop.report.summary import describe
from voxpop.service.study.coordinator import Coordinator


def watched(coordinator: Coordinator, study: str) -> dict[str, Any]:
    """Collect what follows from the log of a study, and how far the current wave is."""
    snapshot = coordinator.snapshots.current(study)
    state, problem = snapshot.state, snapshot.definition.problem
    delta = snapshot.ledger.budget.delta if snapshot.ledger.budget else 0.0
    return {
        "status": coordinator.status(study),
        "reward": snapshot.definition.reward,
        "privacy": snapshot.definition.privacy.describe(),
        "waves": [
            {
                "wave": wave.plan.wave,
                "rounds": wave.plan.length,
                "arms": len(wave.plan.arms),
                "people": wave.feedback.count,
                "active": wave.info.active_after,
                "width": wave.info.max_width,
                "forecast": None if wave.plan.forecast is None else asdict(wave.plan.forecast),
                "warning": wave.info.warning,
            }
            for wave in snapshot.closed
        ],
        "actions": [describe(problem.decisions[index]) for index in range(problem.size)],
        "lower": state.lower.tolist(),
        "upper": state.upper.tolist(),
        "estimates": state.centre.tolist(),
        "active": state.active.tolist(),
        "asked": snapshot.current.plan.arms.tolist() if snapshot.current else [],
        "ledger": snapshot.ledger.totals(delta),
        "budget": None if snapshot.ledger.budget is None else snapshot.ledger.budget.epsilon,
    }

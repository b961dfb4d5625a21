"""The dashboard: one page that loads nothing from other sites, and the data it shows."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from voxpop.report.summary import describe
from voxpop.service.study.coordinator import Coordinator

# Style and script are part of the page, which contacts only its own coordinator.
PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src 'self' "
        "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


def dashboard_data(coordinator: Coordinator, study: str) -> dict[str, Any]:
    """Collect what the dashboard shows of a study: what follows from its log, and how far the current phase is."""
    snapshot = coordinator.snapshots.current(study)
    state, problem = snapshot.state, snapshot.definition.problem
    delta = snapshot.ledger.budget.delta if snapshot.ledger.budget else 0.0
    return {
        "status": coordinator.status(study),
        "reward": snapshot.definition.reward,
        "privacy": snapshot.definition.privacy.describe(),
        "phases": [
            {
                "phase": phase.plan.phase,
                "rounds": phase.plan.length,
                "arms": len(phase.plan.arms),
                "people": phase.feedback.count,
                "active": phase.info.active_after,
                "width": phase.info.max_width,
                "forecast": None if phase.plan.forecast is None else asdict(phase.plan.forecast),
                "warning": phase.info.warning,
            }
            for phase in snapshot.closed
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


@cache
def dashboard_page(public: bool) -> str:
    """Render the page; a public one does not ask for a key."""
    from jinja2 import Environment

    text = (files("voxpop.service.web") / "dashboard.html.j2").read_text(encoding="utf-8")
    return Environment(autoescape=True).from_string(text).render(public=public)

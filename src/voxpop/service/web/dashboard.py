"""The dashboard: one page that loads nothing from elsewhere, and the data it draws."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from voxpop.report.summary import describe
from voxpop.service.study.coordinator import Coordinator

# Style and script are in the page, and it talks to its own coordinator only.
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
    """Collect what there is to see of a study: what follows from its log, and how far the current phase is."""
    record = coordinator.journal.record(study)
    state, problem = record.state, record.definition.problem
    delta = record.ledger.budget.delta if record.ledger.budget else 0.0
    return {
        "status": coordinator.status(study),
        "reward": record.definition.reward,
        "privacy": record.definition.privacy.describe(),
        "phases": [
            {
                "phase": done.plan.phase,
                "rounds": done.plan.length,
                "arms": len(done.plan.arms),
                "people": done.count,
                "active": done.info.active_after,
                "width": done.info.max_width,
            }
            for done in record.done
        ],
        "actions": [describe(problem.decisions[index]) for index in range(problem.size)],
        "lower": state.lower.tolist(),
        "upper": state.upper.tolist(),
        "active": state.active.tolist(),
        "asked": record.current.plan.arms.tolist() if record.current else [],
        "ledger": record.ledger.totals(delta),
        "budget": None if record.ledger.budget is None else record.ledger.budget.epsilon,
    }


@cache
def dashboard_page(public: bool) -> str:
    """Render the page; a public one does not ask for a key."""
    from jinja2 import Environment

    text = (files("voxpop.service.web") / "dashboard.html.j2").read_text(encoding="utf-8")
    return Environment(autoescape=True).from_string(text).render(public=public)

"""All studies at a glance, as the API lists them: in the words of the console's first page."""

from __future__ import annotations

from typing import Any

from voxpop.service.study import overview
from voxpop.service.study.context import Context
from voxpop.service.study.stages import Life


def listed(context: Context, drafts: bool) -> list[dict[str, Any]]:
    """Return where each study is, by name, in a constant number of queries; drafts only if they are wanted."""
    return [
        {
            "study": glance.study,
            "state": glance.state,
            "archived": glance.life == Life.ARCHIVED,
            "wave": glance.wave,
            "registered": glance.registered,
            "people": glance.wanted,
            "answered": glance.answered,
        }
        for glance in overview.look(context)
        if drafts or glance.life != Life.DRAFT
    ]

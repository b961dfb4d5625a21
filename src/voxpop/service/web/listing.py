"""All studies at a glance, as the API lists them: in the words of the console's first page."""

from __future__ import annotations

from typing import Any

from voxpop.service.console.study_lines import line_of
from voxpop.service.study import overview
from voxpop.service.study.context import Context
from voxpop.service.study.stages import Life


def listed(context: Context, drafts: bool) -> list[dict[str, Any]]:
    """Return where each study is, by name, in a constant number of queries; drafts only if they are wanted."""
    shown = [glance for glance in overview.look(context) if drafts or glance.life != Life.DRAFT]
    lines = [line_of(glance, context.clock()) for glance in shown]
    return [
        {
            "study": line.study,
            "state": line.state,
            "archived": line.archived,
            "wave": line.wave,
            "registered": line.registered,
            "people": line.wanted,
            "answered": line.answered,
        }
        for line in lines
    ]

"""All pages of the console."""

from __future__ import annotations

from voxpop.service.console import access, new_study, people, studies, study, system, trail
from voxpop.service.console.assets import serve_asset
from voxpop.service.console.entry import Entry
from voxpop.service.console.shared import Console, page
from voxpop.service.web.routes import Route

SCREENS = (studies, study, new_study, people, system, access, trail)


def console_routes(console: Console, entry: Entry) -> list[Route]:
    """Declare every page, form and stream."""
    screens = [route for screen in SCREENS for route in screen.routes(console)]
    static = page("/static/{file}", "anyone", serve_asset, "Get a script or a style sheet.")
    return [static, *entry.routes(), *screens]

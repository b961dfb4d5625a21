"""The screens about the service itself: whether it works, who may use it, and who did what."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from shutil import disk_usage
from typing import Any, get_args

from anyio import from_thread
from starlette.requests import Request
from starlette.responses import Response

from voxpop import __version__
from voxpop.errors import InputError, require_choice
from voxpop.service import audit, logs, operators
from voxpop.service.console.forms import Form
from voxpop.service.console.pages import duration
from voxpop.service.console.screen import Console, Feed, Screens, form, live_page, page
from voxpop.service.keys import hash_key, new_key
from voxpop.service.operators import KeyRole
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.database import cause
from voxpop.service.stores.migrate import facts_of

STARTED = time.monotonic()
LOOK_SECONDS = 5.0  # between two looks at the system, each of which writes to the database and asks the shuffler
OLD_BACKUP = 2 * 86400.0  # seconds
LEAST_FREE = 0.1  # of a disk, below which it is called full
MOST_SHOWN = 50  # entries of the audit trail on a page


def system_view(console: Console) -> dict[str, Any]:
    """Look at everything that the service needs."""
    problem = from_thread.run(console.problem)
    facts, failed = None, ""
    try:
        facts = facts_of(console.coordinator.database)
    except Exception as error:  # the page must say so, whatever it is
        failed = cause(error)
    link, database = console.coordinator.context.shuffler, console.coordinator.database
    disk = disk_usage(Path(database.engine.url.database or ".").resolve().parent) if database.embedded else None
    backups = [] if failed else audit.trail(database, most=1, action=audit.Action.BACKED_UP)
    return {
        "problem": problem,  # why the service cannot work
        "database": facts,  # None: it does not answer
        "database_problem": failed,
        "shuffler": (link.url, link.problem()) if isinstance(link, HttpShuffler) else None,
        "disk": disk,  # None: of PostgreSQL, its own server knows
        "disk_full": disk is not None and disk.free < LEAST_FREE * disk.total,
        "backup": backups[0] if backups else None,
        "backup_old": not backups or console.now - backups[0].at > OLD_BACKUP,
        "lag": round(console.lag()),
        "faults": tuple(logs.recent),  # of this process
        "workers": console.workers,  # processes that serve together
        "watching": console.hub.streams,  # pages that this process keeps up to date
        "running": duration(time.monotonic() - STARTED),
        "process": os.getpid(),
        "processors": os.cpu_count() or 1,
        "version": __version__,
        "python": platform.python_version(),
    }


def audit_view(console: Console, before: int | None = None) -> dict[str, Any]:
    """Read one page of the audit trail, the newest first."""
    found = audit.trail(console.coordinator.database, before=before, most=MOST_SHOWN + 1)
    shown = found[:MOST_SHOWN]
    older = shown[-1].number if len(found) > MOST_SHOWN else None  # the number before which there are more
    return {"entries": shown, "older": older, "newest": before is None}


class SystemScreens(Screens):
    """The handlers of the screens."""

    @live_page("/system", "manager", "system")
    def health(self, request: Request) -> Feed:
        """Show whether the service works."""
        return Feed("system", lambda: system_view(self.console), LOOK_SECONDS)

    @page("/system/access", "manager")
    def access(self, request: Request) -> Response:
        """Show keys and sessions."""
        return self._access(request)

    def _access(self, request: Request, status: int = 200, **values: Any) -> Response:
        given = {"made": None, "name": "", "role": "viewer", "study": "", "error": "", **values}
        given["own"] = hash_key(request.state.session.cookie).hex()  # the number of the session that asks
        given["keys"] = operators.list_keys(self.database)
        given["sessions"] = operators.list_sessions(self.database, self.console.now)
        given["studies"] = self.coordinator.studies(archived=False)
        return self.console.show(request, "access", status, **given)

    @form("/system/access", "manager")
    def add_key(self, request: Request, caller: str, sent: Form) -> Response:
        """Make a key, and show it once; refuse a name that is in use, so that sending it again replaces nothing."""
        given: dict[str, Any] = {part: sent.text(part) for part in ("name", "role", "study")}
        key = new_key()
        role: KeyRole = "operator" if given["role"] == "operator" else "viewer"
        study = given["study"] or None if role == "viewer" else None
        try:
            require_choice("role", given["role"], get_args(KeyRole))
            operators.add_key(self.database, given["name"], key, self.console.now, role, study, caller, replace=False)
        except (Refusal, InputError) as error:
            return self._access(request, getattr(error, "status", 422), error=str(error), **given)
        return self._access(request, made=key, **given)

    @form("/system/access/revoke", "manager")
    def end_key(self, request: Request, caller: str, sent: Form) -> Response:
        """Revoke a key."""
        operators.revoke_key(self.database, str(sent.get("name", "")), self.console.now, caller)
        return self.console.moved(request, "/system/access")

    @form("/system/access/end", "manager")
    def end_session(self, request: Request, caller: str, sent: Form) -> Response:
        """End the session of another browser."""
        operators.end_session(self.database, sent.text("number"), self.console.now, caller)
        return self.console.moved(request, "/system/access")

    @live_page("/system/audit", "manager", "audit")
    def audit(self, request: Request) -> Feed:
        """Show a page of the audit trail, of which only the newest is kept up to date."""
        given = request.query_params.get("before", "")
        before = int(given) if given.isascii() and given.isdigit() and len(given) < 18 else None
        return Feed(f"audit {before or ''}", lambda: audit_view(self.console, before))

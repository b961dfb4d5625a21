"""The screens about the service itself: whether it works, who may use it, and who did what."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from shutil import disk_usage
from typing import Any, cast, get_args
from urllib.parse import urlencode

from anyio import from_thread
from starlette.requests import Request
from starlette.responses import Response

from voxpop import __version__
from voxpop.errors import InputError, require_choice
from voxpop.io.frames import as_csv
from voxpop.service import audit, logs, operators
from voxpop.service.audit import Action
from voxpop.service.console.pages import PAGE_HEADERS, duration, iso
from voxpop.service.console.screen import Console, Feed, Form, Screens, form, live_page, page
from voxpop.service.keys import hash_key, new_key
from voxpop.service.operators import KeyRole
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.database import cause
from voxpop.service.stores.migrate import facts_of

STARTED = time.monotonic()
LOOK_SECONDS = 5.0  # between two looks at the system, each of which writes to the database and asks the shuffler
MOST_EXPORTED = 100_000
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


def audit_view(console: Console, before: int | None = None, **wanted: str) -> dict[str, Any]:
    """Read one page of the audit trail, the newest first, or of the entries that are wanted."""
    found = audit.trail(console.coordinator.database, before=before, most=MOST_SHOWN + 1, **wanted)
    shown = found[:MOST_SHOWN]
    older = shown[-1].number if len(found) > MOST_SHOWN else None  # the number before which there are more
    return {"entries": shown, "older": older, "newest": before is None} | {
        "filter": {"study": None, "actor": None, "action": None, **wanted},
        "actions": [*Action],
        "query": f"?{urlencode(wanted)}" if wanted else "",
    }


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
        given = {"made": None, "name": "", "role": "viewer", "study": "", "email": "", "error": "", **values}
        given["own"] = hash_key(request.state.session.cookie).hex()  # the number of the session that asks
        given["keys"] = operators.list_keys(self.database)
        given["sessions"] = operators.list_sessions(self.database, self.console.now)
        given["studies"] = self.coordinator.studies(archived=False)
        return self.console.show(request, "access", status, **given)

    @form("/system/access", "manager")
    def add_key(self, request: Request, caller: str, sent: Form) -> Response:
        """Make a key, and show it once; refuse a name that is in use, so that sending it again replaces nothing."""
        given: dict[str, Any] = {part: sent.text(part) for part in ("name", "role", "study", "email")}
        key, role = None if given["email"] else new_key(), given["role"]
        study = given["study"] or None if role != "operator" else None
        try:
            require_choice("role", role, get_args(KeyRole))
            told = (role, study, caller, False, given["email"] or None)
            operators.add_key(self.database, given["name"], key, self.console.now, *told)
        except (Refusal, InputError) as error:
            return self._access(request, getattr(error, "status", 422), error=str(error), **given)
        return self._access(request, made=key, **given)

    @form("/system/access/role", "manager")
    def give_role(self, request: Request, caller: str, sent: Form) -> Response:
        """Give a member a role in one more study, another role, or none."""
        role = require_choice("role", sent.text("role"), ("viewer", "owner", "none"))
        given = None if role == "none" else cast(operators.StudyRole, role)
        operators.grant(self.database, sent.text("name"), sent.text("study"), given, self.console.now, caller)
        return self.console.moved(request, "/system/access")

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
        wanted = _wanted(request)
        return Feed(f"audit {before or ''} {wanted}", lambda: audit_view(self.console, before, **wanted))

    @page("/system/audit.csv", "manager")
    def audit_table(self, request: Request) -> Response:
        """Reply with the audit trail, or the entries that are wanted, as a table."""
        found = audit.trail(self.database, most=MOST_EXPORTED, **_wanted(request))  # type: ignore[arg-type]
        names = ("number", "time", "actor", "action", "study", "detail")
        rows = [(one.number, iso(one.at), one.actor, one.action, one.study or "", one.detail) for one in found]
        headers = {**PAGE_HEADERS, "content-disposition": 'attachment; filename="audit.csv"'}
        table = as_csv(names, [dict(zip(names, row, strict=True)) for row in rows])
        return Response(table, headers=headers, media_type="text/csv; charset=utf-8")


def _wanted(request: Request) -> dict[str, str]:
    """Return of which study, by whom, and of which kind the entries shall be."""
    asked = request.query_params
    return {name: asked[name][:64] for name in ("study", "actor", "action") if asked.get(name)}

"""The screen about who may use the service: keys, which are shown once, and browsers that are signed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.errors import InputError, require_choice
from voxpop.service import operators
from voxpop.service.console.forms import read_form
from voxpop.service.console.shared import Console, form, page, session_of
from voxpop.service.keys import hash_key, new_key
from voxpop.service.operators import KeyInfo, KeyRole, SessionInfo
from voxpop.service.refusals import Refusal
from voxpop.service.web.routes import Route

MOST_BYTES = 4096  # of a form


@dataclass(frozen=True)
class Access:
    """What the screen shows."""

    keys: tuple[KeyInfo, ...]
    sessions: tuple[SessionInfo, ...]
    studies: tuple[str, ...]  # for which a viewer's key can be made
    own: str  # the number of the session that asks


def view_of(console: Console, cookie: str) -> Access:
    """List keys, sessions and studies."""
    database = console.coordinator.database
    return Access(
        tuple(operators.list_keys(database)),
        tuple(operators.list_sessions(database, console.now)),
        tuple(console.coordinator.studies(archived=False)),
        hash_key(cookie).hex(),
    )


def make_key(console: Console, name: str, role: str, study: str | None, actor: str) -> str:
    """Make a key, and return it; refuse a name that is in use, so that sending the form again replaces nothing."""
    require_choice("role", role, get_args(KeyRole))
    key = new_key()
    kind: KeyRole = "viewer" if role == "viewer" else "operator"
    given = (name, key, console.now, kind, study if kind == "viewer" else None, actor)
    operators.add_key(console.coordinator.database, *given, replace=False)
    return key


def routes(console: Console) -> list[Route]:
    """Declare the screen and its forms."""

    async def answer(request: Request, status: int = 200, **values: Any) -> Response:
        view = await run_in_threadpool(view_of, console, session_of(request).cookie)
        given = {"made": None, "name": "", "role": "viewer", "study": "", "error": "", **values}
        return console.show(request, "access", status, access=view, **given)

    async def show(request: Request, _: str) -> Response:
        return await answer(request)

    async def add(request: Request, actor: str) -> Response:
        sent = await read_form(request)
        name, role, study = (str(sent.get(part, "")).strip() for part in ("name", "role", "study"))
        try:
            made = await run_in_threadpool(make_key, console, name, role, study or None, actor)
        except (Refusal, InputError) as error:
            status = error.status if isinstance(error, Refusal) else 422
            return await answer(request, status, name=name, role=role, study=study, error=str(error))
        return await answer(request, made=made, name=name, role=role, study=study)

    async def end_key(request: Request, actor: str) -> Response:
        name = str((await read_form(request)).get("name", ""))
        await run_in_threadpool(operators.revoke_key, console.coordinator.database, name, console.now, actor)
        return console.moved(request, "/system/access")

    async def end_session(request: Request, actor: str) -> Response:
        number = str((await read_form(request)).get("number", ""))
        await run_in_threadpool(operators.end_session, console.coordinator.database, number, console.now, actor)
        return console.moved(request, "/system/access")

    return [
        page("/system/access", "manager", show, "Show keys and sessions."),
        form("/system/access", "manager", add, "Make a key.", MOST_BYTES),
        form("/system/access/revoke", "manager", end_key, "Revoke a key.", MOST_BYTES),
        form("/system/access/end", "manager", end_session, "End a session.", MOST_BYTES),
    ]

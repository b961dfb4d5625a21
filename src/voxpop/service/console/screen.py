"""What all screens share: the coordinator, who is signed in, and the ways to reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from voxpop.service.console.live import Feed, Hub, LiveResponse
from voxpop.service.console.pages import html, redirect, render, render_part
from voxpop.service.operators import Session
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.study import life
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.web.routes import Role, Route, path_text

Method = TypeVar("Method", bound=Callable[..., Awaitable[Response]])


@dataclass(frozen=True)
class Console:
    """The coordinator as its pages know it."""

    coordinator: Coordinator
    open_to_all: bool  # anyone may look, without signing in
    nudge: Callable[[str], None]  # makes the scheduler look at a study at once
    problem: Callable[[], Coroutine[Any, Any, str | None]]  # says why the service cannot work, in one sentence
    workers: int = 1  # processes that serve together
    hub: Hub = field(default_factory=Hub)

    @property
    def now(self) -> float:
        """The time on the coordinator's clock."""
        return self.coordinator.context.clock()

    async def study(self, request: Request) -> str:
        """Return the study in the path; refuse one that who asks may not see: a draft, on an open service."""
        study, principal = study_of(request), session_of(request).principal
        if not principal.sees_drafts and await run_in_threadpool(life.is_draft, self.coordinator.database, study):
            raise no_study(study)
        return study

    def show(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Reply with a page."""
        return html(render(template, known_session(request), request.url.path, **values), status)

    def moved(self, request: Request, address: str) -> Response:
        """Send the browser to another page after a form was processed."""
        if "hx-request" in request.headers:
            return Response(status_code=200, headers={"hx-redirect": address})
        return redirect(address)

    def live(
        self,
        request: Request,
        feed: Feed,
        name: str,
        parts: Sequence[str] = (),
        narrow: Callable[[Any], Any] = lambda view: view,
    ) -> Response:
        """Keep parts of a page up to date, in which the view has this name; the part has it, too, if none is given.

        All browsers that watch the same feed share its view; `narrow` makes of it what this one has asked for.
        """
        session, here = session_of(request), request.url.path.removesuffix("/live") or "/"
        sent: dict[str, str] = {}  # a part that looks the same is left alone: somebody may be filling in a form in it

        def message(view: Any) -> str:
            given = {name: narrow(view)}
            made = {part: render_part(part, session, here, **given) for part in parts or [name]}
            new = "".join(text for part, text in made.items() if sent.get(part) != text)
            sent.update(made)
            return new

        return LiveResponse(self.hub, feed, message, self.coordinator, session)


def known_session(request: Request) -> Session | None:
    """Return the session that the role check found; None if there is none."""
    found: Session | None = getattr(request.state, "session", None)
    return found


def session_of(request: Request) -> Session:
    """Return the session of a request whose role is one of a signed-in browser."""
    found = known_session(request)
    assert found is not None, "the route's role checks the session"
    return found


def study_of(request: Request) -> str:
    """Return the study in the path; refuse one for which this key is not. Pages use `Console.study` instead."""
    study, principal = path_text(request, "study"), session_of(request).principal
    if not principal.sees(study):
        raise Refusal(403, f"the key of {principal.name!r} is for another study; ask an operator for the right one")
    return study


def require_operator(request: Request) -> None:
    """Refuse those who may only look."""
    principal = session_of(request).principal
    if not principal.operates:
        raise Refusal(403, f"the key of {principal.name!r} is for looking only; ask an operator")


def page(path: str, role: Role, method: str = "GET", most_bytes: int | None = None) -> Callable[[Method], Method]:
    """Declare a method of a screen as the handler of a page; its docstring says what the page is for."""

    def declare(handler: Method) -> Method:
        summary = (handler.__doc__ or "").partition("\n")[0]
        given: dict[str, Any] = {"media_type": "text/html", "most_bytes": most_bytes, "documented": False}
        handler.__dict__.setdefault("routes", []).append((method, path, role, summary, given))
        return handler

    return declare


def form(path: str, role: Role, most_bytes: int) -> Callable[[Method], Method]:
    """Declare the same of what a form is sent to, and how large it may be."""
    return page(path, role, "POST", most_bytes)


def routes_of(screen: object) -> list[Route]:
    """List the routes of a screen in the order of its methods."""
    return [
        Route(method, path, role, getattr(screen, name), summary, {200: None}, **given)
        for name, handler in vars(type(screen)).items()
        for method, path, role, summary, given in getattr(handler, "routes", ())
    ]

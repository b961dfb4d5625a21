"""What all screens share: who is signed in, forms, the ways to reply, and pages that stay up to date.

Pages stay up to date by server-sent events, with one look at the database for all browsers that watch a thing. A stream
ends with its session, and with the server: it marks its connection as endless (`web/connections.py`), so that a server
that stops closes it at once. Browsers come back by themselves. Files of forms are read into memory and never onto a
disk, as Starlette's own would be.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from functools import wraps
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import SplitResult, quote, urlsplit
from weakref import WeakValueDictionary

from starlette.concurrency import run_in_threadpool
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from voxpop.errors import InputError
from voxpop.io.cells import amount_of
from voxpop.service import logs, operators
from voxpop.service.console.pages import PAGE_HEADERS, html, redirect, render, render_part
from voxpop.service.operators import Session
from voxpop.service.refusals import Refusal
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.web.guard import ENDLESS, STOPPING
from voxpop.service.web.routes import Declared, Role, require_manager, route

LOOK_SECONDS = 1.0  # between two looks at a feed, unless it says otherwise
BEAT_SECONDS = 5.0  # after which a stream without news checks its session, and says that it lives
LOCAL = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,2000}")  # a path on this server, and nothing else
STREAM = "/live"  # the end of the addresses of streams
MOST_SMALL_FORM = 4096  # bytes of a form without files
MOST_STREAMS = 1000  # of one process
MOST_OF_BROWSER = 5  # streams of one session: browsers open six connections over HTTP/1.1, and the page needs one
STREAM_HEADERS = {**PAGE_HEADERS, "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}


@dataclass(frozen=True)
class Feed:
    """Something that can be watched."""

    key: str  # the same for all who watch the same
    view: Callable[[], Any]  # what pages show of it
    pause: float | None = None  # seconds between two looks at it; None: LOOK_SECONDS
    narrow: Callable[[Any], Any] = lambda view: view  # makes of the view, which all share, what this page has asked for


class _Look:
    """The newest look at a feed, which all who watch it share."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.pause, self.view, self.version = feed, feed.pause or LOOK_SECONDS, None, 0
        self._until, self._turn = 0.0, asyncio.Lock()

    async def refresh(self) -> bool:
        """Look again if the last look is old; return False if there is nothing left to look at."""
        async with self._turn:
            if time.monotonic() < self._until:
                return True
            try:
                view = await run_in_threadpool(self.feed.view)
                if not self.version or view != self.view:
                    self.view, self.version = view, self.version + 1
            except Exception as error:  # the database may be away; browsers keep what they have
                if isinstance(error, Refusal) and error.status == 404:
                    return False
                logs.fault("live", error)
            self._until = time.monotonic() + self.pause
        return True


class Hub:
    """All that is watched in a process."""

    def __init__(self) -> None:
        self._looks: WeakValueDictionary[str, _Look] = WeakValueDictionary()  # they end with their last watcher
        self.sessions: Counter[str] = Counter()  # streams by cookie

    @property
    def streams(self) -> int:
        """All streams that are open."""
        return self.sessions.total()

    def require_room(self, session: Session) -> None:
        """Refuse a stream that would be one too many; a page without one loads, and says that it stays as it is."""
        if self.streams >= MOST_STREAMS:
            raise Refusal(503, "too many pages are watched at once; close some, or try again later", retry_after=30)
        if session.cookie and self.sessions[session.cookie] >= MOST_OF_BROWSER:
            raise Refusal(
                503,
                f"{MOST_OF_BROWSER} other pages of this browser are kept up to date, and this one is not; close one of "
                "them and reload this one",
                retry_after=30,
            )

    def look(self, feed: Feed) -> _Look:
        """Return the look at a feed that is shared."""
        return self._looks.setdefault(feed.key, _Look(feed))


def event(text: str, name: str = "") -> bytes:
    """Write one server-sent event."""
    lines = [f"event: {name}"] if name else []
    return "\n".join([*lines, *(f"data: {line}" for line in text.splitlines() or [""]), "", ""]).encode()


def last_events(here: str, gone: bool = False) -> bytes:
    """Tell a page that its session has ended, or what it shows is gone, and that there is nothing more to come."""
    said = "there is no such study any more, and this page is no longer up to date" if gone else ""
    return event(render_part("notice", None, here, notice=said, ended=not gone)) + event("", "ended")


class LiveResponse(StreamingResponse):
    """A stream of messages about a feed, each made from its newest view."""

    def __init__(
        self, hub: Hub, feed: Feed, message: Callable[[Any], str], coordinator: Coordinator, session: Session
    ) -> None:
        hub.require_room(session)
        super().__init__((), headers=STREAM_HEADERS)
        self._hub, self._feed, self._message = hub, feed, message
        self._coordinator, self._session = coordinator, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ENDLESS] = True
        if not scope.get(STOPPING):
            self.body_iterator = self._events(scope["path"])
        try:
            await super().__call__(scope, receive, send)
        finally:  # the browser may have left while an event was sent, and not while one was awaited
            if isinstance(self.body_iterator, AsyncGenerator):
                await self.body_iterator.aclose()

    async def _events(self, path: str) -> AsyncGenerator[bytes, None]:
        look, seen, beat = self._hub.look(self._feed), 0, 0.0
        self._hub.sessions[self._session.cookie] += 1
        try:
            while True:
                there, now = await look.refresh(), time.monotonic()
                if not there or look.version != seen or now >= beat:
                    # before every event: whoever was signed out sees no more
                    if not there or not await self._still_signed_in():
                        yield last_events(path, not there)
                        return
                    news, seen, beat = look.version != seen, look.version, now + BEAT_SECONDS
                    yield event(self._message(look.view)) if news else b": still here\n\n"
                await asyncio.sleep(look.pause)
        except Exception as error:  # the browser comes back, and nobody else would know why it had to
            logs.fault("live", error)
        finally:
            self._hub.sessions -= Counter([self._session.cookie])  # forgets whoever has none left

    async def _still_signed_in(self) -> bool:
        if not self._session.cookie:  # of an open service, where nobody signs in
            return True
        now = self._coordinator.context.clock()
        given = (self._coordinator.database, self._session.cookie, now, True)
        try:
            return await run_in_threadpool(operators.session_of, *given) is not None
        except Exception as error:  # the database may be away
            logs.fault("live", error)
            return True


@dataclass(frozen=True)
class Console:
    """The coordinator as its pages know it, and the ways to reply."""

    coordinator: Coordinator
    open_to_all: bool  # anyone may look, without signing in
    nudge: Callable[[str], None]  # makes the scheduler look at a study at once
    problem: Callable[[], Coroutine[Any, Any, str | None]]  # says why the service cannot work, in one sentence
    workers: int = 1  # processes that serve together
    lag: Callable[[], float] = lambda: 0.0  # seconds since studies were last looked at
    hub: Hub = field(default_factory=Hub)

    @property
    def now(self) -> float:
        """The time on the coordinator's clock."""
        return self.coordinator.context.clock()

    def show(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Reply with a page."""
        session = getattr(request.state, "session", None)
        return html(render(template, session, request.url.path, **values), status)

    def moved(self, request: Request, address: str) -> Response:
        """Send the browser to another page after a form was processed."""
        if "hx-request" in request.headers:
            return Response(status_code=200, headers={"hx-redirect": address})
        return redirect(address)

    def live(self, request: Request, feed: Feed, name: str, parts: Sequence[str]) -> Response:
        """Keep parts of a page up to date, in which the view has this name."""
        session, here = request.state.session, request.url.path.removesuffix(STREAM) or "/"
        sent: dict[str, str] = {}  # a part that looks the same is left alone: somebody may be filling in a form in it

        def message(view: Any) -> str:
            given = {name: feed.narrow(view)}
            made = {part: render_part(part, session, here, **given) for part in parts}
            new = "".join(text for part, text in made.items() if sent.get(part) != text)
            sent.update(made)
            return new

        return LiveResponse(self.hub, feed, message, self.coordinator, session)


class Screens:
    """Handlers of pages and forms."""

    def __init__(self, console: Console) -> None:
        self.console, self.coordinator, self.database = console, console.coordinator, console.coordinator.database


def page(path: str, role: Role, method: str = "GET", **rest: Any) -> Callable[[Declared], Declared]:
    """Declare a method as the handler of a page."""
    return route(method, path, role, None, media_type="text/html", documented=False, **rest)


def form(path: str, role: Role, most_bytes: int = MOST_SMALL_FORM) -> Callable[[Declared], Declared]:
    """Declare a method as the handler of what a form is sent to, and how large that may be."""
    return page(path, role, "POST", most_bytes=most_bytes)


def live_page(
    path: str, role: Role, template: str, name: str = "", parts: Sequence[str] = (), **values: Any
) -> Callable[[Any], Any]:
    """Declare a page that stays up to date, and its stream, by a method that returns the feed of both.

    `name` is what the template calls the view, `parts` are kept up to date, both as the template unless given, and
    `values` are what else it shows.
    """
    name = name or template

    def declare(feed_of: Callable[..., Feed]) -> Any:
        @wraps(feed_of)
        def handler(self: Screens, request: Request, **given: Any) -> Response:
            feed = feed_of(self, request, **given)
            if not is_stream(request):
                return self.console.show(request, template, **{name: feed.narrow(feed.view())}, **given, **values)
            if role == "manager":
                require_manager(request.state.session.principal, request.path_params.get("study"))
            return self.console.live(request, feed, name, parts or [template])

        return page(path.rstrip("/") + STREAM, "live")(page(path, role)(handler))

    return declare


def is_stream(request: Request) -> bool:
    """Return True if a request is for the stream of a page, and not for a page."""
    return str(getattr(request.scope.get("endpoint"), "path", "")).endswith(STREAM)


class SignedOut(Refusal):
    """A request of a browser that is not signed in, or no longer."""

    def __init__(self, ended: bool) -> None:
        super().__init__(401, "nobody is signed in; sign in at /sign-in")
        self.ended = ended  # it came with a cookie


class FieldRefusal(Refusal):
    """What stands in a field of the form cannot be used."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(422, sentence)
        self.field = field  # its name, by which the page marks it


def refusal_page(scope: Scope, refusal: Refusal) -> Response | None:
    """Make the reply to a browser: a page, a message on the page that is open, or the way to sign in.

    Return None if a program has asked.
    """
    request = Request(scope)
    session, path = getattr(request.state, "session", None), scope["path"]  # not of the URL: its host may be nonsense
    if path.startswith("/v2/") or "text/html" not in request.headers.get("accept", ""):
        return None
    if is_stream(request):  # a browser would try again for ever if these were errors
        if isinstance(refusal, SignedOut):
            return Response(last_events(path), headers=STREAM_HEADERS)
        if refusal.status == 404:
            return Response(last_events(path, gone=True), headers=STREAM_HEADERS)
    htmx = "hx-request" in request.headers
    if isinstance(refusal, SignedOut):
        address = sign_in_address(request, refusal.ended)
        return Response(status_code=401, headers={"hx-redirect": address}) if htmx else redirect(address)
    if htmx:
        field = refusal.field if isinstance(refusal, FieldRefusal) else ""
        notice = render_part("notice", session, path, notice=refusal.sentence, ended=False, field=field)
        return html(notice, refusal.status)
    status = HTTPStatus(refusal.status)
    return html(render("error", session, path, status=status, sentence=refusal.sentence), status)


def address_of(text: str) -> SplitResult:
    """Take an address apart that a stranger may have sent; nonsense has no parts."""
    try:
        return urlsplit(text)
    except ValueError:
        return urlsplit("")


def local_path(address: str) -> str:
    """Return an address if it is a path on this server, and otherwise that of the first page."""
    return address if LOCAL.fullmatch(address) and not address.startswith("/sign-") else "/"


def sign_in_address(request: Request, ended: bool) -> str:
    """Return where to sign in, and from there back to what was asked for."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if "hx-request" in request.headers:
        shown = address_of(request.headers.get("hx-current-url", ""))
        wanted = shown.path + (f"?{shown.query}" if shown.query else "")
    elif request.method != "GET":
        wanted = "/"
    back = local_path(wanted)
    parts = ([] if back == "/" else [f"next={quote(back, safe='/')}"]) + (["ended"] if ended else [])
    return "/sign-in" + ("?" + "&".join(parts) if parts else "")


# What a form holds. A number that can be read in two ways is refused: nobody would see what became of it.


MOST_FIELDS = 100
MOST_TEXT = 8 * 2**20  # bytes of one field
IN_MEMORY = 2**40  # bytes that a file may have before it is written to a disk: more than any route takes


class _Parser(MultiPartParser):
    spool_max_size = IN_MEMORY


class Form(dict[str, str | tuple[str, bytes]]):
    """The fields of a form by name; a file is its name and content."""

    @classmethod
    async def read(cls, request: Request) -> Self:
        """Read the form of a request, once; the route limits how large it is as a whole."""
        if not hasattr(request.state, "form"):
            try:
                request.state.form = cls(await _parts_of(request))
            except MultiPartException:  # too many fields, or too long ones, whatever the kind of form
                raise Refusal(400, "the form cannot be read; send it again from its page") from None
        found: Self = request.state.form
        return found

    def text(self, name: str) -> str:
        """Return a field without spaces around it; empty if there is none."""
        value = self.get(name, "")
        return value.strip() if isinstance(value, str) else ""

    def file(self, name: str) -> tuple[str, bytes]:
        """Return the name and the content of an uploaded file; both are empty if none was chosen."""
        value = self.get(name, "")
        return ("", b"") if isinstance(value, str) else value


async def _parts_of(request: Request) -> dict[str, str | tuple[str, bytes]]:
    """Read the parts of a form; files are closed whatever happens, and only their content is kept."""
    said = EmailMessage()
    said["content-type"] = request.headers.get("content-type", "") or "text/plain"
    kind = said.get_content_type()
    if said.get_content_charset("utf-8") != "utf-8":  # some of Python's make text that can be written nowhere
        raise Refusal(415, "a form is text in UTF-8; send it from its page")
    if kind == "application/x-www-form-urlencoded":
        found = await FormParser(request.headers, request.stream()).parse()
        return {name: str(value) for name, value in found.items()}
    if kind != "multipart/form-data":
        raise Refusal(415, "this takes a form; send it from its page")
    parser = _Parser(request.headers, request.stream(), max_files=2, max_fields=MOST_FIELDS, max_part_size=MOST_TEXT)
    try:
        form = await parser.parse()
        return {
            name: value if isinstance(value, str) else (value.filename or "", value.file.read())
            for name, value in form.items()
        }
    finally:
        for file in parser._files_to_close_on_error:
            file.close()


def whole(label: str, text: str) -> int:
    """Read a whole number; commas and spaces may stand between thousands, and nowhere else.

    >>> whole("Rounds", "20,000"), whole("Rounds", "1 000"), whole("Rounds", "7")
    (20000, 1000, 7)
    """
    amount = amount_of(text)
    value = None if amount is None or amount.unit or "." in text else amount.point
    if value is None or value % 1 or abs(value) > 2**53:  # beyond which digits would get lost
        raise InputError(f"{label} must be a whole number such as 20000, got {text!r:.40}")
    return int(value)


def decimal(label: str, text: str) -> float:
    """Read a number with a decimal point or comma.

    >>> decimal("Epsilon", "0.5"), decimal("Epsilon", "0,5"), decimal("Epsilon", "1 000")
    (0.5, 0.5, 1000.0)
    """
    amount = amount_of(text)
    read = (amount.point, amount.comma if "," in text else None) if amount is not None and not amount.unit else ()
    ways = {value for value in read if value is not None}
    if len(ways) == 2:
        written = f"{text.replace(',', '')} or {text.replace(',', '.')}"
        raise InputError(f"{label} must be a number that is read in one way; write {written} instead of {text}")
    if not ways:
        raise InputError(f"{label} must be a number such as 0.5, got {text!r:.40}")
    return ways.pop()

"""The screen that makes a new study: a pilot or a study file, what it says, a rehearsal, the rules, and the start."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from voxpop.errors import InputError
from voxpop.service.console.computations import Computations, Pilot, Price
from voxpop.service.console.forms import file_of, read_form, text_of
from voxpop.service.console.pages import html, render
from voxpop.service.console.planning import (
    ASKING,
    FIELDS,
    STOPPING,
    Trust,
    Typed,
    enrolment_of,
    is_waves,
    plan_of,
    privacy_of,
    tables_of,
    trust_models,
    typed_of,
)
from voxpop.service.console.screen import Console, form, page, session_of
from voxpop.service.refusals import Refusal
from voxpop.service.study.definition import Definition
from voxpop.service.web.routes import Route

MOST_PILOT = 20 * 2**20  # bytes
MOST_STUDY_FILE = 8 * 2**20
MOST_BODY = MOST_PILOT + 2**16  # with the other fields of the form
COLUMNS = ("ignore", "choice", "integer", "log", "horizon", "points")
REHEARSALS, SECONDS = 10, 6.0  # of the chosen promise
COMPARED, COMPARE_SECONDS = 6, 12.0  # of every promise


@dataclass(frozen=True)
class PlanView:
    """The form: a study file, and what is typed beside it."""

    file: str
    text: str
    pilot: Pilot | None  # None: a study file was uploaded
    typed: Typed
    waves: bool  # the rules about stopping apply
    decisions: int
    people: int  # of the pilot
    trust: tuple[Trust, ...]


def routes(console: Console) -> list[Route]:
    """Declare the screen. What is uploaded is limited before it is read."""
    screen = NewStudyScreen(console)
    return [
        page("/new", "manager", screen.ask, "Begin a new study."),
        form("/new", "manager", screen.upload, "Read a pilot or a study file.", MOST_BODY),
        form("/new/rehearsal", "manager", screen.rehearse, "Rehearse a new study.", MOST_BODY),
        form("/new/study", "manager", screen.create, "Save a new study, or start it.", MOST_BODY),
        page("/new/rehearsal", "manager", screen.again, "Begin a new study."),
        page("/new/study", "manager", screen.again, "Begin a new study."),
    ]


class NewStudyScreen:
    """The handlers of the screen; nothing is kept between them."""

    def __init__(self, console: Console) -> None:
        self.console, self.coordinator, self.computations = console, console.coordinator, Computations()

    async def ask(self, request: Request, _: str) -> Response:
        """Ask for a file; an address can say how to read it."""
        return self._ask(request, typed={name: request.query_params.get(name, "") for name in COLUMNS})

    async def again(self, request: Request, _: str) -> Response:
        """Lead those who reload the address of a form back to the beginning."""
        return self.console.moved(request, "/new")

    async def upload(self, request: Request, _: str) -> Response:
        """Read the file, and show what it says; if it cannot be used, say why beside the form."""
        given = await read_form(request)
        try:
            view = await self._read(given)
        except InputError as error:
            return self._ask(request, 422, str(error), {name: text_of(given, name) for name in COLUMNS})
        except Refusal as refusal:
            return self._ask(
                request, refusal.status, refusal.sentence, {name: text_of(given, name) for name in COLUMNS}
            )
        return self._show(request, view)

    def _show(self, request: Request, view: PlanView, **rehearsed: Any) -> Response:
        """Show the plan. Like every page it is stored in no browser, because it holds the pilot's averages."""
        usual = {"prices": (), "compare": False, "reward": ""}
        shown = {"view": view, "stopping": STOPPING, "asking": ASKING, **usual, **rehearsed}
        return self.console.show(request, "new_plan", **shown)

    def _ask(self, request: Request, status: int = 200, error: str = "", typed: Typed | None = None) -> Response:
        return self.console.show(
            request, "new", status, error=error, typed=typed or dict.fromkeys(COLUMNS, ""), most=MOST_PILOT
        )

    async def _read(self, given: FormData) -> PlanView:
        file, content = await file_of(given, "pilot")
        if file or content:
            typed = {name: text_of(given, name) for name in COLUMNS}
            encoded = base64.b64encode(content).decode()
            found = await self.computations.run("calibrate", file=file, content=encoded, typed=typed)
            pilot = Pilot(**found)
            return await run_in_threadpool(self._plan, pilot.file, pilot.text, pilot)
        file, content = await file_of(given, "study")
        if not file:
            raise InputError("no file was chosen; choose a pilot (CSV) or a study file (TOML)")
        if len(content) > MOST_STUDY_FILE:
            raise InputError(
                f"{file!r:.80} is larger than {MOST_STUDY_FILE // 2**20} MB; create it with: voxpop study create"
            )
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InputError(
                f"{file!r:.80} is no text, so it is no study file; choose a file that ends in .toml"
            ) from None
        return await run_in_threadpool(self._plan, file, text, None)

    def _plan(self, file: str, text: str, pilot: Pilot | None) -> PlanView:
        """Check a study file as it is, and fill in the form."""
        typed = typed_of(file, text)
        _, definition = plan_of(file, text, typed)
        tables = tables_of(file, text, typed)
        return PlanView(
            file,
            text,
            pilot,
            typed,
            is_waves(tables),
            definition.problem.size,
            sum(group.people for group in definition.problem.pilot),
            trust_models(self.coordinator.context.shuffler is not None),
        )

    async def rehearse(self, request: Request, _: str) -> Response:
        """Rehearse what is in the form, or compare the trust models."""
        given = await read_form(request)
        file, text, typed = _sent(given)
        tables = await run_in_threadpool(tables_of, file, text, typed)
        compare = text_of(given, "compare") == "yes"
        chosen = tables.get("privacy")
        promises = self._promises(typed, tables) if compare else [(_label(chosen), chosen)]
        most, within = (COMPARED, COMPARE_SECONDS) if compare else (REHEARSALS, SECONDS)
        parts: dict[str, Any] = {"tables": tables, "promises": promises, "most": most, "seconds": within}
        found = [Price(**price) for price in await self.computations.run("rehearse", **parts)]
        shown = {"prices": found, "compare": compare, "reward": tables.get("reward", "reward")}
        if "hx-request" in request.headers:
            return html(render("parts/rehearsal", session_of(request), request.url.path, **shown))
        view = await run_in_threadpool(self._plan, file, text, None)
        code = text_of(given, "enrolment")
        return self._show(request, replace(view, typed={**view.typed, **typed, "enrolment": code}), **shown)

    def _promises(self, typed: Typed, tables: dict[str, Any]) -> list[tuple[str, Any]]:
        """Return every promise that can be made here, with the epsilon that is typed."""
        models = [
            trust.model for trust in trust_models(self.coordinator.context.shuffler is not None) if trust.lacks is None
        ]
        made = [privacy_of({**typed, "model": model}, tables) for model in models]
        return [(_label(promise), promise) for promise in made]

    async def create(self, request: Request, actor: str) -> Response:
        """Save the study, or start it; sending the form twice makes one study."""
        given = await read_form(request)
        name, definition = await run_in_threadpool(self._checked, given)
        draft = text_of(given, "then") != "start"
        code = enrolment_of({"enrolment": text_of(given, "enrolment")})
        if not draft:
            await self._refuse_nobody(definition)
        await run_in_threadpool(self.coordinator.create, name, definition, code, draft, actor)
        self.console.nudge(name)
        return self.console.moved(request, f"/studies/{name}")

    async def _refuse_nobody(self, definition: Definition) -> None:
        """Refuse to start a study that would end at once, for good: its name could not be used again."""
        try:
            reason = await self.computations.run("begin", definition=definition.as_dict())
        except Refusal:  # there is no time to find out; the coordinator will
            return
        if reason:
            raise InputError(
                f"nobody would be asked, and the study would end at once: {reason}; change when to stop asking or what "
                "people are promised, or save it as a draft and start that"
            )

    def _checked(self, given: FormData) -> tuple[str, Definition]:
        return plan_of(*_sent(given))


def _sent(given: FormData) -> tuple[str, str, dict[str, str]]:
    """Return the study file and what was typed beside it."""
    names = ("name", "model", "epsilon", "privacy_delta", *(field.name for field in FIELDS))
    text = text_of(given, "text")
    if not text:
        raise InputError("the study file is missing; begin again at /new")
    return text_of(given, "file") or "study.toml", text, {name: text_of(given, name) for name in names if name in given}


def _label(promise: Any) -> str:
    return "nothing promised" if promise is None else f"{promise['model']}, epsilon {promise['epsilon']:g}"

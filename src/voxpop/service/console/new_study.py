"""The screen that makes a new study: a pilot or a study file, what it says, a rehearsal, the rules, and the start.

The study file is the state of the form: it comes with every page, goes back with every form, and is nowhere else. So
any coordinator can take the next step, and going back or reloading breaks nothing. What can be typed beside it is made
from the table of options (`model/options.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import msgspec
from anyio import from_thread
from starlette.requests import Request
from starlette.responses import Response

from voxpop.errors import InputError, require_choice
from voxpop.io.studyfile import calendar_of, parse_study
from voxpop.model.calendar import Calendar
from voxpop.model.direction import Direction
from voxpop.model.money import Money
from voxpop.model.options import Option, options_of
from voxpop.model.problem import REWARD_RANGE
from voxpop.policies import DEFAULT, policy_options
from voxpop.privacy import RELEASES, NoPrivacy
from voxpop.privacy.models import Private, release_type_of
from voxpop.service.console.computations import READING, Computations, Pilot
from voxpop.service.console.forms import Form, decimal, whole
from voxpop.service.console.pages import html, render
from voxpop.service.console.screen import Console, FieldRefusal, Screens, form, page
from voxpop.service.operators import Session
from voxpop.service.refusals import Refusal
from voxpop.service.study.definition import Definition, Rules, definition_of, require_code, require_name

MOST_PILOT = 20 * 2**20  # bytes
MOST_STUDY_FILE = 8 * 2**20
MOST_HISTORY = 2**20
MOST_BODY = MOST_PILOT + MOST_HISTORY + 2**16  # with the other fields of the form
REHEARSALS, SECONDS = 10, 6.0  # of the chosen promise
COMPARED, COMPARE_SECONDS = 6, 12.0  # of every promise
EPSILON = 5.0  # that is promised unless something else is typed

Typed = Mapping[str, str]  # what is in the form's fields, by their names


@dataclass(frozen=True)
class Field:
    """An option in the form, and its table in the study file; empty leaves it out."""

    option: Option
    table: str = ""  # empty: at the top of the file

    @property
    def name(self) -> str:
        """Its name in the form."""
        return f"{self.table}_{self.option.name}".removeprefix("_")

    @property
    def usual(self) -> str:
        """What holds if it is left out; empty if nothing does."""
        known = self.option.example if self.option.required else self.option.default
        return "" if known is None else written(known)

    def read(self, text: str) -> Any:
        """Read what was typed; refuse what the option does not allow, by its label."""
        one = self.option
        readers = {int: whole, float: decimal}
        try:
            value: Any = readers[one.kind](one.label, text) if one.kind in readers else text
            if one.kind is object:  # a list
                value = [part.strip() for part in text.split(",") if part.strip()]
            replace(one, called=one.label).check(value)
        except InputError as error:
            raise FieldRefusal(self.name, str(error)) from None
        return value


def written(value: Any) -> str:
    """Write a setting as people type it, without losing a digit.

    >>> written(5.0), written(0.1234567), written(3), written(["sunday", "2026-12-24"])
    ('5', '0.1234567', '3', 'sunday, 2026-12-24')
    """
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


HORIZON = Option(
    "horizon",
    None,
    int,
    least=1,
    label="Rounds",
    help="For how many rounds the decision will be used, in all: 36500 for 100 sales a day and a year.",
)
REWARD = Option(
    "reward", "reward", str, label="What the reward is called", help="As it is to stand on pages: profit, minutes."
)
DIRECTION = Option(
    "direction",
    Direction.MAXIMIZE.value,
    str,
    choices=tuple(each.value for each in Direction),
    label="What is best",
    help="Maximize rewards, or minimize costs: devices then record costs, and the least is best.",
)
STUDY = (Field(HORIZON), Field(REWARD), Field(DIRECTION), Field(REWARD_RANGE, "model"))
WORTH = tuple(Field(one, "money") for one in options_of(Money))
ASKING = (*STUDY, *(Field(one, "service") for one in options_of(Rules)), *WORTH)
CALENDAR = tuple(Field(one, "calendar") for one in options_of(Calendar))
STOPPING = tuple(Field(one, "policy") for one in policy_options(DEFAULT) if one.panel and one.name != "who")
TRUST = [release_type_of(model) for model in (NoPrivacy.model, *RELEASES)]  # the trust models, by their releases
PROMISED = tuple(Field(one, "privacy") for one in options_of(Private) if one.name not in ("model", "calibration"))


def stopping_of(tables: dict[str, Any]) -> tuple[Field, ...]:
    """Return the options about stopping; policies other than the usual one have rules of their own."""
    return STOPPING if _table(tables, "policy").get("name", DEFAULT) == DEFAULT else ()


def _table(tables: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a table of a study file, or its top without a name; one that is missing is empty."""
    table = tables.get(name, {}) if name else tables
    if not isinstance(table, dict):
        raise InputError(f"[{name}] must be a table, got {table!r:.40}; correct the file")
    return table


def typed_of(file: str, tables: dict[str, Any]) -> dict[str, str]:
    """Return what the form shows for a study file."""
    name = re.sub(r"[^a-z0-9]+", "-", str(tables.get("name", Path(file).stem)).lower()).strip("-")[:63]
    fields = (*ASKING, *CALENDAR, *stopping_of(tables), *PROMISED)
    found = {field.name: _table(tables, field.table).get(field.option.name) for field in fields}
    typed = {name: "" if value is None else written(value) for name, value in found.items()}
    model = str(_table(tables, "privacy").get("model", NoPrivacy.model))
    return {**typed, "name": name or "study", "enrolment": "", "privacy_model": model}


def entered(tables: dict[str, Any], typed: Typed) -> dict[str, Any]:
    """Return the tables of a study file with what was typed in place of what they said."""
    made = deepcopy(tables)
    for field in (*ASKING, *CALENDAR, *stopping_of(tables), *PROMISED):
        if field.name in typed:
            table = _table(made, field.table)
            table.pop(field.option.name, None)
            if typed[field.name]:
                table[field.option.name] = field.read(typed[field.name])
                made |= {field.table: table} if field.table else {}
    _require_dates(_table(made, "calendar"))
    model = require_choice("trust model", typed.get("privacy_model", ""), [NoPrivacy.model, *RELEASES])
    promise = made.pop("privacy", {})  # read even if nothing is promised: what is typed is not ignored silently
    made = {name: value for name, value in made.items() if value != {}}
    if model == NoPrivacy.model:
        return made
    if _table(tables, "privacy").get("model") != model:  # what the file said was about another one
        promise = {field.option.name: promise[field.option.name] for field in PROMISED if field.option.name in promise}
    return {**made, "privacy": {"epsilon": EPSILON, **promise, "model": model}}


def _require_dates(table: dict[str, Any]) -> None:
    """Refuse a calendar that lacks something or cannot be used, at the field that is to blame."""
    for field in CALENDAR if table else ():
        if field.option.required and field.option.name not in table:
            label, example = field.option.label, field.option.example
            raise FieldRefusal(field.name, f"“{label}” is empty; a calendar needs it, such as {example}")
    known = {field.option.name for field in CALENDAR}
    try:
        _ = Calendar(**{name: value for name, value in table.items() if name in known}) if table else None
    except InputError as error:
        blamed = (field.name for field in CALENDAR if f"calendar.{field.option.name}" in str(error))
        raise FieldRefusal(next(blamed, CALENDAR[0].name), str(error)) from None


def plan_of(file: str, text: str, typed: Typed) -> tuple[str, Definition]:
    """Make the name and the definition of the new study; refuse what cannot be used."""
    name = require_name(typed.get("name", ""))
    tables = entered(parse_study(Path(file), text), typed)
    return name, definition_of(Path(file), {**tables, "name": name})[1]


class NewStudyScreen(Screens):
    """The handlers of the screen; nothing is kept between them, and what is uploaded is limited before it is read."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.computations = Computations()

    @property
    def _second(self) -> bool:
        """Whether a shuffler or helper is there."""
        return self.coordinator.context.shuffler is not None

    @page("/new", "manager")
    def ask(self, request: Request) -> Response:
        """Ask for a file; an address can say how to read it."""
        return self._ask(request, {name: request.query_params.get(name, "") for name in READING})

    def _ask(self, request: Request, typed: Typed, status: int = 200, error: str = "") -> Response:
        most = {"most": MOST_PILOT, "most_file": MOST_STUDY_FILE, "most_history": MOST_HISTORY}
        return self.console.show(request, "new", status, reading=READING, typed=typed, error=error, **most)

    @page("/new/rehearsal", "manager")
    @page("/new/study", "manager")
    def again(self, request: Request) -> Response:
        """Lead those who reload the address of a form back to the beginning."""
        return self.console.moved(request, "/new")

    @form("/new", "manager", MOST_BODY)
    def upload(self, request: Request, sent: Form) -> Response:
        """Read the file, and show what it says; if it cannot be used, say why beside the form."""
        typed = {name: sent.text(name) for name in READING}
        try:
            return self._plan(request, *self._read(sent, typed))
        except (InputError, Refusal) as error:
            return self._ask(request, typed, getattr(error, "status", 422), str(error))

    def _read(self, sent: Form, typed: Typed) -> tuple[str, str, Pilot | None]:
        """Return the name and the text of a study file, and the pilot from which it was made, if there is one."""
        file, content = sent.file("pilot")
        if file or content:
            history = sent.file("history")
            if len(history[1]) > MOST_HISTORY:
                raise InputError(f"{history[0]!r:.80} is larger than 1 MiB; give its last 1,500 rounds, which count")
            found = self._compute("calibrate", file=file, content=content, typed=typed, history=history)
            pilot = msgspec.convert(found, Pilot)
            return pilot.file, pilot.text, pilot
        file, content = sent.file("study")
        if not file:
            raise InputError("no file was chosen; choose a pilot (CSV) or a study file (TOML)")
        if len(content) > MOST_STUDY_FILE:
            most = MOST_STUDY_FILE // 2**20
            raise InputError(f"{file!r:.80} is larger than {most} MB; create it with: voxpop study create")
        try:
            return file, content.decode("utf-8-sig"), None
        except UnicodeDecodeError:
            sentence = f"{file!r:.80} is no text, so it is no study file; choose a file that ends in .toml"
            raise InputError(sentence) from None

    def _compute(self, task: str, **given: Any) -> Any:
        return from_thread.run(partial(self.computations.run, task, **given))

    def _plan(
        self, request: Request, file: str, text: str, pilot: Pilot | None, typed: Typed | None = None, **more: Any
    ) -> Response:
        """Check a study file as it is, and show it with the form; what is `typed` stays.

        Like every page it is stored in no browser, because it holds the pilot's averages.
        """
        tables = parse_study(Path(file), text)
        usual = typed_of(file, tables)
        problem = plan_of(file, text, usual)[1].problem
        view = {
            "file": file,
            "text": text,
            "pilot": pilot,
            "typed": {**usual, **(typed or {})},
            "decisions": problem.size,
            "people": sum(group.people for group in problem.pilot),
            "second": self._second,
            "stopping": stopping_of(tables),  # empty: the file's policy has rules of its own
        }
        shown = {"asking": ASKING, "calendar": CALENDAR, "zones": sorted(available_timezones()), "promised": PROMISED}
        rehearsal = {"prices": (), "compare": False, "reward": "", "dates": None, **more}
        return self.console.show(request, "new_plan", view=view, trust_models=TRUST, **{**shown, **rehearsal})

    @form("/new/rehearsal", "manager", MOST_BODY)
    def rehearse(self, request: Request, session: Session, sent: Form) -> Response:
        """Rehearse what is in the form, or compare the trust models."""
        file, text, typed = _sent(sent)
        compare = sent.text("compare") == "yes"
        tables, promises = self._promises(file, text, typed, compare)
        most, seconds = (COMPARED, COMPARE_SECONDS) if compare else (REHEARSALS, SECONDS)
        found = self._compute("rehearse", tables=tables, promises=promises, most=most, seconds=seconds)
        measure = Direction.of(tables.get("direction", Direction.MAXIMIZE)).measure
        shown = {"prices": found, "compare": compare, "reward": tables.get("reward", measure)}
        shown["dates"] = calendar_of(Path(file), tables)
        if "hx-request" in request.headers:
            return html(render("parts/rehearsal", session, request.url.path, **shown))
        return self._plan(request, file, text, None, typed, **shown)

    def _promises(self, file: str, text: str, typed: Typed, compare: bool) -> tuple[dict[str, Any], list[Any]]:
        """Return the study file with what was typed, and its promise, or every promise that can be made here."""
        tables = parse_study(Path(file), text)
        chosen = entered(tables, typed)
        made = [chosen.get("privacy")]
        if compare:
            models = [kind.model for kind in TRUST if self._second or kind.second is None]
            made = [entered(tables, {**typed, "privacy_model": model}).get("privacy") for model in models]
        return chosen, [(_label(promise), promise) for promise in made]

    @form("/new/study", "manager", MOST_BODY)
    def create(self, request: Request, caller: str, sent: Form) -> Response:
        """Save the study, or start it; sending the form twice makes one study."""
        name, definition = plan_of(*(given := _sent(sent)))
        draft, code = sent.text("then") != "start", given[2].get("enrolment")
        code = require_code(code) if code else None
        if not draft:
            self._refuse_nobody(definition)
        self.coordinator.create(name, definition, code, draft, caller)
        self.console.nudge(name)
        return self.console.moved(request, f"/studies/{name}")

    def _refuse_nobody(self, definition: Definition) -> None:
        """Refuse to start a study that would end at once, for good: its name could not be used again."""
        try:
            reason = self._compute("begin", definition=definition.encode())
        except Refusal:  # there is no time to find out; the coordinator will
            return
        if reason:
            raise InputError(
                f"nobody would be asked, and the study would end at once: {reason}; change when to stop asking or what "
                "people are promised, or save it as a draft and start that"
            )


def _sent(sent: Form) -> tuple[str, str, dict[str, str]]:
    """Return the study file and what was typed beside it."""
    text = sent.text("text")
    if not text:
        raise InputError("the study file is missing; begin again at /new")
    fields = (*ASKING, *CALENDAR, *STOPPING, *PROMISED)
    names = ("name", "enrolment", "privacy_model", *(field.name for field in fields))
    typed = {name: sent.text(name) for name in names if name in sent}
    return sent.text("file") or "study.toml", text, typed


def _label(promise: Any) -> str:
    return "nothing promised" if promise is None else f"{promise['model']}, epsilon {promise['epsilon']:g}"

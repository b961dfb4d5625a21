"""The screens that make a new study, in four steps: the pilot, the decisions, asking and privacy, the start.

The first step reads a file, which the browser keeps in its form until the study is a draft. From then on the draft is
the state of the form: a step shows it as a study file and replaces it, so any coordinator can take the next one, and
going back or reloading breaks nothing. What can be typed is made from the table of options (`model/options.py`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from voxpop.io.studyfile import calendar_of, parse_study, space_of
from voxpop.model.calendar import Calendar
from voxpop.model.direction import Direction
from voxpop.model.menu import Menu
from voxpop.model.money import Money
from voxpop.model.options import Option, options_of
from voxpop.model.problem import REWARD_RANGE
from voxpop.model.words import describe
from voxpop.policies import DEFAULT, policy_options
from voxpop.privacy import RELEASES, NoPrivacy
from voxpop.privacy.models import Private, release_type_of
from voxpop.service.console.computations import ROLE, ROLES, Computations, Pilot, Price, pilot_view
from voxpop.service.console.pages import html, render
from voxpop.service.console.screen import Console, FieldRefusal, Form, Screens, decimal, form, page, whole
from voxpop.service.operators import Session
from voxpop.service.refusals import Refusal
from voxpop.service.study import life
from voxpop.service.study.definition import (
    Definition,
    Rules,
    definition_of,
    require_code,
    require_name,
    study_text,
)

MOST_PILOT = 20 * 2**20  # bytes
MOST_STUDY_FILE = 8 * 2**20
MOST_HISTORY = 2**20
MOST_BODY = MOST_PILOT + MOST_HISTORY + 2**16  # with the other fields of the form
REHEARSALS, SECONDS = 20, 60.0  # of the chosen promise
COMPARED, COMPARE_SECONDS = 6, 90.0  # of every promise
LAST_SECONDS = 120.0  # of any rehearsal, after which it is ended
MOST_SHOWN = 60  # values of a parameter that a field shows
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

    >>> written(5.0), written(0.1234567), written(3), written(["sunday", "2026-12-24"]), written([1.0, 2.5])
    ('5', '0.1234567', '3', 'sunday, 2026-12-24', '1, 2.5')
    """
    if isinstance(value, list | tuple):
        return ", ".join(map(written, value))
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
ONLY = Option(
    "only",
    "",
    str,
    label="Only such decisions",
    help="A formula, such as price <= 3 or plan == 'plus'. Empty: all combinations.",
)
STUDY = (Field(HORIZON), Field(REWARD), Field(DIRECTION), Field(REWARD_RANGE, "model"))
WORTH = tuple(Field(one, "money") for one in options_of(Money))
RULES = tuple(Field(one, "service") for one in options_of(Rules))
ASKING = (*STUDY, *RULES, *WORTH)
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
    return {**typed, **ladder_of(tables), "name": name or "study", "enrolment": "", "privacy_model": model}


def ladder_of(tables: dict[str, Any]) -> dict[str, str]:
    """Return what the form shows of the decisions that exist: the values of each number, and a formula."""
    decisions, found = _table(tables, "decisions"), dict[str, str]()
    for name, table in _table(tables, "parameters").items():
        if isinstance(table, dict) and table.get("type") != "choice":
            values = table.get("values") or sorted({label.get(name) for label in decisions.get("allowed", ())})
            found[f"values_{name}"] = written(values)
            found[f"step_{name}"] = written(table["step"]) if "step" in table else ""
            found[f"points_{name}"] = written(table["points"]) if "points" in table else ""
    return {**found, "decisions_only": str(decisions.get("only", ""))}


def _climb(tables: dict[str, Any], typed: Typed) -> None:
    """Put the values and the formula that were typed into the tables, unless they say nothing new."""
    shown = ladder_of(tables)
    if all(typed.get(name, text) == text for name, text in shown.items()):
        return
    said = {**shown, **{name: typed[name] for name in shown if name in typed}}
    tables["decisions"] = {"only": said["decisions_only"]} if said["decisions_only"] else {}
    for name, table in tables["parameters"].items():
        if f"values_{name}" not in shown:
            continue
        for key in ("values", "step", "points"):
            table.pop(key, None)
        new = [key for key in ("step", "points", "values") if said[f"{key}_{name}"] != shown[f"{key}_{name}"]]
        key = next((key for key in (*new, "step", "points", "values") if (text := said[f"{key}_{name}"])), "values")
        text = said[f"{key}_{name}"]
        with at_field(f"{key}_{name}"):
            if key == "points":
                table["points"] = whole("The number of values", text)
            elif key == "step":
                table["step"] = decimal("The step", text)
            else:
                listed = [decimal(f"A value of {name}", part) for part in text.split(", " if ", " in text else ",")]
                integer = table.get("type") == "integer"
                table["values"] = [int(value) if integer and value % 1 == 0 else value for value in listed]
            said_alone: Any = {key: {name: table[key]}}
            Menu.of(**said_alone).decisions(space_of({"parameters": {name: table}}))


@contextmanager
def at_field(name: str) -> Iterator[None]:
    """Blame a field for what is refused here."""
    try:
        yield
    except InputError as error:
        raise FieldRefusal(name, str(error)) from None


def entered(tables: dict[str, Any], typed: Typed) -> dict[str, Any]:
    """Return the tables of a study file with what was typed in place of what they said."""
    made = deepcopy(tables)
    _climb(made, typed)
    for field in (*ASKING, *CALENDAR, *stopping_of(tables), *PROMISED):
        if field.name in typed:
            table = _table(made, field.table)
            table.pop(field.option.name, None)
            if typed[field.name]:
                table[field.option.name] = field.read(typed[field.name])
                made |= {field.table: table} if field.table else {}
    model = require_choice("trust model", typed.get("privacy_model", ""), [NoPrivacy.model, *RELEASES])
    promise = made.pop("privacy", {})  # read even if nothing is promised: what is typed is not ignored silently
    made = {name: value for name, value in made.items() if value != {}}
    _require_dates(made)
    if model == NoPrivacy.model:
        return made
    if _table(tables, "privacy").get("model") != model:  # what the file said was about another one
        promise = {field.option.name: promise[field.option.name] for field in PROMISED if field.option.name in promise}
    return {**made, "privacy": {"epsilon": EPSILON, **promise, "model": model}}


def _require_dates(tables: dict[str, Any]) -> None:
    """Refuse a calendar that lacks something or cannot be used, at the field that is to blame."""
    for field in CALENDAR if "calendar" in tables else ():
        if field.option.required and field.option.name not in tables["calendar"]:
            label, example = field.option.label, field.option.example
            raise FieldRefusal(field.name, f"“{label}” is empty; a calendar needs it, such as {example}")
    try:
        calendar_of(Path("study"), tables)
    except InputError as error:
        raise blamed(error) from None


def plan_of(file: str, text: str, typed: Typed) -> tuple[str, Definition]:
    """Make the name and the definition of the new study; refuse what cannot be used, at the field that is to blame."""
    with at_field("name"):
        name = require_name(typed.get("name", ""))
    tables = entered(parse_study(Path(file), text), typed)
    try:
        return name, definition_of(Path(file), {**tables, "name": name})[1]
    except InputError as error:
        raise blamed(error) from None


def blamed(error: InputError) -> InputError | FieldRefusal:
    """Find the field that an error of the whole study is about: the one whose option it names."""
    said = re.sub(r"\W+", " ", str(error).replace("_", "\0")).replace("\0", "_").lower().split()
    fields = [Field(ONLY, "decisions"), *CALENDAR, *PROMISED, *STOPPING, *RULES, *STUDY, *WORTH]
    found = [(said.index(field.option.name), field.name) for field in fields if field.option.name in said]
    if "formula" in said or "leaves" in said:
        return FieldRefusal("decisions_only", str(error))
    return FieldRefusal(min(found)[1], str(error)) if found else error


STEPS = {"pilot": "Pilot", "decisions": "Decisions", "people": "People", "rehearsal": "Start"}
NEXT = dict(zip(STEPS, [*STEPS][1:], strict=False))


class NewStudyScreen(Screens):
    """The handlers of the screens; what is uploaded is limited before it is read, and kept only as a draft."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.computations, self.rehearsals = Computations(), Computations(LAST_SECONDS)
        self._results: dict[str, tuple[str, Any]] = {}  # the last rehearsal of each draft that said something

    @property
    def _second(self) -> bool:
        """Whether a shuffler or helper is there."""
        return self.coordinator.context.shuffler is not None

    # -- the first step: a file

    @page("/new", "manager")
    def ask(self, request: Request) -> Response:
        """Ask for a file, or begin with a copy of a study."""
        if source := request.query_params.get("from", ""):
            definition = self._definition(source)
            text = study_text(source, definition)
            return self._first(request, file=f"{source}.toml", text=text, name=self._free(source))
        return self._first(request)

    def _definition(self, study: str) -> Definition:
        return self.coordinator.snapshots.current(study).definition

    def _free(self, wanted: str) -> str:
        """Return a name that no study has, which is the wanted one if possible."""
        taken, stem = set(self.coordinator.studies()), wanted[:60]
        names = [wanted, *(f"{stem}-{number}" for number in range(2, 100))]
        return next((name for name in names if name not in taken), wanted)

    def _first(self, request: Request, **told: Any) -> Response:
        """Show the first step, or the part of it that says how a file was read."""
        shown: dict[str, Any] = {"file": "", "text": "", "pilot": None, "error": "", "field": "", "name": ""}
        shown |= {"typed": {}, **told}
        file, pilot = Path(shown["file"]), shown["pilot"]
        made = definition_of(file, parse_study(file, shown["text"]))[1] if shown["text"] else None
        shown["field"] = shown["field"] or (pilot.blamed if pilot is not None else "") or "pilot"
        shown |= {"roles": ROLES, "picture": None if made is None else pilot_view(made)}
        shown |= {"most": MOST_PILOT, "most_history": MOST_HISTORY}
        status = 422 if shown["error"] else 200
        if "hx-request" in request.headers:
            return html(render("parts/pilot", request.state.session, request.url.path, **shown), status)
        return self.console.show(request, "new", status, steps=STEPS, step="pilot", **shown)

    @page("/studies/{study}/plan", "manager")
    @page("/new/study", "manager")
    def again(self, request: Request, study: str | None) -> Response:
        """Lead those who reload the address of a form back to the beginning."""
        return self.console.moved(request, f"/studies/{study}/plan/decisions" if study else "/new")

    @form("/new", "manager", MOST_BODY)
    def upload(self, request: Request, sent: Form) -> Response:
        """Read the file, and show what it says and how its columns were read; if it cannot be used, say why there."""
        typed = {
            name: sent.text(name) for name in sent if name.startswith(ROLE) or name in ("minimize", "history_column")
        }
        name = sent.text("name")
        try:
            file, text, pilot = self._read(sent, typed)
            error = "" if pilot is None else pilot.error
            stem = "" if not text else typed_of(file, parse_study(Path(file), text))["name"]
            given = {"file": file, "text": text, "pilot": pilot, "error": error, "typed": typed}
            return self._first(request, name=name or self._free(stem), **given)
        except (InputError, Refusal) as refused:
            return self._first(request, error=str(refused), name=name, typed=typed)

    def _read(self, sent: Form, typed: Typed) -> tuple[str, str, Pilot | None]:
        """Return the name and the text of a study file, and the pilot from which it was made, if there is one."""
        file, content = sent.file("pilot")
        if not file and not content:
            raise InputError("no file was chosen; choose a pilot (CSV) or a study file (TOML)")
        if not file.lower().endswith(".toml"):
            history = sent.file("history")
            if len(history[1]) > MOST_HISTORY:
                raise InputError(f"{history[0]!r:.80} is larger than 1 MiB; give its last 1,500 rounds, which count")
            given = {"file": file, "content": content, "typed": typed, "history": history}
            pilot = msgspec.convert(self._compute("read", **given), Pilot)
            return pilot.file, pilot.text, pilot
        if len(content) > MOST_STUDY_FILE:
            most = MOST_STUDY_FILE // 2**20
            raise InputError(f"{file!r:.80} is larger than {most} MB; create it with: voxpop study create")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            sentence = f"{file!r:.80} is no text, so it is no study file; choose a file that ends in .toml"
            raise InputError(sentence) from None
        plan_of(file, text, {**typed_of(file, parse_study(Path(file), text)), "name": "study"})
        return file, text, None

    def _compute(self, task: str, **given: Any) -> Any:
        return from_thread.run(partial(self.computations.run, task, **given))

    # -- the other steps: a draft

    @page("/studies/{study}/plan/{step}", "manager")
    def step(self, request: Request, study: str, step: str) -> Response:
        """Show a step of a draft."""
        if not life.is_draft(self.database, study):
            return self.console.moved(request, f"/studies/{study}")
        if step not in STEPS or step == "pilot":
            raise Refusal(404, f"there is no step {step!r:.40}; take one of the page of the draft")
        return self._step(request, study, step, study_text(study, self._definition(study)))

    def _step(
        self, request: Request, study: str, step: str, text: str, typed: Typed | None = None, **more: Any
    ) -> Response:
        tables = parse_study(Path(study), text)
        definition = self._definition(study)
        shown: dict[str, Any] = {
            "study": study,
            "step": step,
            "steps": STEPS,
            "next": NEXT.get(step, ""),
            "typed": {**typed_of(study, tables), **(typed or {})},
            "parameters": tables["parameters"],
            "decisions": list(map(describe, definition.problem.decisions[:MOST_SHOWN])),
            "size": definition.problem.size,
            "picture": pilot_view(definition),
            "fields": {"study": STUDY, "worth": WORTH, "calendar": CALENDAR, "rules": RULES, "promised": PROMISED},
            "only": Field(ONLY, "decisions"),
            "stopping": stopping_of(tables),  # empty: the file's policy has rules of its own
            "zones": sorted(available_timezones()),
            "trust_models": TRUST,
            "second": self._second,
            "error": "",
            "field": "",
            **more,
        }
        shown["rehearsal"] = self._rehearsal(study, tables, step == "people", begin=False)
        if "hx-request" in request.headers:
            part = render("parts/step", request.state.session, request.url.path, **shown)
            return html(part, 422 if shown["error"] else 200)
        return self.console.show(request, "new_step", 422 if shown["error"] else 200, **shown)

    def _sent(self, sent: Form, study: str | None) -> tuple[str, str, dict[str, str]]:
        """Return the study file and what was typed beside it; without a file, that of the draft."""
        text, name = sent.text("text"), study or sent.text("name")
        if not text:
            with at_field("name"):
                text = study_text(require_name(name), self._definition(name))
        fields = (*ASKING, *CALENDAR, *STOPPING, *PROMISED)
        names = {"name", "enrolment", "privacy_model", *(field.name for field in fields)}
        ladder = re.compile("(values|step|points)_|decisions_only$")
        typed = {name: sent.text(name) for name in sent if name in names or ladder.match(name)} | {"name": name}
        if "privacy_model" not in typed:
            typed["privacy_model"] = typed_of("study", parse_study(Path("study"), text))["privacy_model"]
        return sent.text("file") or "study.toml", text, typed

    @form("/studies/{study}/plan", "manager", MOST_BODY)
    @form("/new/study", "manager", MOST_BODY)
    def create(self, request: Request, caller: str, sent: Form, study: str | None) -> Response:
        """Save the study as a draft and go on to a step, or start it; sending the form twice makes one study.

        Operators begin one; from then on the owners of the draft may do this, too, at its own address.
        """
        then, at, (file, text, typed) = sent.text("then"), sent.text("step"), self._sent(sent, study)
        try:
            name, definition = plan_of(file, text, typed)
            code = typed.get("enrolment")
            with at_field("enrolment"):
                code = require_code(code) if code else None
            if then == "start":
                self._refuse_nobody(definition)
            elif then in STEPS:
                study_text(name, definition)  # so that the next step can show it
            if then not in STEPS or not self._is_same(name, definition):
                self._refuse_taken(name, sent)
                self.coordinator.create(name, definition, code, then != "start", caller)
                self.console.nudge(name)
        except (InputError, Refusal) as refused:
            field = refused.field if isinstance(refused, FieldRefusal) else ""
            if at in NEXT.values():
                return self._step(request, typed["name"], at, text, typed, error=str(refused), field=field)
            if at == "pilot":
                given = {"file": file, "text": text, "error": str(refused), "field": field}
                return self._first(request, name=typed["name"], **given)
            raise
        return self.console.moved(request, f"/studies/{name}/plan/{then}" if then in STEPS else f"/studies/{name}")

    def _is_same(self, name: str, definition: Definition) -> bool:
        """Return True if this is the draft already."""
        try:
            known = life.is_draft(self.database, name)
        except Refusal:
            return False
        return known and self._definition(name).encode() == definition.encode()

    def _refuse_taken(self, name: str, sent: Form) -> None:
        """Refuse to replace a draft by one that begins with another file, unless that was said."""
        if sent.text("step") == "pilot" and name in self.coordinator.studies() and not sent.text("replace"):
            raise FieldRefusal("name", f"there is a study {name!r} already; choose another name")

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

    # -- rehearsals

    @form("/studies/{study}/rehearsal", "manager", MOST_BODY)
    def rehearse(self, request: Request, study: str, session: Session, sent: Form) -> Response:
        """Begin to rehearse what is in the form, or to compare the trust models; or say how far that is."""
        _, text, typed = self._sent(sent, study)
        tables, compare = entered(parse_study(Path("study"), text), typed), sent.text("compare") == "yes"
        found = self._rehearsal(study, tables, compare, begin=True, again=not sent.text("poll"))
        if "hx-request" in request.headers:
            return html(render("parts/rehearsal", session, request.url.path, rehearsal=found))
        return self.console.moved(request, f"/studies/{study}/plan/{'people' if compare else 'rehearsal'}")

    def _rehearsal(
        self, study: str, tables: dict[str, Any], compare: bool, begin: bool, again: bool = False
    ) -> dict[str, Any]:
        """Say how far the rehearsal of a study is, and what it has found; begin it if it is not known.

        One that has failed begins again only if somebody wants it again.
        """
        made = [tables.get("privacy")]
        if compare:
            models = [kind.model for kind in TRUST if self._second or kind.second is None]
            typed = {field.name: typed_of("study", tables)[field.name] for field in PROMISED}
            made = [entered(tables, {**typed, "privacy_model": model}).get("privacy") for model in models]
        promises = [(_label(promise), promise) for promise in made]
        most, seconds = (COMPARED, COMPARE_SECONDS) if compare else (REHEARSALS, SECONDS)
        told = {name: table for name, table in tables.items() if name != "name"}
        key = hashlib.sha256(msgspec.json.encode((told, promises, most))).hexdigest()
        given = {"tables": tables, "promises": promises, "most": most, "seconds": seconds}
        job = self.rehearsals.known(key)
        if begin and (job is None or (again and job.over and not any(price["runs"] for price in job.found or ()))):
            job = from_thread.run(partial(self.rehearsals.begin, key, "rehearse", **given))
        job = None if job is None else replace(job)  # as it is now: it goes on while the page is made
        good = job is not None and bool(job.found) and any(price["runs"] for price in job.found)
        if job is not None and good:
            self._results[f"{study} {compare}"] = key, job.found
        last = self._results.get(f"{study} {compare}")
        measure = Direction.of(tables.get("direction", Direction.MAXIMIZE)).measure
        return {
            "study": study,
            "job": job,
            "compare": compare,
            "most": most,
            "error": "" if job is None or good or not job.over else job.error or job.found[0]["error"],
            "prices": [] if last is None else [msgspec.convert(each, Price) for each in last[1]],
            "older": last is not None and last[0] != key,  # about other settings
            "reward": tables.get("reward", measure),
            "dates": calendar_of(Path("study"), tables),
        }


def _label(promise: Any) -> str:
    return "nothing promised" if promise is None else f"{promise['model']}, epsilon {promise['epsilon']:g}"

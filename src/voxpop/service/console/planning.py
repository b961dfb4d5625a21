"""The plan of a new study: a study file, and what an operator has typed into the form beside it.

The study file is the state of the form: it comes with every page, goes back with every form, and is nowhere else. So
any coordinator can take the next step, and going back or reloading breaks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxpop.errors import InputError, require_choice
from voxpop.io.studyfile import parse_study
from voxpop.policies import DEFAULT
from voxpop.privacy import RELEASES, NoPrivacy
from voxpop.privacy.models import release_type_of
from voxpop.service.console.forms import HOUR, decimal, hours, percent, whole
from voxpop.service.study.definition import NAME, Definition, definition_of, require_code, require_name

Typed = Mapping[str, str]
EPSILON, DELTA = 5.0, 1e-6  # what is promised unless something else is typed


@dataclass(frozen=True)
class Field:
    """One thing that can be typed, and where it belongs in a study file; empty leaves it out."""

    name: str
    table: str  # empty: at the top of the file
    key: str
    read: Callable[[str, str], Any]
    write: Callable[[Any], str]
    label: str
    help: str


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _text(label: str, text: str) -> str:
    return text


STOPPING = (
    Field(
        "tolerance",
        "policy",
        "tolerance",
        decimal,
        _plain,
        "Good enough",
        "Go on until nothing can be better by more than this, in reward. Empty: ask as long as asking pays.",
    ),
    Field("most_people", "policy", "most_people", whole, _plain, "Most people", "Ask no more people than this in all."),
    Field("most_waves", "policy", "most_waves", whole, _plain, "Most waves", "Ask in no more waves than this."),
    Field(
        "answer_cost",
        "policy",
        "answer_cost",
        decimal,
        _plain,
        "Cost of a number",
        "What one number from one person costs, in reward: 0.02 if a hundred are worth 2. Empty: about a hundredth of "
        "how much people differ.",
    ),
    Field(
        "population",
        "policy",
        "population",
        whole,
        _plain,
        "Population",
        "How many people there are; none is asked twice.",
    ),
    Field(
        "confidence",
        "policy",
        "delta",
        percent,
        lambda delta: f"{100 * (1 - delta):g}",
        "Confidence in percent",
        "How sure to be of what is certified. Empty: 95.",
    ),
)
ASKING = (
    Field(
        "horizon",
        "",
        "horizon",
        whole,
        _plain,
        "Rounds",
        "For how many rounds the decision will be used, in all: 36500 for 100 sales a day and a year.",
    ),
    Field(
        "reward", "", "reward", _text, str, "What the reward is called", "As it is to stand on pages: profit, minutes."
    ),
    Field(
        "deadline",
        "service",
        "deadline",
        hours,
        lambda seconds: f"{seconds / HOUR:g}",
        "Hours to answer",
        "After this time somebody else is invited instead: 48 for two days. Empty: 24.",
    ),
    Field(
        "rounds_per_second",
        "service",
        "rounds_per_second",
        decimal,
        _plain,
        "Rounds per second",
        "A clock plays the rounds at this pace. Empty: your application plays them and reports them.",
    ),
    Field(
        "participations",
        "service",
        "participations",
        whole,
        _plain,
        "Times a person may be asked",
        "Empty: once. More than once needs a budget of epsilon if something is promised.",
    ),
    Field(
        "budget",
        "service",
        "budget",
        decimal,
        _plain,
        "Budget of epsilon",
        "For a person in all. Empty: that of one wave.",
    ),
)
FIELDS = (*STOPPING, *ASKING)


@dataclass(frozen=True)
class Trust:
    """A trust model that can be chosen."""

    model: str
    seen: str
    lacks: str | None  # the second server that it needs and that is not there


def trust_models(second: bool) -> tuple[Trust, ...]:
    """List the trust models, and say which need a second server that is not there."""
    kinds = [release_type_of(model) for model in (NoPrivacy.model, *RELEASES)]
    return tuple(Trust(kind.model, kind.seen, None if second else kind.second) for kind in kinds)


def typed_of(file: str, text: str) -> dict[str, str]:
    """Return what the form shows for a study file."""
    tables = parse_study(Path(file), text)
    typed = {"name": _name_for(str(tables.get("name", Path(file).stem))), "enrolment": ""}
    for field in FIELDS:
        table = tables.get(field.table, {}) if field.table else tables
        found = table.get(field.key) if isinstance(table, Mapping) else None
        typed[field.name] = "" if found is None else field.write(found)
    trust = tables.get("privacy", {})
    trust = trust if isinstance(trust, Mapping) else {}
    typed["model"] = str(trust.get("model", NoPrivacy.model))
    typed["epsilon"], typed["privacy_delta"] = str(trust.get("epsilon", EPSILON)), str(trust.get("delta", DELTA))
    return typed


def _name_for(name: str) -> str:
    """Suggest a name that can be part of an address."""
    made = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name.lower())
    made = "-".join(part for part in made.split("-") if part)[:63]
    return made if NAME.fullmatch(made) else "study"


def is_waves(tables: Mapping[str, Any]) -> bool:
    """Return True if the rules about stopping apply: other policies have rules of their own."""
    policy = tables.get("policy", {})
    return not isinstance(policy, Mapping) or policy.get("name", DEFAULT) == DEFAULT


def tables_of(file: str, text: str, typed: Typed) -> dict[str, Any]:
    """Return the tables of a study file with what was typed in place of what they said."""
    tables = parse_study(Path(file), text)
    for field in FIELDS if is_waves(tables) else ASKING:
        if field.name in typed:
            tables = _typed_in(tables, field, typed[field.name])
    trust = privacy_of(typed, tables)
    tables.pop("privacy", None)
    return tables if trust is None else {**tables, "privacy": trust}


def _typed_in(tables: Mapping[str, Any], field: Field, text: str) -> dict[str, Any]:
    """Return the tables with a field as it was typed; a table without entries is left out."""
    table = tables.get(field.table, {}) if field.table else tables
    if not isinstance(table, Mapping):
        raise InputError(f"[{field.table}] must be a table, got {table!r:.40}; correct the file")
    kept = {key: value for key, value in table.items() if key != field.key}
    made = {**kept, field.key: field.read(field.label, text)} if text else kept
    if not field.table:
        return made
    others = {key: value for key, value in tables.items() if key != field.table}
    return {**others, field.table: made} if made else others


def privacy_of(typed: Typed, tables: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the table [privacy]; None if nothing is promised."""
    model = require_choice("trust model", typed.get("model", ""), [NoPrivacy.model, *RELEASES])
    epsilon = decimal("Epsilon", typed.get("epsilon") or str(EPSILON))  # also read if it does not count:
    delta = decimal("Delta", typed.get("privacy_delta") or str(DELTA))  # nothing that is typed is ignored silently
    if model == NoPrivacy.model:
        return None
    before = tables.get("privacy", {})
    kept = {**before} if isinstance(before, Mapping) and before.get("model") == model else {}
    return {**kept, "model": model, "epsilon": epsilon, "delta": delta}


def plan_of(file: str, text: str, typed: Typed) -> tuple[str, Definition]:
    """Make the name and the definition of the new study; refuse what cannot be used."""
    name = require_name(typed.get("name", ""))
    tables = tables_of(file, text, typed)
    return name, definition_of(Path(file), {**tables, "name": name})[1]


def enrolment_of(typed: Typed) -> str | None:
    """Return the enrolment code; None if everybody may register."""
    code = typed.get("enrolment", "")
    return require_code(code) if code else None

"""The OpenAPI document of a service, made from its routes, their bodies, and the values that a study consists of.

For people it is also a page, made on the server: every operation, who may call it, and an example.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any

import msgspec
from starlette.responses import HTMLResponse

from voxpop import __version__
from voxpop.io.schema import ProblemData
from voxpop.model.calendar import Calendar
from voxpop.model.kernels import KERNELS, Kernel
from voxpop.model.options import Option, options_of
from voxpop.policies import POLICIES, policy_options
from voxpop.privacy import Private, Release
from voxpop.privacy.models import RELEASES, release_type_of
from voxpop.service.messages import COMPONENT
from voxpop.service.study.definition import Rules
from voxpop.service.web import bodies
from voxpop.service.web.bodies import CHECK_INS, EVENTS, DeviceWave
from voxpop.service.web.routes import PARAMETERS, Role, Route

Schema = dict[str, Any]

BEARER = {"type": "http", "scheme": "bearer"}
SIGNATURE = {"type": "apiKey", "in": "header", "name": "X-Voxpop-Signature"}
ROLES: dict[Role, str] = {  # who may call an operation
    "anyone": "No key is needed.",
    "operator": "An operator's key.",
    "viewer": "An operator's key, or that of a viewer of the study.",
    "application": "The key of the study's application, of its owner or of an operator.",
    "reader": "As an application or a viewer, or the key of a device that registered; none if decisions are public.",
    "participant": "The key that a device has made for itself.",
    "token": "The token of one invitation.",
    "shuffler": "The shuffler's HMAC signature.",
    "coordinator": "The coordinator's HMAC signature.",
}
SIGNED: tuple[Role, ...] = ("shuffler", "coordinator")
REFUSALS = {
    304: "It is as you know it.",
    400: "The body is not JSON.",
    401: "The key or token is missing or wrong.",
    403: "The key or token is not valid for this.",
    404: "There is nothing under this name.",
    409: "It contradicts what is known; nothing was changed.",
    410: "Too late; nothing was counted.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "The body is JSON, but not what is expected.",
    429: "Too many requests from this address.",
    503: "The service cannot answer now; try again.",
}
RETRY = {"Retry-After": {"description": "Seconds to wait before trying again.", "schema": {"type": "integer"}}}
NUMBER = {"type": "number"}
NUMBER_OR_NULL = {"anyOf": [NUMBER, {"type": "null"}]}
# The names of the limits of an option in JSON Schema
LIMITS = {"above": "exclusiveMinimum", "least": "minimum", "below": "exclusiveMaximum", "most": "maximum"}
TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}


def openapi_document(title: str, description: str, routes: list[Route]) -> dict[str, Any]:
    """Describe every route for programs, with a component for every body and everything that bodies name."""
    routes = [route for route in routes if route.documented]
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    used = {part for route in routes for part in (route.body, *route.replies.values(), bodies.Error) if part}
    roles = {route.role for route in routes}
    schemes: dict[Role, Schema] = {
        role: {**(SIGNATURE if role in SIGNED else BEARER), "description": ROLES[role]}
        for role in ROLES
        if role in roles and role != "anyone"
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__, "description": description},
        "tags": [{"name": role, "description": ROLES[role]} for role in ROLES if role in roles],
        "paths": paths,
        "components": {"schemas": _reachable(paths, components(used)), "securitySchemes": schemes},
    }


def _operation(route: Route) -> Schema:
    operation: Schema = {
        "summary": inspect.getdoc(route.handler),
        "operationId": route.name,
        "tags": [route.role],
        "x-voxpop-role": route.role,
        "security": [] if route.role == "anyone" else [{route.role: []}],
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if route.body is not None:
        # A share as bytes is not listed: generators of clients make programs that do not run of two kinds of body.
        operation["requestBody"] = {"required": not route.body.optional, "content": _json(route.body)}
    return operation


def _parameters(route: Route) -> list[Schema]:
    """Describe what is in the path, in headers and behind the question mark; only the first must be there."""
    parts: list[tuple[str, str, Schema, Schema]]
    parts = [(name, "path", {}, PARAMETERS[name]) for name in re.findall(r"{(\w+)}", route.path)]
    parts += [(name, "header", {"description": said}, {"type": "string"}) for name, said in route.headers.items()]
    parts += [(name, "query", {}, PARAMETERS[name]) for name in route.query]
    return [
        {"name": name, "in": place, "required": place == "path", **said, "schema": schema}
        for name, place, said, schema in parts
    ]


def _responses(route: Route) -> Schema:
    responses: Schema = {}
    for status, body in route.replies.items():
        responses[str(status)] = {
            "description": "Done." if body is None else inspect.getdoc(body),
            "content": {route.media_type: {"schema": {"type": "string"}}} if body is None else _json(body),
        }
    limited = () if route.path in ("/healthz", "/readyz") else (429, 503)
    with_body = () if route.body is None else (400, 413, 415, 422)
    with_key = () if route.role == "anyone" else (401,)
    for number in sorted({*route.refusals, *limited, *with_body, *with_key}):
        said = {} if number == 304 else {"content": _json(bodies.Error)}
        responses[str(number)] = {"description": REFUSALS[number], **said}
        if number in (429, 503):
            responses[str(number)]["headers"] = RETRY
    return responses


def _json(body: type) -> Schema:
    return {"application/json": {"schema": _ref(body.__name__)}}


def _ref(name: str) -> Schema:
    return {"$ref": COMPONENT + name}


# Components


def components(used: Iterable[type]) -> dict[str, Schema]:
    """Describe these bodies, and what a study, its waves and its log consist of."""
    kernels, models = dict(KERNELS), ("none", *RELEASES)
    releases = {model: release_type_of(model) for model in models}
    more = (*CHECK_INS, DeviceWave, *EVENTS, ProblemData)
    kinds = {*used, *more, *kernels.values(), *releases.values()} - {bodies.CheckIn}
    _, found = msgspec.json.schema_components(
        sorted(kinds, key=lambda kind: kind.__name__), schema_hook=_array_or_kernel, ref_template=COMPONENT + "{name}"
    )
    schemas: dict[str, Schema] = _plain(found)
    schemas["Entry"]["properties"]["epsilon"] = {**NUMBER_OR_NULL, "description": "null if nothing is promised."}
    schemas["Ball"]["properties"]["radius"] = {**NUMBER_OR_NULL, "description": "null if it is infinite."}
    schemas["ProblemData"]["required"].append("labels")
    schemas["Problem"] = schemas.pop("ProblemData")
    for name, kernel in kernels.items():
        schemas[f"{kernel.__name__}Kernel"] = _named(schemas.pop(kernel.__name__), "type", name)
    for name, release in releases.items():
        title = release.__name__.removesuffix("Release") + "Release"
        schemas[title] = _named(schemas.pop(release.__name__), "model", name)
    named = {name: kind.func if isinstance(kind, partial) else kind for name, kind in POLICIES.items()}
    named = {name: kind for name, kind in named.items() if getattr(kind, "aggregates", False)}
    policies = {name: f"{name.title().replace('-', '')}Policy" for name in named}
    for name, title in policies.items():
        schemas[title] = _named(_settings(inspect.getdoc(named[name]), policy_options(name)), "name", name)
    schemas["NoPrivacyModel"] = _named(_settings("No privacy: people trust the operator.", ()), "model", "none")
    schemas["PrivacyModel"] = _settings(inspect.getdoc(Private), options_of(Private))
    schemas["PrivacyModel"]["properties"]["model"] = {"type": "string", "enum": list(RELEASES)}
    schemas["Rules"] = _settings(inspect.getdoc(Rules), options_of(Rules))
    schemas["Calendar"] = _settings(inspect.getdoc(Calendar), options_of(Calendar))
    schemas["Calendar"]["properties"]["closed"] |= {"type": "array", "items": {"type": "string"}}
    schemas["StudyDefinition"] = {
        "type": "object",
        "description": "Everything that defines a study; `voxpop study create` makes it from a study file.",
        "properties": {
            "problem": _ref("Problem"),
            "policy": {"anyOf": [_ref("Policy"), {"type": "null"}], "description": "The default policy, unless given."},
            "privacy": _ref("Privacy"),
            "rules": _ref("Rules"),
            "reward": {"type": "string"},
            "direction": {**_ref("Direction"), "default": "maximize"},
            "strata": {
                "type": "object",
                "description": "The share of each part of the population; they add up to 1.",
                "additionalProperties": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                "minProperties": 2,
            },
            "calendar": _ref("Calendar"),
        },
        "required": ["problem", "privacy", "rules", "reward"],
        "additionalProperties": False,
    }
    for name, key, members in (
        ("Kernel", "type", [f"{kernel.__name__}Kernel" for kernel in kernels.values()]),
        ("Release", "model", [kind.__name__.removesuffix("Release") + "Release" for kind in releases.values()]),
        ("Policy", "name", list(policies.values())),
        ("Privacy", "model", ["NoPrivacyModel", "PrivacyModel"]),
        ("CheckIn", "status", [kind.__name__ for kind in CHECK_INS]),
        ("LogEvent", "kind", [kind.__name__ for kind in EVENTS]),
    ):
        mapping = {value: COMPONENT + one for one in members for value in schemas[one]["properties"][key]["enum"]}
        discriminator = {"propertyName": key, "mapping": mapping}
        schemas[name] = {"oneOf": [_ref(one) for one in members], "discriminator": discriminator}
    return schemas


def _array_or_kernel(kind: Any) -> Schema:
    """Describe the types that msgspec does not know."""
    if kind in (Kernel, Release):
        return _ref(kind.__name__)
    return {"type": "array", "items": {"anyOf": [NUMBER, {"type": "array", "items": NUMBER}]}}  # a vector or a matrix


def _plain(schema: Any) -> Any:
    """Leave out what only msgspec says, or generators of clients do not read, and the examples of docstrings."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    made = {name: _plain(part) for name, part in schema.items() if (name, part) != ("items", False)}
    if isinstance(made.get("title"), str):
        del made["title"]
    if isinstance(made.get("description"), str):
        made["description"] = " ".join(made["description"].partition("\n\n")[0].split())
    return {"type": "string", **made} if isinstance(made.get("enum"), list) else made


def _named(schema: Schema, key: str, value: str) -> Schema:
    """Add the property that says which of several kinds a value is."""
    properties = {key: {"type": "string", "enum": [value]}, **schema["properties"]}
    required = [key, *schema.get("required", ())]
    return {**schema, "properties": properties, "required": required, "additionalProperties": False}


def _settings(description: str | None, options: Iterable[Option]) -> Schema:
    """Describe a dataclass of settings by its options."""
    options = list(options)
    return {
        "type": "object",
        "description": (description or "").partition("\n\n")[0],
        "properties": {one.name: _option(one) for one in options},
        "required": [one.name for one in options if one.required],
        "additionalProperties": False,
    }


def _option(one: Option) -> Schema:
    schema: Schema = {"type": TYPES.get(one.kind, "string")}
    if one.choices:
        schema["enum"] = list(one.choices)
    for limit, name in LIMITS.items():
        if getattr(one, limit) is not None:
            schema[name] = getattr(one, limit)
    if one.optional:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return {**schema, **({} if one.required else {"default": one.default}), "description": one.help}


def _reachable(paths: Schema, schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Keep the components that operations name, and those that these name."""
    found: dict[str, Schema] = {}
    wanted = re.findall(f'"{COMPONENT}([^"]+)"', json.dumps(paths))
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = schemas[name]
            wanted += re.findall(f'"{COMPONENT}([^"]+)"', json.dumps(schemas[name]))
    return dict(sorted(found.items()))


# The page

# In examples of addresses.
NAMES = {"study": "tea", "wave": "1", "name": "me", "key": "a-new-name", "batch": "BATCH", "number": "1"}
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def api_page(document: Schema) -> HTMLResponse:
    """Render the page, with headers that allow its own style sheet and nothing else."""
    from jinja2 import Environment

    sample = partial(re.sub, r"{(\w+)}", lambda found: NAMES.get(found[1], found[1]))
    operations = [
        {**said, "path": path, "method": method.upper(), "address": sample(path)}
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    ]
    template = (files("voxpop.service.web") / "api_page.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(template).render(**document, operations=operations)
    style = page[page.index("<style>") + len("<style>") : page.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    headers = {
        "content-security-policy": f"{NOTHING}; style-src 'sha256-{digest}'",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
    }
    return HTMLResponse(page, headers=headers)

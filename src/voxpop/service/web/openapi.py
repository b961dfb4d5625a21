"""The OpenAPI document of a service, made from its routes and the models of their bodies."""

from __future__ import annotations

import inspect
import re
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from voxpop import __version__
from voxpop.service.web.bodies.replies import Error
from voxpop.service.web.routes import PARAMETERS, Role, Route

BEARER = {"type": "http", "scheme": "bearer"}
SIGNATURE = {"type": "apiKey", "in": "header", "name": "X-Voxpop-Signature"}
ROLES: dict[Role, str] = {  # who may call an operation
    "anyone": "No key is needed.",
    "operator": "An operator's key.",
    "viewer": "An operator's key, or that of a viewer of the study.",
    "participant": "The key that a device has made for itself.",
    "token": "The token of one invitation.",
    "shuffler": "The shuffler's HMAC signature.",
    "coordinator": "The coordinator's HMAC signature.",
}
SIGNED: tuple[Role, ...] = ("shuffler", "coordinator")
SECURITY_SCHEMES: dict[Role, dict[str, Any]] = {
    role: {**(SIGNATURE if role in SIGNED else BEARER), "description": said}
    for role, said in ROLES.items()
    if role != "anyone"
}
REFUSALS = {
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
Schemas = dict[type[BaseModel], dict[str, Any]]  # a reference for each model


def openapi_document(title: str, description: str, routes: list[Route]) -> dict[str, Any]:
    """Describe every route for programs, with a component for every model."""
    routes = [route for route in routes if route.documented]
    models: set[type[BaseModel]] = {Error}
    for route in routes:
        models.update(model for model in (route.body, *route.replies.values()) if model is not None)
    found, definitions = models_json_schema(
        [(model, "validation") for model in sorted(models, key=lambda model: model.__name__)],
        ref_template="#/components/schemas/{model}",
    )
    schemas: Schemas = {model: found[model, "validation"] for model in models}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    roles = {route.role for route in routes}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__, "description": description},
        "tags": [{"name": role, "description": ROLES[role]} for role in ROLES if role in roles],
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {role: scheme for role, scheme in SECURITY_SCHEMES.items() if role in roles},
        },
    }


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.name,
        "tags": [route.role],
        "x-voxpop-role": route.role,
        "security": [] if route.role == "anyone" else [{route.role: []}],
        "parameters": _parameters(route),
        "responses": _responses(route, schemas),
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _json(schemas[route.body])}
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": PARAMETERS[name]}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    in_headers = [
        {"name": name, "in": "header", "required": False, "description": purpose, "schema": {"type": "string"}}
        for name, purpose in route.headers.items()
    ]
    in_query = [
        {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in route.query.items()
    ]
    return in_path + in_headers + in_query


def _responses(route: Route, schemas: Schemas) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, model in route.replies.items():
        content = {route.media_type: {"schema": {"type": "string"}}} if model is None else _json(schemas[model])
        responses[str(status)] = {
            "description": "Done." if model is None else inspect.getdoc(model),
            "content": content,
        }
    limited = () if route.path in ("/healthz", "/readyz") else (429, 503)
    with_body = () if route.body is None else (400, 413, 415, 422)
    with_key = () if route.role == "anyone" else (401,)
    for status in sorted({*route.refusals, *limited, *with_body, *with_key}):
        responses[str(status)] = {"description": REFUSALS[status], "content": _json(schemas[Error])}
        if status in (429, 503):
            responses[str(status)]["headers"] = RETRY
    return responses


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}

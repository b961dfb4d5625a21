"""The OpenAPI document of a service, made from its routes and the models of their bodies."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from voxpop import __version__
from voxpop.service.web.bodies.replies import Error
from voxpop.service.web.routes import PARAMETERS, Role, Route

SIGNATURE = {"type": "apiKey", "in": "header", "name": "X-Voxpop-Signature"}
SECURITY_SCHEMES: dict[Role, dict[str, Any]] = {
    "operator": {"type": "http", "scheme": "bearer", "description": "An operator's key."},
    "viewer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An operator's key, or that of a viewer of the study.",
    },
    "participant": {"type": "http", "scheme": "bearer", "description": "The key that a device has made for itself."},
    "token": {"type": "http", "scheme": "bearer", "description": "The token of one invitation."},
    "shuffler": {**SIGNATURE, "description": "The shuffler's HMAC signature."},
    "coordinator": {**SIGNATURE, "description": "The coordinator's HMAC signature."},
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
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {role: scheme for role, scheme in SECURITY_SCHEMES.items() if role in roles},
        },
    }


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": re.sub(r"\W+", "_", f"{route.method} {route.path}").strip("_").lower(),
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
        content = {route.media_type: {}} if model is None else _json(schemas[model])
        responses[str(status)] = {"description": "Done.", "content": content}
    limited = () if route.path in ("/healthz", "/readyz") else (429, 503)
    with_body = () if route.body is None else (400, 413, 415, 422)
    with_key = () if route.role == "anyone" else (401,)
    for status in sorted({*route.refusals, *limited, *with_body, *with_key}):
        responses[str(status)] = {"description": REFUSALS[status], "content": _json(schemas[Error])}
    return responses


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}

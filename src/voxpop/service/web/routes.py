"""Routes that say who may call them: the role is declared once, checked before the handler runs, and documented."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from voxpop import __version__
from voxpop.core.errors import InputError
from voxpop.service import logs
from voxpop.service.keys import LEAST, MOST
from voxpop.service.refusals import AWAY, Refusal, no_database

Role = Literal["anyone", "operator", "participant", "token", "shuffler", "coordinator"]
Handler = Callable[[Request, str], Awaitable[Response]]
Gate = Callable[[Request], Awaitable[str]]

SCHEMES: dict[Role, dict[str, Any]] = {
    "operator": {"type": "http", "scheme": "bearer", "description": "An operator's key."},
    "participant": {"type": "http", "scheme": "bearer", "description": "The key that a device made for itself."},
    "token": {"type": "http", "scheme": "bearer", "description": "The token of one invitation."},
    "shuffler": {"type": "apiKey", "in": "header", "name": "X-Voxpop-Signature", "description": "The shuffler's HMAC."},
    "coordinator": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Voxpop-Signature",
        "description": "The coordinator's HMAC.",
    },
}
ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
REASONS = {
    400: "The body is not JSON.",
    401: "No key or token, or a wrong one.",
    403: "The key or token is not for this.",
    404: "There is no such thing.",
    405: "No such method here.",
    409: "It contradicts what is known; nothing was changed.",
    410: "Too late; nothing was counted.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "The body is JSON, but not what is expected.",
    429: "Too many requests from this address.",
    503: "Not able to answer now; try again.",
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "study": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
    "phase": {"type": "integer", "minimum": 1, "maximum": 1000},
    "key": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "batch": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
}
BEARER = re.compile(rf"[\x21-\x7e]{{{LEAST},{MOST}}}")


@dataclass(frozen=True)
class Route:
    """One address: who may call it, what it takes, and what it may answer."""

    method: str
    path: str
    role: Role
    handler: Handler
    summary: str
    answers: Mapping[int, Any]  # a JSON schema each; None: not JSON
    refusals: tuple[int, ...] = ()
    body: dict[str, Any] | None = None  # a JSON schema
    headers: Mapping[str, str] = field(default_factory=dict)
    most_bytes: int | None = None
    media: str = "application/json"


def make_app(title: str, description: str, routes: list[Route], gates: Mapping[Role, Gate], **named: Any) -> FastAPI:
    """An application of these routes; whoever is not let in by the route's gate does not reach its handler."""
    app = FastAPI(title=title, description=description, version=__version__, docs_url=None, redoc_url=None, **named)
    app.router.redirect_slashes = False  # an address is one thing only: signatures and metrics are about it
    app.openapi_version = "3.1.0"
    for route in routes:
        app.add_api_route(
            route.path,
            _guarded(route, gates),
            methods=[route.method],
            summary=route.summary,
            response_model=None,
            responses={},
            openapi_extra=None,
            include_in_schema=False,
            name=f"{route.method} {route.path}",
        )
    document = describe(app, routes)
    app.openapi = lambda: document  # type: ignore[method-assign]
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(InputError, _unusable)
    app.add_exception_handler(HTTPException, _unknown)
    for kind in AWAY:
        app.add_exception_handler(kind, _away)
    app.add_exception_handler(Exception, _fault)
    app.state.routes = routes
    return app


def _guarded(route: Route, gates: Mapping[Role, Gate]) -> Callable[[Request], Awaitable[Response]]:
    gate, handler, takes_body = gates[route.role], route.handler, route.body is not None

    async def endpoint(request: Request) -> Response:
        caller = await gate(request)
        if takes_body:
            require_json(request.headers.get("content-type", ""))
        return await handler(request, caller)

    return endpoint


async def anyone(request: Request) -> str:
    """Everybody may call."""
    return ""


async def bearer(request: Request) -> str:
    """The key or token in the Authorization header, whosever it is."""
    return bearer_of(request.headers.get("authorization", ""))


def bearer_of(header: str) -> str:
    """The key in an Authorization header."""
    kind, _, key = header.partition(" ")
    if kind.lower() != "bearer" or not BEARER.fullmatch(key):
        raise Refusal(401, "this needs a key; send it as: Authorization: Bearer KEY")
    return key


def require_json(kind: str) -> None:
    """Refuse a body of another content type."""
    if kind != "application/json" and kind.split(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "the body must be JSON; send it with the content type application/json")


async def body_of(request: Request, model: type[BaseModel]) -> Any:
    """The body as the model describes it."""
    data = await request.body()
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON; see /openapi.json for what is expected") from None
    try:
        return model.model_validate(document, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])[:100] or "the body"
        raise Refusal(422, f"{place}: {first['msg']}; see /openapi.json for what is expected") from None


def text_of(request: Request, name: str) -> str:
    """A part of the address, if it is written as such parts are."""
    return require_text(name, str(request.path_params[name]))


def require_text(name: str, value: str) -> str:
    """The value of a part of the address, if it is written as such parts are."""
    if not re.fullmatch(PARAMETERS[name]["pattern"], value):
        raise Refusal(404, f"there is no such {name}; check the address")
    return value


def require_phase(value: str) -> int:
    """The phase in the address."""
    if not re.fullmatch(r"[1-9][0-9]{0,2}|1000", value):
        raise Refusal(404, "there is no such phase; phases are numbered from 1")
    return int(value)


async def unreached(request: Request, caller: str) -> Response:
    """Uploads are answered before the application: see `direct.py`."""
    raise Refusal(404, "there is nothing at this address; see /openapi.json")


def _answer(refusal: Refusal) -> Response:
    headers = {} if refusal.retry_after is None else {"retry-after": str(max(1, round(refusal.retry_after)))}
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse({"error": refusal.sentence}, refusal.status, headers=headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _answer(error)


async def _unusable(request: Request, error: Exception) -> Response:
    return _answer(Refusal(422, str(error)))


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = {404: "there is nothing at this address", 405: "this address does not take this method"}
    body = {"error": sentence.get(error.status_code, "the request cannot be answered") + "; see /openapi.json"}
    return JSONResponse(body, error.status_code, headers=error.headers)


async def _away(request: Request, error: Exception) -> Response:
    logs.fault("database", error, route=getattr(request.scope.get("route"), "path", "unknown"))
    return _answer(no_database())


async def _fault(request: Request, error: Exception) -> Response:
    logs.fault("fault", error, route=getattr(request.scope.get("route"), "path", "unknown"))
    return _answer(Refusal(500, "something went wrong here; nothing was counted, try again"))


def describe(app: FastAPI, routes: list[Route]) -> dict[str, Any]:
    """The OpenAPI description."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    used = {route.role for route in routes}
    schemes = {role: scheme for role, scheme in SCHEMES.items() if role in used}
    info = {"title": app.title, "version": app.version, "description": app.description}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"securitySchemes": schemes}}


def _operation(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, schema in route.answers.items():
        content = {route.media: {} if schema is None else {"schema": schema}}
        responses[str(status)] = {"description": "Done.", "content": content}
    usual = () if route.path in ("/healthz", "/readyz") else (429,)
    limits = (400, 413, 415, 422, 503) if route.body is not None else ()
    keys = () if route.role == "anyone" else (401,)
    for status in sorted({*route.refusals, *usual, *limits, *keys}):
        responses[str(status)] = {"description": REASONS[status], "content": {"application/json": {"schema": ERROR}}}
    names = re.findall(r"{(\w+)}", route.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": PARAMETERS[name]} for name in names]
    parameters += [
        {"name": name, "in": "header", "required": False, "description": why, "schema": {"type": "string"}}
        for name, why in route.headers.items()
    ]
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": re.sub(r"\W+", "_", f"{route.method} {route.path}").strip("_").lower(),
        "x-voxpop-role": route.role,
        "security": [] if route.role == "anyone" else [{route.role: []}],
        "parameters": parameters,
        "responses": responses,
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": route.body}}}
    return operation

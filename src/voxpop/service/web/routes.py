"""Routes: their declarations, the parts of a request that handlers take, and the router.

A route says its address, who may call it, what it takes and what it replies. The router and the OpenAPI document are
made from these declarations. A handler runs only for callers with the route's role, and names what it takes of the
request as its arguments (see `Endpoint`). One that is no coroutine runs in a thread.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Self, TypeVar, cast, get_type_hints

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope, Send

from voxpop.service.keys import LEAST, MOST
from voxpop.service.operators import Principal
from voxpop.service.refusals import Refusal
from voxpop.service.web.limits import Body

Declared = TypeVar("Declared", bound=Callable[..., Any])
Role = Literal[
    "anyone",
    "operator",
    "viewer",
    "application",  # of one study, which plays its decisions
    "reader",  # of the decision in force
    "participant",
    "token",
    "shuffler",
    "coordinator",
    "session",  # of a browser that is signed in; the console's pages
    "manager",  # the same, as an operator
    "live",  # the same, for a page that updates itself
]
# Returns the key, token or name of a caller with the role; refuses others.
RoleCheck = Callable[[Request], Awaitable[str]]

PARAMETERS: dict[str, dict[str, Any]] = {  # JSON schemas
    "study": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
    "wave": {"type": "integer", "minimum": 1, "maximum": 1000},
    "name": {"type": "string", "pattern": "^[^/]{1,64}$"},
    "key": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "wait": {"type": "string", "pattern": "^([0-9]|[1-5][0-9]|60)$"},
    "actor": {"type": "string", "pattern": "^[^/]{1,64}$"},
    "action": {"type": "string", "pattern": "^[a-z ]{1,32}$"},
    "number": {"type": "string", "pattern": "^[0-9]{1,15}$"},
    "before": {"type": "string", "pattern": "^[0-9]{1,15}$"},
    "batch": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
    "at": {"type": "string", "pattern": "^(19|20|21)[0-9]{2}-[0-9-]{5}(T[0-9:.]{5,15}(Z|[ +-][0-9:]{5})?)?$"},
}
STUDY = "/v2/studies/{study}"  # the address of a study
JSON, OCTETS = "application/json", "application/octet-stream"
NUMBER_BYTES = 32  # the most that one number of a report may take as JSON
OTHER_BYTES = 1024  # for everything around the numbers
FORMER = "this service speaks version 2 of the protocol, in which phases are called waves; update what asks version 1"
KEY = re.compile(rf"[\x21-\x7e]{{{LEAST},{MOST}}}")
WAVE = re.compile(r"[1-9][0-9]{0,2}|1000")


@dataclass(frozen=True)
class Route:
    """One operation: its role is checked before the handler runs, and the OpenAPI document describes it."""

    method: str
    path: str
    role: Role
    replies: Mapping[int, type[msgspec.Struct] | None]  # by status; None: the reply is not JSON
    refusals: tuple[int, ...] = ()  # beyond those that follow from the role and the body
    body: type[Message] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # optional headers and their purpose
    most_bytes: int | None = None  # limit on the body; None: the limit of the service
    media_type: str = "application/json"
    documented: bool = True  # in the OpenAPI document
    for_devices: bool = False  # also for those that are web pages of an origin that is listed
    _: KW_ONLY
    handler: Callable[..., Any]

    @property
    def name(self) -> str:
        """What the operation is called in the OpenAPI document, and in clients made from it: as its handler."""
        return str(self.handler.__name__)

    @property
    def query(self) -> list[str]:
        """The optional parameters behind the question mark: arguments of the handler that have a default."""
        taken = inspect.signature(self.handler).parameters.values()
        return [one.name for one in taken if one.default is not one.empty]


def route(
    method: str,
    path: str,
    role: Role,
    reply: type[msgspec.Struct] | None,
    refusals: tuple[int, ...] = (),
    statuses: tuple[int, ...] = (200,),
    **rest: Any,
) -> Callable[[Declared], Declared]:
    """Declare a route of a handler, whose documentation is the summary; its argument `body` says what it takes."""

    def declare(handler: Declared) -> Declared:
        given = {"body": get_type_hints(handler).get("body"), **rest}
        made = partial(Route, method, path, role, dict.fromkeys(statuses, reply), refusals, **given)
        vars(handler).setdefault("routes", []).append(made)
        return handler

    return declare


def routes_of(service: object) -> list[Route]:
    """Return the routes of all handlers of a service, in the order in which they are defined, inherited ones last."""
    names = dict.fromkeys(name for kind in type(service).__mro__ for name in vars(kind))
    handlers = [getattr(service, name) for name in names if hasattr(getattr(type(service), name), "routes")]
    return [made(handler=handler) for handler in handlers for made in handler.routes]


def pattern_of(path: str) -> re.Pattern[str]:
    """Return the expression for all addresses of a route, with a group for each of its parameters."""
    return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))


# The parts of a request, each with its own refusal


async def anyone(request: Request) -> str:
    """Check the role `anyone`, which everybody has."""
    return ""


async def bearer(request: Request) -> str:
    """Return the key or token in the Authorization header; the handler finds out whose it is."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not KEY.fullmatch(key):
        raise Refusal(401, "this needs a key; send it as: Authorization: Bearer KEY")
    return key


def require_manager(principal: Principal, study: str | None) -> None:
    """Refuse those who may not change a study, or what no study owns."""
    if not principal.operates and (study is None or not principal.manages(study)):
        less = "that of an application" if principal.role == "application" else "for looking only"
        if principal.role == "member" and any(map(principal.manages, principal.studies)):
            less = "an owner's of other things"
        raise Refusal(403, f"the key of {principal.name!r} is {less}; ask an operator")


def require_seen(principal: Principal, study: str) -> None:
    """Refuse those whose key is for another study."""
    if not principal.sees(study):
        raise Refusal(403, f"the key of {principal.name!r} is for another study; ask an operator for the right one")


def most_bytes_of(numbers: int) -> int:
    """Compute how many bytes the body of a report with this many numbers may have."""
    return NUMBER_BYTES * numbers + OTHER_BYTES


def body_of(request: Request) -> Body:
    """Return the body of a request that the guard has let in."""
    return cast(Body, request.receive)


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """An object with these properties and no others."""

    optional: ClassVar[bool] = False  # a request may come without it
    kinds: ClassVar[tuple[str, ...]] = (JSON,)  # the content types in which it may come

    @classmethod
    async def read(cls, request: Request) -> Self:
        """Read the body of a request and validate it."""
        content = await body_of(request).read()
        try:
            return cls() if cls.optional and not content else msgspec.json.decode(content, type=cls)
        except msgspec.ValidationError as error:
            raise Refusal(422, f"{error}; see /openapi.json for what is expected") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refusal(400, "the body is not JSON; see /openapi.json for what is expected") from None


def text_in(values: Mapping[str, Any], name: str) -> Any:
    """Return a parameter of the address, None if it is missing; refuse one that does not match its pattern."""
    value = values.get(name)
    if name == "wave":
        if not WAVE.fullmatch(str(value)):
            raise Refusal(404, "there is no such wave; waves are numbered from 1")
        return int(str(value))
    if value is not None and name in PARAMETERS and not re.fullmatch(PARAMETERS[name]["pattern"], value):
        raise Refusal(404, f"there is no such {name}; check the address")
    return value


class Endpoint:
    """What answers requests to one route.

    The handler's arguments are the `request`, the `caller` that the check of the role returned, the `session` of a
    browser, parameters of the address by their names, and what has a type that can `read` itself from a request.
    """

    def __init__(self, route: Route, check: RoleCheck, most_bytes: int) -> None:
        self.path, self._handler, self._check = route.path, route.handler, check
        self._body, self._most_bytes = route.body, route.most_bytes or most_bytes
        self._waits = inspect.iscoroutinefunction(route.handler)
        kinds = get_type_hints(route.handler)
        names = inspect.signature(route.handler).parameters
        self._read = {name: kinds[name].read for name in names if hasattr(kinds[name], "read")}
        self._plain = [name for name in names if name not in self._read]

    async def __call__(self, scope: Scope, body: Body, send: Send) -> None:
        body.limit(self._most_bytes)
        request = Request(scope, body)
        caller = await self._check(request)
        if self._body is not None and not (self._body.optional and not await body.read()):
            kind = request.headers.get("content-type", "")
            if kind != JSON and kind.split(";")[0].strip().lower() not in self._body.kinds:
                raise Refusal(
                    415, f"the body must be JSON; send it with the content type {' or '.join(self._body.kinds)}"
                )
        response = await self._reply(request, caller)
        if scope["method"] == "HEAD":  # the same headers; a stream is not even begun
            await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await response(scope, body, send)

    async def _reply(self, request: Request, caller: str) -> Response:
        known = {"request": request, "caller": caller, "session": getattr(request.state, "session", None)}
        placed = {**request.query_params, **request.path_params}
        given = {name: known[name] if name in known else text_in(placed, name) for name in self._plain}
        for name, read in self._read.items():
            given[name] = await read(request)
        found = await (self._handler(**given) if self._waits else run_in_threadpool(self._handler, **given))
        return found if isinstance(found, Response) else JSONResponse(msgspec.to_builtins(found))


class Router:
    """Finds the endpoint of a request.

    Every address has exactly one spelling, because signatures and metrics depend on it; that is why this is not
    Starlette's router, which redirects and takes addresses with a newline at the end.
    """

    def __init__(self, routes: list[Route], checks: Mapping[Role, RoleCheck], most_bytes: int) -> None:
        self._most_bytes = most_bytes
        places: dict[str, dict[str, Endpoint]] = {}
        for route in routes:
            methods = places.setdefault(route.path, {})
            methods[route.method] = endpoint = Endpoint(route, checks[route.role], most_bytes)
            if route.method == "GET":
                methods["HEAD"] = endpoint
        self._places = [(pattern_of(path), methods) for path, methods in places.items()]

    async def __call__(self, scope: Scope, body: Body, send: Send) -> None:
        allowed: set[str] = set()
        for pattern, methods in self._places:
            found = pattern.fullmatch(scope["path"])
            if found is not None:
                endpoint = methods.get(scope["method"])
                if endpoint is not None:
                    scope["endpoint"], scope["path_params"] = endpoint, found.groupdict()
                    await endpoint(scope, body, send)
                    return
                allowed.update(methods)
        body.limit(self._most_bytes)
        if scope["path"].startswith("/v1/"):
            raise Refusal(404, FORMER)
        if allowed:
            sentence = "this address does not take this method; see /openapi.json"
            raise Refusal(405, sentence, allow=", ".join(sorted(allowed)))
        raise Refusal(404, "there is nothing at this address; see /openapi.json")

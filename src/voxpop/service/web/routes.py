"""How a route is declared: its address, who may call it, what it takes and what it replies, in one place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

Role = Literal["anyone", "operator", "participant", "token", "shuffler", "coordinator"]
RoleCheck = Callable[[Request], Awaitable[str]]  # returns the key or token of a caller that has the role, or refuses
Handler = Callable[[Request, str], Awaitable[Response]]  # takes what the role check returned

PATH_PARAMETERS: dict[str, dict[str, Any]] = {  # a JSON schema for each
    "study": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
    "phase": {"type": "integer", "minimum": 1, "maximum": 1000},
    "key": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "batch": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
}


@dataclass(frozen=True)
class ReportUpload:
    """What the upload route needs in place of a handler: see `UploadEndpoint`."""

    count: Callable[[Mapping[str, str], str, bytes], Awaitable[bool]]
    """Store a report, given the parameters of the path, the token and the numbers; False if it was counted before."""

    most_numbers: Callable[[Mapping[str, str], bool], Awaitable[int]]
    """Return the most numbers that a report sent to this path may have; True asks to look at the database again."""


@dataclass(frozen=True)
class Route:
    """One operation: the role is checked before the handler runs, and all of it is in the OpenAPI document."""

    method: str
    path: str
    role: Role
    handler: Handler | ReportUpload
    summary: str
    replies: Mapping[int, type[BaseModel] | None]  # by status; None: the reply is not JSON
    refusals: tuple[int, ...] = ()  # beyond those that follow from the role and the body
    body: type[BaseModel] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # optional ones, and what they are for
    most_bytes: int | None = None  # of the body; None: as many as the service allows
    media_type: str = "application/json"

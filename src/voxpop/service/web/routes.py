"""The declaration of a route: its address, who may call it, what it takes and what it replies."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from voxpop.service.group_commit import Done

Role = Literal[
    "anyone",
    "operator",
    "viewer",
    "participant",
    "token",
    "shuffler",
    "coordinator",
    "session",  # of a browser that is signed in; the console's pages
    "manager",  # the same, as an operator
    "live",  # the same, for a page that updates itself
]
RoleCheck = Callable[
    [Request], Awaitable[str]
]  # returns the key, token or name of a caller with the role; refuses others
Handler = Callable[[Request, str], Awaitable[Response]]  # takes what the role check returned

# In the scope of a request:
ENDLESS = "voxpop.endless"  # its reply ends only with the caller or the server
STOPPING = "voxpop.stopping"  # the server is about to stop, so that such a reply must not begin any more

PARAMETERS: dict[str, dict[str, Any]] = {  # JSON schemas
    "study": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
    "wave": {"type": "integer", "minimum": 1, "maximum": 1000},
    "name": {"type": "string", "pattern": "^[^/]{1,64}$"},
    "key": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "before": {"type": "string", "pattern": "^[0-9]{1,15}$"},
    "batch": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
}


@dataclass(frozen=True)
class ReportUpload:
    """What an upload route has instead of a handler; see `UploadEndpoint` and `QuickUploads`."""

    submit: Callable[[Mapping[str, str], str, bytes, Done[bool]], None]
    """Count a report, given the path parameters, the token and the numbers; then say False if it was counted before."""

    most_numbers: Callable[[Mapping[str, str], bool], Awaitable[int]]
    """Return how many numbers a report to this path may have at most; with True, read the database again."""

    known_numbers: Callable[[Mapping[str, str]], int]
    """Return the same as far as it is known without the database; 0 if it is not."""


@dataclass(frozen=True)
class Route:
    """One operation: its role is checked before the handler runs, and the OpenAPI document describes it."""

    method: str
    path: str
    role: Role
    handler: Handler | ReportUpload
    summary: str
    replies: Mapping[int, type[BaseModel] | None]  # by status; None: the reply is not JSON
    refusals: tuple[int, ...] = ()  # beyond those that follow from the role and the body
    body: type[BaseModel] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # optional headers and their purpose
    query: Mapping[str, dict[str, Any]] = field(default_factory=dict)  # optional parameters and their JSON schemas
    most_bytes: int | None = None  # limit on the body; None: the limit of the service
    media_type: str = "application/json"
    documented: bool = True  # in the OpenAPI document
    for_devices: bool = False  # also for those that are web pages of an origin that is listed

    @property
    def name(self) -> str:
        """What the operation is called in the OpenAPI document, and in clients made from it: as its handler."""
        return "upload_report" if isinstance(self.handler, ReportUpload) else str(self.handler.__name__)


def pattern_of(path: str) -> re.Pattern[str]:
    """Return the expression for all addresses of a route, with a group for each of its parameters."""
    return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))

"""Reading the parts of a request, each with its own refusal: the key, the content type, the address and the body."""

from __future__ import annotations

import json
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from voxpop.service.keys import LEAST, MOST
from voxpop.service.refusals import Refusal
from voxpop.service.web.routes import PARAMETERS

Model = TypeVar("Model", bound=BaseModel)
KEY = re.compile(rf"[\x21-\x7e]{{{LEAST},{MOST}}}")
WAVE = re.compile(r"[1-9][0-9]{0,2}|1000")


async def anyone(request: Request) -> str:
    """Check the role `anyone`, which everybody has."""
    return ""


async def bearer(request: Request) -> str:
    """Return the key or token in the Authorization header; the handler finds out whose it is."""
    return bearer_key(request.headers.get("authorization", ""))


def bearer_key(header: str) -> str:
    """Return the key from an Authorization header."""
    kind, _, key = header.partition(" ")
    if kind.lower() != "bearer" or not KEY.fullmatch(key):
        raise Refusal(401, "this needs a key; send it as: Authorization: Bearer KEY")
    return key


def require_json(content_type: str) -> None:
    """Refuse a body whose content type is not JSON."""
    if content_type != "application/json" and content_type.split(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "the body must be JSON; send it with the content type application/json")


async def read_body(request: Request, model: type[Model]) -> Model:
    """Read the body and validate it."""
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


def path_text(request: Request, name: str) -> str:
    """Return a parameter of the path; refuse one that does not match its pattern."""
    return require_text(name, str(request.path_params[name]))


def query_text(request: Request, name: str) -> str | None:
    """Return an optional parameter behind the question mark; refuse one that does not match its pattern."""
    value = request.query_params.get(name)
    return None if value is None else require_text(name, value)


def require_text(name: str, value: str) -> str:
    """Return the value of a path parameter; refuse one that does not match its pattern."""
    if not re.fullmatch(PARAMETERS[name]["pattern"], value):
        raise Refusal(404, f"there is no such {name}; check the address")
    return value


def require_wave(value: str) -> int:
    """Return the number of a wave; refuse anything else."""
    if not WAVE.fullmatch(value):
        raise Refusal(404, "there is no such wave; waves are numbered from 1")
    return int(value)

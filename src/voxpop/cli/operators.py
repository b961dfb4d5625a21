"""What an operator sends to a running coordinator, and how its replies are shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from voxpop.errors import InputError

Url = Annotated[str, typer.Option(help="The coordinator's address.", envvar="VOXPOP_URL")]
DatabaseOption = Annotated[
    str | None,
    typer.Option("--database", help="A path (SQLite) or postgresql://user@host/name.", envvar="VOXPOP_DATABASE"),
]
KeyFile = Annotated[Path | None, typer.Option(help="A file with your operator key; or set VOXPOP_KEY.")]
DATABASES = {"coordinator": "voxpop.db", "shuffler": "voxpop-shuffler.db"}  # unless another is named
LOCAL = "http://127.0.0.1:8000"
HOW_TO_GET_ONE = "where the database is, one is made with: voxpop keys operator NAME --file my.key"
NEEDED = (
    "alembic",
    "httptools",
    "httpx",
    "msgspec",
    "prometheus_client",
    "starlette",
    "structlog",
    "uvicorn",
)


def need_service() -> None:
    """Refuse to run where only the core is installed, and say what to install."""
    for name in NEEDED:
        if find_spec(name) is None:
            raise InputError(f"the service needs {name}; install it with: pip install 'voxpop[service,privacy]'")


def said_when(seconds: float | None) -> str:
    """Write a time of the coordinator, in UTC; nothing if it is not known."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds else ""


def progress_lines(found: Mapping[str, Any], live: bool = False) -> str:
    """Write a status: how far the wave is, then what the coordinator says about it.

    If it is to be `live`, only what nobody else knows: what is in force, and why the study stands still.
    """
    first = f"wave {found['wave']} {found['stage']}"
    if found["stage"] == "finished":
        first = f"finished after wave {found['wave']}" if found["wave"] else "finished before the first wave"
    elif found["rounds"] or found["people"]:  # a plan is there
        first += (
            f": {found['played']:,} of {found['rounds']:,} rounds played, "
            f"{found['answered']:,} of {found['people']:,} people answered"
        )
    first += f"; {found['active']:,} actions left"
    # The first sentence says what is in force.
    says = [found["says"][0], *(hold["sentence"] for hold in found["holds"])] if live else found["says"]
    return "\n  ".join([first, *says])


class RefusedError(InputError):
    """The coordinator refused a request."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def own_key(key_file: Path | None) -> str:
    """Return the operator's key, from a file or from the environment."""
    from voxpop.service.keys import exposed, key_of_file, require_key

    if key_file is None:
        if not (key := os.environ.get("VOXPOP_KEY", "").strip()):
            raise InputError(f"no key was given; use --key-file or VOXPOP_KEY; {HOW_TO_GET_ONE}")
        return require_key("the operator key of VOXPOP_KEY", key, HOW_TO_GET_ONE)
    if (warning := exposed(key_file)) is not None:
        typer.echo(f"warning: {warning}", err=True)
    return key_of_file("operator key", key_file, HOW_TO_GET_ONE)


def request(url: str, key_file: Path | None, method: str, path: str, body: Any = None) -> Any:
    """Send one request as an operator."""
    return send(url, own_key(key_file), method, path, body)


def send(url: str, key: str, method: str, path: str, body: Any = None) -> Any:
    """Send one request with an operator's key."""
    import httpx

    from voxpop.service.shuffler.signed_http import require_url

    address = require_url("url", url) + path
    try:
        answer = httpx.request(method, address, json=body, headers={"authorization": f"Bearer {key}"}, timeout=60)
    except httpx.HTTPError as error:
        raise InputError(f"cannot reach {url}: {error}; is the coordinator running there?") from None
    if answer.status_code >= 400:
        raise RefusedError(answer.status_code, _sentence(answer))
    return answer.json()


def _sentence(answer: Any) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, LookupError, TypeError):
        return f"{answer.url} answered {answer.status_code}; is that a voxpop coordinator?"

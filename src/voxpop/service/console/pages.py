"""Making pages: templates and their filters, the headers of every page, and the files that pages load."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse

from voxpop.model.words import counted, number
from voxpop.report.summary import expectation
from voxpop.service.operators import Session
from voxpop.service.study.stages import State

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    # The only code that may turn text into HTML is htmx; see static/console.js.
    "require-trusted-types-for 'script'; trusted-types htmx"
)
PAGE_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
ASSET_HEADERS = {
    "cache-control": "public, max-age=31536000, immutable",  # names follow from the content
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "vary": "accept-encoding",
}
MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
COMMENTS = re.compile(rb"^ *//.*\n|^ +", re.MULTILINE)  # and indentation: browsers need neither
UNITS = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


# -- the filters of templates


def duration(seconds: float) -> str:
    """Say a time in its largest unit, and in two if that is more telling.

    >>> duration(30), duration(60), duration(5400), duration(86400), duration(90000)
    ('less than a minute', '1 minute', '1 hour 30 minutes', '1 day', '1 day 1 hour')
    """
    left, said = round(max(0.0, seconds) / 60) * 60, []
    for size, unit in UNITS:
        count = int(left // size)
        if count:
            said.append(counted(count, unit))
            left -= round(count * size)
        elif said:
            break
    return " ".join(said[:2]) or "less than a minute"


def moment(at: float) -> str:
    """Write a time in the world's time zone, to the minute.

    >>> moment(0.0)
    '1970-01-01 00:00 UTC'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def iso(at: float) -> str:
    """Write a time for the attribute of a <time> element."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sentence(text: str) -> str:
    """Begin a sentence with a capital letter, and end it.

    >>> sentence("nothing was deleted")
    'Nothing was deleted.'
    """
    return f"{upper_first(text)}."


def upper_first(text: str) -> str:
    """Begin with a capital letter, and leave the others as they are."""
    return text[:1].upper() + text[1:]


def badge(state: State) -> str:
    """Return the style of a study's state: does something go on, or does it wait for people or an operator?"""
    if state in (State.PLANNING, State.PLAYING, State.COLLECTING):
        return "badge on"
    return "badge wait" if state in (State.WAITING, State.PAUSED, State.DRAFT) else "badge"


FILTERS = {
    "badge": badge,
    "data": msgspec.to_builtins,  # of charts, for scripts
    "duration": duration,
    "expectation": expectation,
    "moment": moment,
    "iso": iso,
    "counted": counted,
    "number": number,
    "sentence": sentence,
    "upper_first": upper_first,
}


# -- templates


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("voxpop.service.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    made.globals["asset"] = lambda name: f"/static/{assets()[name].file}"
    return made


def render(template: str, session: Session | None, here: str, **values: Any) -> str:
    """Fill in a template of this package; `session` is None for those who are not signed in."""
    known = session is not None and bool(session.cookie)
    always = {
        "principal": None if session is None else session.principal,
        "signed_in": known,
        "csrf": session.csrf if session is not None and known else "",
        "here": here,
    }
    return _templates().get_template(f"{template}.html.j2").render(**always, **values)


def render_part(part: str, session: Session | None, here: str, **values: Any) -> str:
    """Make one part of a page, as a message that replaces the part in a page that is open."""
    made = render(f"parts/{part}", session, here, **values)
    return f'<hx-partial hx-target="#{part}" hx-swap="outerMorph">{made}</hx-partial>'


def html(text: str, status: int = 200) -> HTMLResponse:
    """Reply with a page or a part of one."""
    return HTMLResponse(text, status, PAGE_HEADERS)


def redirect(address: str) -> RedirectResponse:
    """Send a browser to another page."""
    return RedirectResponse(address, 303, PAGE_HEADERS)


# -- scripts and style sheets


@dataclass(frozen=True)
class Asset:
    """A file that pages load."""

    file: str  # its name in addresses, which changes with its content
    media_type: str
    body: bytes
    packed: bytes  # gzip


@cache
def assets() -> dict[str, Asset]:
    """Read all files, by their name in the package; each is compressed once."""
    found = {}
    for file in (files("voxpop.service.console") / "static").iterdir():
        stem, _, suffix = file.name.rpartition(".")
        if f".{suffix}" in MEDIA_TYPES:
            body = file.read_bytes()
            if suffix == "js":
                body = COMMENTS.sub(b"", body)
            name = f"{stem}.{hashlib.sha256(body).hexdigest()[:12]}.{suffix}"
            found[file.name] = Asset(name, MEDIA_TYPES[f".{suffix}"], body, gzip.compress(body, 9, mtime=0))
    return found

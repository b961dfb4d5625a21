"""Making pages from templates, and the headers that every page has."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse

from voxpop.service.console.assets import address_of
from voxpop.service.console.words import FILTERS
from voxpop.service.operators import Session

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
    made.globals["asset"] = address_of
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

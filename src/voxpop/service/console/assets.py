"""The console's scripts and style sheets: named after their content, compressed once, kept by browsers for ever."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from voxpop.service.refusals import Refusal

MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
COMMENTS = re.compile(rb"^ *//.*\n|^ +", re.MULTILINE)  # and indentation: browsers need neither
HEADERS = {
    "cache-control": "public, max-age=31536000, immutable",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "vary": "accept-encoding",
}


@dataclass(frozen=True)
class Asset:
    """A file that pages refer to."""

    file: str  # its name in addresses, which changes with its content
    media_type: str
    body: bytes
    packed: bytes  # gzip


@cache
def assets() -> dict[str, Asset]:
    """Read all files, by their name in the package."""
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


@cache
def _by_file() -> dict[str, Asset]:
    return {asset.file: asset for asset in assets().values()}


def address_of(name: str) -> str:
    """Return the address of a file of the package."""
    return f"/static/{assets()[name].file}"


async def serve_asset(request: Request, _: str) -> Response:
    """Reply with a file, compressed for those who take it so."""
    asset = _by_file().get(request.path_params["file"])
    if asset is None:
        raise Refusal(404, "there is no such file; reload the page")
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.packed, headers={**HEADERS, "content-encoding": "gzip"}, media_type=asset.media_type)
    return Response(asset.body, headers=HEADERS, media_type=asset.media_type)

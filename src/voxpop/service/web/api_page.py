"""The OpenAPI document as a page for people, made on the server: every operation, who may call it, and an example."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

Document = Mapping[str, Any]
COMPONENT = "#/components/schemas/"
LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<", "pattern": "like"}
SAMPLES = {"string": "...", "integer": 1, "number": 0.5, "boolean": False, "null": None}
NAMES = {"study": "tea", "wave": "1", "name": "me", "key": "a-new-name", "batch": "BATCH"}  # in examples of addresses
SECRETS = {"operator": "VOXPOP_KEY", "viewer": "VOXPOP_KEY", "participant": "DEVICE_KEY", "token": "TOKEN"}
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def api_page(document: Document) -> tuple[str, dict[str, str]]:
    """Render the page; return it with its headers, which allow its own style sheet and nothing else."""
    from jinja2 import Environment

    operations = [
        {**said, "path": path, "method": method.upper(), "example": _curl(document, path, method.upper(), said)}
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    ]
    template = (files("voxpop.service.web") / "api_page.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(template).render(**document, operations=operations, limits=LIMITS)
    style = page[page.index("<style>") + len("<style>") : page.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return page, {
        "content-security-policy": f"{NOTHING}; style-src 'sha256-{digest}'",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
    }


def _curl(document: Document, path: str, method: str, said: Document) -> str:
    """Write an example for the shell."""
    address = re.sub(r"{(\w+)}", lambda found: NAMES.get(found[1], found[1]), path)
    lines = [f'curl{"" if method == "GET" else f" -X {method}"} "$VOXPOP_URL{address}"']
    role = said["x-voxpop-role"]
    if role in SECRETS:
        lines.append(f'-H "Authorization: Bearer ${SECRETS[role]}"')
    elif role != "anyone":
        lines.append('-H "X-Voxpop-Signature: v1=$SIGNATURE"')
    if "requestBody" in said:
        body = said["requestBody"]["content"]["application/json"]["schema"]
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(example(document, body))}'"]
    return " \\\n  ".join(lines)


def example(document: Document, schema: Document) -> Any:
    """Make the smallest value that a schema describes: only what is required, and of several types the first."""
    if "$ref" in schema:
        return example(document, document["components"]["schemas"][schema["$ref"].removeprefix(COMPONENT)])
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return example(document, several[0])
    if "const" in schema or "enum" in schema:
        return schema["enum"][0] if "enum" in schema else schema["const"]
    kind = schema.get("type")
    if kind == "array":
        return [example(document, schema.get("items", {}))]
    if kind == "object":
        return {name: example(document, schema["properties"][name]) for name in schema.get("required", ())}
    if schema.get("pattern") == "^[0-9a-f]{64}$":
        return "0" * 64
    return max(schema.get("minimum", 0), SAMPLES[kind]) if kind == "integer" else SAMPLES.get(kind or "")

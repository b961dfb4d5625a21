"""The OpenAPI document as a page for people, made on the server: every operation, who may call it, and an example."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Document = Mapping[str, Any]
COMPONENT = "#/components/schemas/"
SAMPLES = {"string": "...", "integer": 1, "number": 0.5, "boolean": False, "null": None}
NAMES = {"study": "tea", "wave": "1", "name": "me", "key": "a-new-name", "batch": "BATCH"}  # in examples of addresses
SECRETS = {"operator": "VOXPOP_KEY", "viewer": "VOXPOP_KEY", "participant": "DEVICE_KEY", "token": "TOKEN"}
DEEPEST = 6  # objects in objects, in an example


@cache
def _folder_text(name: str) -> str:
    return (files("voxpop.service.web") / name).read_text(encoding="utf-8")


def _policy() -> str:
    """Allow the page's own style sheet, known by its hash, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(_folder_text("api_page.css").encode()).digest()).decode()
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return f"{nothing}; style-src 'sha256-{digest}'"


API_HEADERS = {
    "content-security-policy": _policy(),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


def api_page(document: Document) -> str:
    """Render the page."""
    from jinja2 import Environment

    view = {"info": document["info"], "groups": _groups(document), "schemas": _schemas(document)}
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    style = _folder_text("api_page.css")
    return environment.from_string(_folder_text("api_page.html.j2")).render(**view, style=style)


def _groups(document: Document) -> list[dict[str, Any]]:
    """Return the operations by the role that may call them."""
    operations = [
        _operation(document, path, method, said)
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    ]
    return [
        {**tag, "operations": [operation for operation in operations if operation["role"] == tag["name"]]}
        for tag in document["tags"]
    ]


def _operation(document: Document, path: str, method: str, said: Document) -> dict[str, Any]:
    body = said.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return {
        "id": said["operationId"],
        "method": method.upper(),
        "path": path,
        "role": said["x-voxpop-role"],
        "summary": said["summary"],
        "parameters": [
            {**parameter, "type": " or ".join(str(part["name"]) for part in _types(parameter["schema"]))}
            for parameter in said["parameters"]
        ],
        "body": None if body is None else _types(body),
        "replies": [
            {"status": status, "says": reply["description"], "types": _reply_types(reply)}
            for status, reply in said["responses"].items()
        ],
        "example": _curl(document, path, method.upper(), said["x-voxpop-role"], body),
    }


def _reply_types(reply: Document) -> list[dict[str, str | None]]:
    ((media, content),) = reply["content"].items()
    return _types(content["schema"]) if media == "application/json" else [{"name": media, "link": None}]


def _schemas(document: Document) -> list[dict[str, Any]]:
    """Return every schema with the rows of its table."""
    return [
        {
            "name": name,
            "says": schema.get("description", ""),
            "one_of": [] if "properties" in schema else _types(schema),
            "rows": [
                {
                    "name": field,
                    "types": _types(said),
                    "needed": field in schema.get("required", ()),
                    "default": json.dumps(said["default"]) if "default" in said else "",
                    "says": said.get("description", ""),
                }
                for field, said in schema.get("properties", {}).items()
            ],
        }
        for name, schema in sorted(document["components"]["schemas"].items())
    ]


def _types(schema: Document) -> list[dict[str, str | None]]:
    """Say what a value may be: one or several types, each with the name of the schema that explains it, if any."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(COMPONENT)
        return [{"name": name, "link": name}]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return [part for one in schema[several] for part in _types(one)]
    if "const" in schema or "enum" in schema:
        values = schema.get("enum") or [schema["const"]]
        return [{"name": " | ".join(map(json.dumps, values)), "link": None}]
    if schema.get("type") == "array":
        return [{"name": f"list of {part['name']}", "link": part["link"]} for part in _types(schema.get("items", {}))]
    return [{"name": schema.get("type", "anything") + _limits(schema), "link": None}]


def _limits(schema: Document) -> str:
    words = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<", "pattern": "like"}
    found = [f"{word} {schema[name]}" for name, word in words.items() if name in schema]
    return f" ({', '.join(found)})" if found else ""


def _curl(document: Document, path: str, method: str, role: str, body: Document | None) -> str:
    """Write an example for the shell."""
    address = re.sub(r"{(\w+)}", lambda found: NAMES.get(found[1], found[1]), path)
    lines = [f'curl{"" if method == "GET" else f" -X {method}"} "$VOXPOP_URL{address}"']
    if role in SECRETS:
        lines.append(f'-H "Authorization: Bearer ${SECRETS[role]}"')
    elif role != "anyone":
        lines.append('-H "X-Voxpop-Signature: v1=$SIGNATURE"')
    if body is not None:
        lines.append("-H 'Content-Type: application/json'")
        lines.append(f"-d '{json.dumps(example(document, body))}'")
    return " \\\n  ".join(lines)


def example(document: Document, schema: Document, depth: int = 0) -> Any:
    """Make the smallest value that a schema describes: only what is required, and of several types the first."""
    if "$ref" in schema:
        return example(document, document["components"]["schemas"][schema["$ref"].removeprefix(COMPONENT)], depth)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return example(document, schema[several][0], depth)
    if "const" in schema or "enum" in schema:
        return schema["enum"][0] if "enum" in schema else schema["const"]
    if schema.get("type") == "array":
        return [] if depth > DEEPEST else [example(document, schema.get("items", {}), depth + 1)]
    if schema.get("type") == "object":
        needed = schema.get("required", ())
        return {name: example(document, schema["properties"][name], depth + 1) for name in needed}
    if schema.get("pattern") == "^[0-9a-f]{64}$":
        return "0" * 64
    least = schema.get("minimum", 0)
    return (
        max(least, SAMPLES[schema["type"]]) if schema.get("type") == "integer" else SAMPLES.get(schema.get("type", ""))
    )

"""The addresses that both services have: whether it lives, whether it works, what it measured, what it offers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from voxpop.service.refusals import Refusal
from voxpop.service.web.guard import Metrics
from voxpop.service.web.routes import Route
from voxpop.stores.database import Database

PATIENCE = 5.0  # seconds for the database to answer


def schema(**properties: Any) -> dict[str, Any]:
    """The JSON schema of an object with these properties, all of them there."""
    kinds = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
    parts = {name: {"type": kinds[kind]} if isinstance(kind, type) else kind or {} for name, kind in properties.items()}
    return {"type": "object", "properties": parts, "required": list(parts)}


def usual(database: Callable[[], Database], metrics: Metrics, unwell: Callable[[], str | None]) -> list[Route]:
    """The routes of a service on this database; `unwell` says what else keeps it from working."""

    async def health(request: Request, _: str) -> Response:
        return JSONResponse({"status": "alive"})

    def look() -> None:
        with database().read() as connection:
            connection.execute(sa.select(1))

    async def ready(request: Request, _: str) -> Response:
        try:
            await asyncio.wait_for(run_in_threadpool(look), PATIENCE)
        except Exception:
            raise Refusal(503, "the database does not answer; look at it first") from None
        problem = unwell()
        if problem is not None:
            raise Refusal(503, problem)
        return JSONResponse({"status": "ready"})

    async def measures(request: Request, _: str) -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def openapi(request: Request, _: str) -> Response:
        return JSONResponse(request.app.openapi())

    alive = schema(status=str)
    return [
        Route("GET", "/healthz", "anyone", health, "The process lives.", {200: alive}),
        Route("GET", "/readyz", "anyone", ready, "The service can work.", {200: alive}, (503,)),
        Route("GET", "/metrics", "anyone", measures, "Prometheus metrics.", {200: None}, media="text/plain"),
        Route("GET", "/openapi.json", "anyone", openapi, "This description.", {200: schema(paths=dict)}),
    ]

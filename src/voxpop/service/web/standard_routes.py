"""The routes that both services have: liveness, readiness, metrics, the OpenAPI document and the page made of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from voxpop.service.refusals import Refusal
from voxpop.service.stores.database import Database
from voxpop.service.web.api_page import api_page
from voxpop.service.web.bodies import Alive, OpenAPI, Ready
from voxpop.service.web.readiness import Readiness
from voxpop.service.web.routes import Route
from voxpop.service.web.telemetry import Telemetry


def standard_routes(
    database: Callable[[], Database],
    telemetry: Telemetry,
    problem: Callable[[], str | None],
    document: Callable[[], dict[str, Any]],
    more_metrics: Callable[[Request], Awaitable[bytes]] | None = None,
) -> list[Route]:
    """Declare the routes.

    `problem` returns what else keeps the service from working besides the database, or None. `more_metrics` returns
    those that only some callers may see.
    """
    readiness = Readiness(database)

    async def health(request: Request, _: str) -> Response:
        return JSONResponse({"status": "alive"})

    async def ready(request: Request, _: str) -> Response:
        found = await readiness.problem() or problem()
        if found is not None:
            raise Refusal(503, found)
        return JSONResponse({"status": "ready"})

    async def metrics(request: Request, _: str) -> Response:
        telemetry.database_up = await readiness.problem() is None
        more = b"" if more_metrics is None or not telemetry.database_up else await more_metrics(request)
        return Response(generate_latest(telemetry.registry) + more, media_type=CONTENT_TYPE_LATEST)

    async def api(request: Request, _: str) -> Response:
        made, headers = page()
        return HTMLResponse(made, headers=headers)

    @cache
    def page() -> tuple[str, dict[str, str]]:
        return api_page(document())

    async def openapi(request: Request, _: str) -> Response:
        return JSONResponse(document())

    return [
        Route("GET", "/healthz", "anyone", health, "Check that the process is alive.", {200: Alive}),
        Route("GET", "/readyz", "anyone", ready, "Check that the service can store reports.", {200: Ready}, (503,)),
        Route(
            "GET",
            "/metrics",
            "anyone",
            metrics,
            "Get Prometheus metrics."
            if more_metrics is None
            else "Get Prometheus metrics; with an operator's or a viewer's key, also those of studies.",
            {200: None},
            () if more_metrics is None else (401,),
            media_type="text/plain",
        ),
        Route("GET", "/api", "anyone", api, "Read this document as a page.", {200: None}, media_type="text/html"),
        Route("GET", "/openapi.json", "anyone", openapi, "Get this document.", {200: OpenAPI}),
    ]

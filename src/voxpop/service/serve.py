"""Starting the services."""

from __future__ import annotations

import socket
import sys

import uvicorn
from starlette.types import ASGIApp

from voxpop.errors import InputError, require_integer, require_number
from voxpop.service import logs
from voxpop.service.coordinator import Coordinator
from voxpop.service.guard import Buckets
from voxpop.service.http import Service
from voxpop.service.link import HttpShuffler, require_url
from voxpop.service.patience import MOST_CONNECTIONS, Impatient
from voxpop.service.settings import Settings
from voxpop.service.shuffler import Shuffler
from voxpop.service.shuffler_http import ShufflerService
from voxpop.stores.migrate import open_store


def coordinator_of(settings: Settings, migrate: bool = False) -> Service:
    """The coordinator that the settings describe."""
    shuffler, key = None, settings.own_shuffler_key()
    if settings.shuffler_url is not None:
        if key is None:
            raise InputError("a shuffler is told apart by its key; set VOXPOP_SHUFFLER_KEY_FILE")
        url = require_url("shuffler_url", settings.shuffler_url)
        public = require_url("shuffler_public_url", settings.shuffler_public_url or url)
        shuffler = HttpShuffler(url, key, public)
    database = open_store(settings.database, "coordinator", migrate)
    coordinator = Coordinator(database, settings.own_secret(), shuffler)
    service = Service(coordinator, key, settings.open_dashboard)
    note = logs.noter("coordinator")

    def noted(kind: str, **values: object) -> None:
        note(kind, **values)
        service.metrics.events.labels(kind).inc()

    coordinator.note = noted
    return service


def shuffler_of(settings: Settings, migrate: bool = False) -> ShufflerService:
    """The shuffler that the settings describe."""
    key = settings.own_shuffler_key()
    if key is None:
        raise InputError("a shuffler needs the key it shares with its coordinator; set VOXPOP_SHUFFLER_KEY_FILE")
    if settings.coordinator_url is None:
        raise InputError("a shuffler needs to know its coordinator; give --coordinator-url")
    url = require_url("coordinator_url", settings.coordinator_url)
    database = open_store(settings.database, "shuffler", migrate)
    return ShufflerService(Shuffler(database, logs.noter("shuffler")), url, key)


def run(service: Service | ShufflerService, settings: Settings) -> None:
    """Serve until told to stop."""
    require_number("rate", settings.rate, least=0)
    require_number("burst", settings.burst, least=1)
    require_integer("max_body", settings.max_body, least=1024)
    require_integer("port", settings.port, least=0, most=65535)
    app: ASGIApp = service.guarded(Buckets(settings.rate, settings.burst), settings.max_body)
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise InputError("TLS needs both a certificate and a key; give --tls-cert and --tls-key")
    for file in (settings.tls_cert, settings.tls_key):
        if file is not None and not file.is_file():
            raise InputError(f"there is no file {str(file)!r}; check --tls-cert and --tls-key")
    listener = _listen(settings.host, settings.port)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies or None,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        http=Impatient,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=64 * 1024,
    )
    sys.setswitchinterval(0.0002)  # an answer must not wait for a thread that plans a phase
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.tls_cert is None else "https"
    logs.noter("service")("listening", url=f"{scheme}://{host}:{port}")
    uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot listen on {host}:{port}: {reason}; choose another --host or --port") from None

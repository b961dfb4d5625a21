"""`voxpop serve`, `shuffler`, `migrate` and `restored`: the commands that run and keep a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxpop.cli.display import console
from voxpop.cli.operators import DATABASES, DatabaseOption, need_service
from voxpop.errors import require_integer

if TYPE_CHECKING:
    from voxpop.service.settings import Settings
    from voxpop.service.stores.migrate import Kind

Database = Annotated[str | None, typer.Option(help="A path (SQLite) or postgresql://user@host/name.")]
Host = Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 unless given.")]
Port = Annotated[int | None, typer.Option(help="The port to listen on.")]
Cert = Annotated[Path | None, typer.Option("--tls-cert", help="The certificate, for https.")]
Key = Annotated[Path | None, typer.Option("--tls-key", help="The certificate's key.")]
Hsts = Annotated[
    int | None, typer.Option(help="Seconds for which browsers insist on https, with --tls-cert; 0 for not at all.")
]
Rate = Annotated[float | None, typer.Option(help="Requests per second from one address; 0 for no limit.")]
Connections = Annotated[int | None, typer.Option(help="Connections from one address at once; 0 for no limit.")]
Body = Annotated[int | None, typer.Option(help="The largest request body, in bytes.")]
Level = Annotated[str | None, typer.Option(help="debug, info, warning or error.")]
Migrate = Annotated[bool, typer.Option("--migrate", help="Bring the database up to date first.")]
Proxies = Annotated[str | None, typer.Option(help="Addresses whose X-Forwarded-For is trusted, separated by commas.")]

Origins = Annotated[
    list[str] | None,
    typer.Option("--allow-origin", help="An origin whose pages may be devices: https://app.example; may be repeated."),
]


def _settings(given: dict[str, Any], port: int, database: str) -> Settings:
    """Return a service's settings (flags, else the environment, else these defaults), and set up its log."""
    need_service()
    from voxpop.service import logs
    from voxpop.service.settings import settings_of

    said = {name: " ".join(value) or None if isinstance(value, list) else value for name, value in given.items()}
    settings = settings_of(**{name: value for name, value in said.items() if name in FLAGS})
    settings.port = port if settings.port is None else settings.port
    settings.database = settings.database or database
    logs.set_up(settings.log_level)
    return settings


def serve(
    database: Database = None,
    host: Host = None,
    port: Port = None,
    shuffler_url: Annotated[
        str | None, typer.Option(help="The shuffler's or helper's address: shuffle, aggregate.")
    ] = None,
    shuffler_public_url: Annotated[
        str | None, typer.Option(help="The shuffler's address for devices, if different.")
    ] = None,
    tls_cert: Cert = None,
    tls_key: Key = None,
    hsts: Hsts = None,
    rate: Rate = None,
    connections: Connections = None,
    max_body: Body = None,
    trusted_proxies: Proxies = None,
    allow_origin: Origins = None,
    log_level: Level = None,
    open_dashboard: Annotated[
        bool | None, typer.Option(help="Let anyone look at all studies, without signing in.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that serve together (PostgreSQL only).")] = None,
    migrate: Migrate = False,
) -> None:
    """Run a coordinator.

    Every flag can be set in the environment, as VOXPOP_DATABASE and so on. Secrets are read from there or from files:
    VOXPOP_SECRET_FILE (created automatically beside an SQLite database) and VOXPOP_SHUFFLER_KEY_FILE.
    """
    settings = _settings(locals(), 8000, DATABASES["coordinator"])
    from voxpop.service import serve
    from voxpop.service import workers as several

    if settings.workers == 1:
        serve.run(serve.coordinator_of(settings, migrate), settings)
    else:
        several.serve_with(settings, settings.workers, migrate)


def shuffler(
    database: Database = None,
    host: Host = None,
    port: Port = None,
    coordinator_url: Annotated[str | None, typer.Option(help="The coordinator's address, for the totals.")] = None,
    tls_cert: Cert = None,
    tls_key: Key = None,
    hsts: Hsts = None,
    rate: Rate = None,
    connections: Connections = None,
    max_body: Body = None,
    trusted_proxies: Proxies = None,
    allow_origin: Origins = None,
    least_batch: Annotated[
        int, typer.Option(envvar="VOXPOP_LEAST_BATCH", help="The least number of people whose total is forwarded.")
    ] = 2,
    log_level: Level = None,
    migrate: Migrate = False,
) -> None:
    """Run a shuffler or helper, which someone other than the coordinator's operator should do.

    It reads the key that it shares with the coordinator from VOXPOP_SHUFFLER_KEY_FILE.
    """
    settings = _settings(locals(), 8001, DATABASES["shuffler"])
    from voxpop.service import serve

    require_integer("least_batch", least_batch, least=2)
    service = serve.shuffler_of(settings, migrate)
    service.shuffler.least_batch = least_batch
    serve.run(service, settings)


FLAGS = (
    "database",
    "host",
    "port",
    "shuffler_url",
    "shuffler_public_url",
    "coordinator_url",
    "tls_cert",
    "tls_key",
    "hsts",
    "rate",
    "connections",
    "max_body",
    "trusted_proxies",
    "allow_origin",
    "log_level",
    "open_dashboard",
    "workers",
)


def migrate(
    database: DatabaseOption = None,
    of_shuffler: Annotated[bool, typer.Option("--shuffler", help="It is a shuffler's database.")] = False,
) -> None:
    """Bring a service's database up to date; safe to repeat, and safe to run twice at once."""
    need_service()
    from voxpop.service.stores.database import open_database, require_database
    from voxpop.service.stores.migrate import migrate as upgrade

    kind: Kind = "shuffler" if of_shuffler else "coordinator"
    address = database or DATABASES[kind]
    require_database(address)
    opened = open_database(address)
    before, after = upgrade(opened, kind)
    opened.close()
    console.print(f"{opened.name}: {before or 'empty'} -> {after}", highlight=False, soft_wrap=True)


def restored(
    database: Database = None,
    accept: Annotated[bool, typer.Option(help="Go on with it, although people may be asked twice.")] = False,
) -> None:
    """Show which released waves a coordinator's database lost, because it was restored from an older backup."""
    settings = _settings(locals(), 8000, DATABASES["coordinator"])
    from voxpop.service import serve
    from voxpop.service.stores.database import require_database

    require_database(settings.database)
    found = serve.lost_releases(settings, accept)
    for lost in found.values():
        console.print(f"{'accepted' if accept else 'lost'}: {lost}", highlight=False, soft_wrap=True)
    if not found:
        console.print("the database knows every wave that was released", highlight=False, soft_wrap=True)

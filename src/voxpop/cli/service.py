"""`voxpop serve`, `shuffler`, `migrate`, `backup`, `restore` and `restored`: running and keeping a service."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voxpop.cli.display import console, errors
from voxpop.cli.operators import DATABASES, DatabaseOption, need_service
from voxpop.errors import require_integer

if TYPE_CHECKING:
    from voxpop.service.serve import Settings
    from voxpop.service.stores.backup import Backup
    from voxpop.service.stores.migrate import Kind

PORTS = {"coordinator": 8000, "shuffler": 8001}  # unless another is given


@dataclass(frozen=True, kw_only=True)
class Flags:
    """What both services can be told."""

    database: Annotated[str | None, typer.Option(help="A path (SQLite) or postgresql://user@host/name.")] = None
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 unless given.")] = None
    port: Annotated[int | None, typer.Option(help="The port to listen on.")] = None
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate, for https.")] = None
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key.")] = None
    hsts: Annotated[
        int | None, typer.Option(help="Seconds for which browsers insist on https, with --tls-cert; 0 for not at all.")
    ] = None
    rate: Annotated[float | None, typer.Option(help="Requests per second from one address; 0 for no limit.")] = None
    connections: Annotated[int | None, typer.Option(help="Connections from one address at once; 0 for no limit.")] = (
        None
    )
    max_body: Annotated[int | None, typer.Option(help="The largest request body, in bytes.")] = None
    trusted_proxies: Annotated[
        str | None, typer.Option(help="Addresses whose X-Forwarded-For is trusted, separated by commas.")
    ] = None
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="An origin whose pages may be devices: https://app.example; may be repeated."),
    ] = None
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None
    migrate: Annotated[bool, typer.Option("--migrate", help="Bring the database up to date first.")] = False

    def settings(self, kind: Kind) -> Settings:
        """Return a service's settings (flags, else the environment, else its defaults), and set up its log."""
        need_service()
        from voxpop.service import logs
        from voxpop.service.serve import Settings, settings_of

        said = {part.name: getattr(self, part.name) for part in fields(Settings) if hasattr(self, part.name)}
        made = settings_of(**{**said, "allow_origin": " ".join(self.allow_origin or ()) or None})
        made.port = PORTS[kind] if made.port is None else made.port
        made.database = made.database or DATABASES[kind]
        logs.set_up(made.log_level)
        return made


@dataclass(frozen=True, kw_only=True)
class ServeOptions(Flags):
    """The options of `voxpop serve`."""

    shuffler_url: Annotated[
        str | None, typer.Option(help="The shuffler's or helper's address: shuffle, aggregate.")
    ] = None
    shuffler_public_url: Annotated[
        str | None, typer.Option(help="The shuffler's address for devices, if different.")
    ] = None
    open_dashboard: Annotated[bool | None, typer.Option(help="Let anyone look at all studies, without signing in.")] = (
        None
    )
    workers: Annotated[int | None, typer.Option(help="Processes that serve together (PostgreSQL only).")] = None


def serve(chosen: ServeOptions) -> None:
    """Run a coordinator.

    Every flag can be set in the environment, as VOXPOP_DATABASE and so on. Secrets are read from there or from files:
    VOXPOP_SECRET_FILE (created automatically beside an SQLite database) and VOXPOP_SHUFFLER_KEY_FILE.
    """
    settings = chosen.settings("coordinator")
    from voxpop.service import serve, workers

    if settings.workers == 1:
        serve.run(serve.coordinator_of(settings, chosen.migrate), settings)
    else:
        workers.serve_with_workers(settings, chosen.migrate)


@dataclass(frozen=True, kw_only=True)
class ShufflerOptions(Flags):
    """The options of `voxpop shuffler`."""

    coordinator_url: Annotated[str | None, typer.Option(help="The coordinator's address, for the totals.")] = None
    least_batch: Annotated[
        int, typer.Option(envvar="VOXPOP_LEAST_BATCH", help="The least number of people whose total is forwarded.")
    ] = 2


def shuffler(chosen: ShufflerOptions) -> None:
    """Run a shuffler or helper, which someone other than the coordinator's operator should do.

    It reads the key that it shares with the coordinator from VOXPOP_SHUFFLER_KEY_FILE.
    """
    settings = chosen.settings("shuffler")
    from voxpop.service import serve

    require_integer("least_batch", chosen.least_batch, least=2)
    service = serve.shuffler_of(settings, chosen.migrate)
    service.shuffler.least_batch = chosen.least_batch
    serve.run(service, settings)


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
    with closing(open_database(address)) as opened:
        before, after = upgrade(opened, kind)
    console.print(f"{opened.name}: {before or 'empty'} -> {after}", highlight=False, soft_wrap=True)


def restored(
    database: Annotated[str | None, typer.Option(help="A path (SQLite) or postgresql://user@host/name.")] = None,
    accept: Annotated[bool, typer.Option(help="Go on with it, although people may be asked twice.")] = False,
) -> None:
    """Show which released waves a coordinator's database lost, because it was restored from an older backup."""
    settings = Flags(database=database).settings("coordinator")
    from voxpop.service import serve
    from voxpop.service.stores.database import require_database

    require_database(settings.database)
    found = serve.lost_releases(settings, accept)
    for lost in found.values():
        console.print(f"{'accepted' if accept else 'lost'}: {lost}", highlight=False, soft_wrap=True)
    if not found:
        console.print("the database knows every wave that was released", highlight=False, soft_wrap=True)


def backup(
    out: Annotated[Path, typer.Option(help="The new file, which only you can read.")],
    database: DatabaseOption = None,
    of_shuffler: Annotated[bool, typer.Option("--shuffler", help="It is a shuffler's database.")] = False,
) -> None:
    """Write a service's database to one file, while the service runs.

    The file also holds the reports of open waves: protect it as you protect them. It does not hold the secret.
    """
    need_service()
    from voxpop.service.stores.backup import write_backup
    from voxpop.service.stores.database import open_database, require_database

    kind: Kind = "shuffler" if of_shuffler else "coordinator"
    address = database or DATABASES[kind]
    require_database(address)
    with closing(open_database(address)) as opened:
        made = write_backup(opened, kind, out)
        console.print(f"{opened.name} -> {out}: {_described(made)}", highlight=False, soft_wrap=True)


def restore(
    file: Annotated[Path, typer.Argument(help="A file that voxpop backup wrote.")],
    database: DatabaseOption = None,
    check: Annotated[bool, typer.Option("--check", help="Only read the file, and say whether it is whole.")] = False,
) -> None:
    """Fill an empty database, SQLite or PostgreSQL, from a backup.

    The record of what was released is not part of a backup, and stays as it is: by it, a coordinator recognises a
    database that is older than its releases, and does not start.
    """
    need_service()
    from voxpop.service.stores.backup import check_backup, restore_backup
    from voxpop.service.stores.database import open_database

    found = check_backup(file)
    if check:
        console.print(f"{file} is whole: {_described(found)}", highlight=False, soft_wrap=True)
        return
    address = database or DATABASES[found.kind]
    with closing(open_database(address)) as opened:
        restored = restore_backup(opened, file)
        console.print(f"{file} -> {opened.name}: {_described(restored)}", highlight=False, soft_wrap=True)
    if found.kind == "coordinator":
        _say_what_is_lost(address)


def _say_what_is_lost(address: str) -> None:
    """Warn at once of what the coordinator would refuse when it starts."""
    from voxpop.service.serve import lost_releases, settings_of

    for lost in lost_releases(settings_of(database=address)).values():
        errors.print(
            f"warning: {lost} was released after this backup was made; restore a newer one, or see: voxpop restored",
            highlight=False,
            soft_wrap=True,
        )


def _described(found: Backup) -> str:
    made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.made))
    return f"{found.rows:,} rows of {found.schema}, as of {made}"

"""`voxpop serve`, `shuffler`, `migrate`, `backup`, `restore` and `restored`: running and keeping a service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from voxpop.cli.display import errors, say
from voxpop.cli.operators import DATABASES, DatabaseOption
from voxpop.cli.options import from_table
from voxpop.errors import require_integer
from voxpop.model.options import Option
from voxpop.service import audit, logs, workers
from voxpop.service import serve as server
from voxpop.service.serve import Settings, lost_releases, settings_of
from voxpop.service.stores import database as databases
from voxpop.service.stores.migrate import Backup, Kind, check_backup, restore_backup, write_backup
from voxpop.service.stores.migrate import migrate as upgrade

PORTS = {"coordinator": 8000, "shuffler": 8001}  # unless another is given
KINDS = {**get_type_hints(Settings), "allow_origin": list[str]}
OfShuffler = Annotated[bool, typer.Option("--shuffler", help="It is a shuffler's database.")]


def settings_table(**said: str) -> Any:
    """Make a dataclass of flags for settings, each None unless given, from what is said of them."""
    return from_table("Flags", [Option(name, None, KINDS[name], help=text) for name, text in said.items()])


_Both = settings_table(
    database="A path (SQLite) or postgresql://user@host/name.",
    host="The address to listen on; 127.0.0.1 unless given.",
    port="The port to listen on.",
    tls_cert="The certificate, for https.",
    tls_key="The certificate's key.",
    hsts="Seconds for which browsers insist on https, with --tls-cert; 0 for not at all.",
    rate="Requests per second from one address; 0 for no limit.",
    connections="Connections from one address at once; 0 for no limit.",
    max_body="The largest request body, in bytes.",
    trusted_proxies="Addresses whose X-Forwarded-For is trusted, separated by commas.",
    allow_origin="An origin whose pages may be devices: https://app.example; may be repeated.",
    log_level="debug, info, warning or error.",
)
_Coordinator = settings_table(
    shuffler_url="The shuffler's or helper's address: shuffle, aggregate.",
    shuffler_public_url="The shuffler's address for devices, if different.",
    registrations="New people an hour from one address; 0 for no limit.",
    open_dashboard="Let anyone look at all studies, without signing in.",
    public_url="The coordinator's address for browsers.",
    webhook_allow="Networks inside which webhooks may go: 10.1.0.0/16.",
    oidc_issuer="The identity provider with which people sign in.",
    oidc_client_id="What this service is called there.",
    workers="Processes that serve together (PostgreSQL only).",
)
_Shuffler = settings_table(coordinator_url="The coordinator's address, for the totals.")


@dataclass(frozen=True, kw_only=True)
class Flags(_Both):  # type: ignore[misc, valid-type]
    """What both services can be told."""

    migrate: Annotated[bool, typer.Option("--migrate", help="Bring the database up to date first.")] = False

    def settings(self, kind: Kind) -> Settings:
        """Return a service's settings (flags, else the environment, else its defaults), and set up its log."""
        said = {part.name: getattr(self, part.name) for part in fields(Settings) if hasattr(self, part.name)}
        made = settings_of(**{**said, "allow_origin": " ".join(self.allow_origin or ()) or None})
        made.port = PORTS[kind] if made.port is None else made.port
        made.database = made.database or DATABASES[kind]
        logs.set_up(made.log_level)
        return made


@dataclass(frozen=True, kw_only=True)
class ServeOptions(_Coordinator, Flags):  # type: ignore[misc, valid-type]
    """The options of `voxpop serve`."""


def serve(chosen: ServeOptions) -> None:
    """Run a coordinator.

    Every flag can be set in the environment, as VOXPOP_DATABASE and so on. Secrets are read from there or from files:
    VOXPOP_SECRET_FILE (created automatically beside an SQLite database) and VOXPOP_SHUFFLER_KEY_FILE.
    """
    settings = chosen.settings("coordinator")
    if settings.workers == 1:
        server.run(server.coordinator_of(settings, chosen.migrate), settings)
    else:
        workers.serve_with_workers(settings, chosen.migrate)


@dataclass(frozen=True, kw_only=True)
class ShufflerOptions(_Shuffler, Flags):  # type: ignore[misc, valid-type]
    """The options of `voxpop shuffler`."""

    least_batch: Annotated[
        int, typer.Option(envvar="VOXPOP_LEAST_BATCH", help="The least number of people whose total is forwarded.")
    ] = 2


def shuffler(chosen: ShufflerOptions) -> None:
    """Run a shuffler or helper, which someone other than the coordinator's operator should do.

    It reads the key that it shares with the coordinator from VOXPOP_SHUFFLER_KEY_FILE.
    """
    settings = chosen.settings("shuffler")
    require_integer("least_batch", chosen.least_batch, least=2)
    service = server.shuffler_of(settings, chosen.migrate)
    service.shuffler.least_batch = chosen.least_batch
    server.run(service, settings)


@contextmanager
def _opened(database: str | None, of_shuffler: bool) -> Iterator[tuple[databases.Database, Kind]]:
    """Open a service's database, which must be there."""
    kind: Kind = "shuffler" if of_shuffler else "coordinator"
    address = database or DATABASES[kind]
    databases.require_database(address)
    with closing(databases.open_database(address)) as opened:
        yield opened, kind


def migrate(database: DatabaseOption = None, of_shuffler: OfShuffler = False) -> None:
    """Bring a service's database up to date; safe to repeat, and safe to run twice at once."""
    with _opened(database, of_shuffler) as (opened, kind):
        before, after = upgrade(opened, kind)
    done = f"up to date ({after})" if before == after else f"{before or 'empty'} -> {after}"
    say(f"{opened.name}: {done}")


def restored(
    database: Annotated[str | None, typer.Option(help="A path (SQLite) or postgresql://user@host/name.")] = None,
    accept: Annotated[bool, typer.Option(help="Go on with it, although people may be asked twice.")] = False,
) -> None:
    """Show which released waves a coordinator's database lost, because it was restored from an older backup."""
    settings = Flags(database=database).settings("coordinator")
    databases.require_database(settings.database)
    found = [f"{'accepted' if accept else 'lost'}: {lost}" for lost in lost_releases(settings, accept).values()]
    say(*(found or ["the database knows every wave that was released"]))


def backup(
    out: Annotated[Path, typer.Option(help="The new file, which only you can read.")],
    database: DatabaseOption = None,
    of_shuffler: OfShuffler = False,
) -> None:
    """Write a service's database to one file, while the service runs.

    The file also holds the reports of open waves: protect it as you protect them. It does not hold the secret.
    """
    with _opened(database, of_shuffler) as (opened, kind):
        say(f"{opened.name} -> {out}: {_described(write_backup(opened, kind, out))}")
        if kind == "coordinator":  # so that the page about the service can say when
            with opened.write() as connection:
                audit.note(connection, time.time(), audit.COMMAND_LINE, audit.Action.BACKED_UP, detail=out.name[:200])


def restore(
    file: Annotated[Path, typer.Argument(help="A file that voxpop backup wrote.")],
    database: DatabaseOption = None,
    check: Annotated[bool, typer.Option("--check", help="Only read the file, and say whether it is whole.")] = False,
) -> None:
    """Fill an empty database, SQLite or PostgreSQL, from a backup.

    The record of what was released is not part of a backup, and stays as it is: by it, a coordinator recognises a
    database that is older than its releases, and does not start.
    """
    found = check_backup(file)
    if check:
        say(f"{file} is whole: {_described(found)}")
        return
    address = database or DATABASES[found.kind]
    with closing(databases.open_database(address)) as opened:
        say(f"{file} -> {opened.name}: {_described(restore_backup(opened, file))}")
    for lost in lost_releases(settings_of(database=address)).values() if found.kind == "coordinator" else ():
        errors.print(
            f"warning: {lost} was released after this backup was made; restore a newer one, or see: voxpop restored",
            highlight=False,
            soft_wrap=True,
        )


def _described(found: Backup) -> str:
    made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.made))
    return f"{found.rows:,} rows of {found.schema}, as of {made}"

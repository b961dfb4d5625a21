"""`voxpop serve`, `shuffler`, `migrate`, `keys` and `study`: the commands for operators of a service."""

from __future__ import annotations

import json
import shlex
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxpop.cli.display import console
from voxpop.cli.operators import LOCAL, KeyFile, Url, need_service, progress_lines, request
from voxpop.core.errors import InputError, require_integer

if TYPE_CHECKING:
    from voxpop.service.settings import Settings

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


def _settings(given: dict[str, Any], port: int, database: str) -> Settings:
    """Return a service's settings (flags, else the environment, else these defaults), and set up its log."""
    need_service()
    from voxpop.service import logs
    from voxpop.service.settings import settings_of

    settings = settings_of(**{name: value for name, value in given.items() if name in FLAGS})
    settings.port = port if settings.port is None else settings.port
    settings.database = settings.database or database
    logs.set_up(settings.log_level)
    return settings


def serve(
    database: Database = None,
    host: Host = None,
    port: Port = None,
    shuffler_url: Annotated[str | None, typer.Option(help="The shuffler's address, for the shuffle model.")] = None,
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
    log_level: Level = None,
    open_dashboard: Annotated[bool | None, typer.Option(help="Let anyone see the dashboard.")] = None,
    migrate: Migrate = False,
) -> None:
    """Run a coordinator.

    Every flag can be set in the environment, as VOXPOP_DATABASE and so on. Secrets are read from there or from files:
    VOXPOP_SECRET_FILE (created automatically beside an SQLite database) and VOXPOP_SHUFFLER_KEY_FILE.
    """
    settings = _settings(locals(), 8000, "voxpop.db")
    from voxpop.service import serve

    serve.run(serve.coordinator_of(settings, migrate), settings)


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
    least_batch: Annotated[
        int, typer.Option(envvar="VOXPOP_LEAST_BATCH", help="The least number of people whose total is forwarded.")
    ] = 2,
    log_level: Level = None,
    migrate: Migrate = False,
) -> None:
    """Run a shuffler, which someone other than the coordinator's operator should do.

    It reads the key that it shares with the coordinator from VOXPOP_SHUFFLER_KEY_FILE.
    """
    settings = _settings(locals(), 8001, "voxpop-shuffler.db")
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
    "log_level",
    "open_dashboard",
)


def migrate(
    database: Annotated[str, typer.Option(help="A path (SQLite) or postgresql://user@host/name.")] = "voxpop.db",
    of_shuffler: Annotated[bool, typer.Option("--shuffler", help="It is a shuffler's database.")] = False,
) -> None:
    """Bring a service's database up to date; safe to repeat, and safe to run twice at once."""
    need_service()
    from voxpop.stores.database import open_database
    from voxpop.stores.migrate import migrate as upgrade

    opened = open_database(database)
    before, after = upgrade(opened, "shuffler" if of_shuffler else "coordinator")
    opened.close()
    console.print(f"{opened.name}: {before or 'empty'} -> {after}", highlight=False, soft_wrap=True)


def restored(
    database: Database = None,
    accept: Annotated[bool, typer.Option(help="Go on with it, although people may be asked twice.")] = False,
) -> None:
    """Show which released phases a coordinator's database lost, because it was restored from an older backup."""
    settings = _settings(locals(), 8000, "voxpop.db")
    from voxpop.service import serve

    found = serve.lost_releases(settings, accept)
    for lost in found.values():
        console.print(f"{'accepted' if accept else 'lost'}: {lost}", highlight=False, soft_wrap=True)
    if not found:
        console.print("the database knows every phase that was released", highlight=False, soft_wrap=True)


keys = typer.Typer(no_args_is_help=True, help="Make keys.")
study = typer.Typer(no_args_is_help=True, help="Create and watch the studies of a running coordinator.")


NewFile = Annotated[
    Path | None, typer.Option("--file", help="Write it to a new file that only you can read, instead of printing it.")
]


@keys.command("random")
def random_key(file: NewFile = None) -> None:
    """Make a new random key, for a secret file or a shuffler key file."""
    from voxpop.service.keys import new_key, write_key

    if file is None:
        typer.echo(new_key())
    else:
        write_key(file, new_key())


@keys.command("operator")
def operator_key(
    name: Annotated[str, typer.Argument(help="Whose key it is; a new one replaces the old.")],
    database: Annotated[str, typer.Option(help="The coordinator's database.")] = "voxpop.db",
    file: NewFile = None,
) -> None:
    """Make an operator's key and show it, once; only its hash is kept."""
    need_service()
    from voxpop.service.keys import new_key, write_key
    from voxpop.service.study.coordinator import Coordinator
    from voxpop.stores.migrate import open_store

    if not 1 <= len(name) <= 64:
        raise InputError(f"the name of an operator has 1 to 64 characters, got {len(name)}")
    key = new_key()
    with closing(open_store(database, "coordinator")) as store:
        if file is None:
            Coordinator(store, b"").add_operator(name, key)
            typer.echo(key)
            return
        write_key(file, key)
        try:
            Coordinator(store, b"").add_operator(name, key)
        except BaseException:
            file.unlink()
            raise


@study.command("create")
def create(
    file: Annotated[Path, typer.Argument(help="The study file (TOML).")],
    url: Url = LOCAL,
    key_file: KeyFile = None,
    enrolment_code: Annotated[
        str | None, typer.Option(envvar="VOXPOP_ENROLMENT_CODE", help="Only people with it can register.")
    ] = None,
) -> None:
    """Create a study on a coordinator from a study file; repeating it changes nothing."""
    need_service()
    from voxpop.service.study.definition import read_definition

    name, definition = read_definition(file)
    body = {"definition": definition.as_dict(), "enrolment_code": enrolment_code}
    request(url, key_file, "PUT", f"/v1/studies/{name}", body)
    given = {"--url": None if url == LOCAL else url, "--key-file": None if key_file is None else str(key_file)}
    options = [part for flag, value in given.items() if value is not None for part in (flag, value)]
    watch = shlex.join(["voxpop", "status", name, *options])
    console.print(f"study: {name}; watch it with: {watch}", highlight=False, markup=False, soft_wrap=True)


@study.command("status")
def status(
    name: Annotated[str, typer.Argument(help="The study.")],
    url: Url = LOCAL,
    key_file: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    follow: Annotated[bool, typer.Option(help="Print again whenever something changed, until the end.")] = False,
) -> None:
    """Show how far a study is."""
    need_service()
    last = ""
    while True:
        found = request(url, key_file, "GET", f"/v1/studies/{name}")
        line = json.dumps(found) if as_json else progress_lines(found)
        if line != last:
            typer.echo(line)
        last = line
        if not follow or found["stage"] == "finished":
            return
        time.sleep(1)


@study.command("played")
def played(
    name: Annotated[str, typer.Argument(help="The study.")],
    rounds: Annotated[int, typer.Argument(help="Rounds that were played.")],
    phase: Annotated[int | None, typer.Option(help="The phase; the current one if not given.")] = None,
    url: Url = LOCAL,
    key_file: KeyFile = None,
) -> None:
    """Report rounds by hand, where no application does."""
    need_service()
    from voxpop.service.keys import new_key

    if phase is None:
        phase = request(url, key_file, "GET", f"/v1/studies/{name}/decision")["phase"]
    body = {"phase": phase, "rounds": rounds}
    found = request(url, key_file, "PUT", f"/v1/studies/{name}/rounds/{new_key()}", body)
    typer.echo(f"{found['counted']} rounds counted, {found['played']} played in phase {phase}")

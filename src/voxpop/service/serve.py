"""Starting the services: from settings to a listening server.

Settings come from flags or the environment (VOXPOP_...); secrets from the environment or files.
"""

from __future__ import annotations

import gc
import os
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

import msgspec
import sqlalchemy as sa
import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from voxpop.errors import InputError
from voxpop.io.files import read_text
from voxpop.model.options import check, option
from voxpop.service import logs
from voxpop.service.console.sign_in import Provider
from voxpop.service.keys import Keyring, KeyringFile, check_of, exposed, make_secret, read_keyring
from voxpop.service.outbox.receivers import Outside, require_networks
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.shuffler.signed_http import HttpShuffler, require_private_url, require_url
from voxpop.service.stores.database import Database, file_of, insert_into
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import marks, studies
from voxpop.service.study import life, participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.released import ReleaseRecord
from voxpop.service.study.stages import Lost
from voxpop.service.web.connections import Connections, affordable_connections, server_config
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.guard import require_origins
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.shuffler_app import ShufflerApp


@dataclass
class Settings:
    """The settings of both services; `settings_of` takes those without a flag from the environment."""

    database: str = ""
    host: str = "127.0.0.1"
    port: int | None = option(None, least=0, most=65535)  # 8000 for a coordinator, 8001 for a shuffler
    secret: str | None = field(default=None, repr=False)
    secret_file: Path | None = None
    released: Path | None = None  # the folder in which releases are recorded; beside the secret unless given
    shuffler_key: str | None = field(default=None, repr=False)
    shuffler_key_file: Path | None = None
    shuffler_url: str | None = None
    shuffler_public_url: str | None = None
    coordinator_url: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    hsts: int = option(86_400, least=0)  # seconds for which browsers shall insist on https, if it is served; 0: none
    rate: float = option(200.0, least=0)  # requests per second from one address
    burst: float = option(1000.0, least=1)
    registrations: float = option(1000.0, least=0)  # new people an hour from one address; 0, or a rate of 0: no limit
    connections: int = option(200, least=0)  # from one address; 0 for no limit
    max_body: int = option(2**20, least=1024)
    allow_origin: str = ""  # origins of web pages that are devices, separated by spaces or commas
    log_level: str = "info"
    open_dashboard: bool = False
    workers: int = option(1, least=1, most=64)  # processes that serve together; more than one needs PostgreSQL
    webhook_allow: str = ""  # networks inside which there may be receivers, separated by spaces or commas
    smtp_url: str | None = field(default=None, repr=False)  # smtp:// or smtps://, with user and password if need be
    smtp_from: str = "voxpop@localhost"
    public_url: str | None = None  # of the coordinator, as browsers reach it
    oidc_issuer: str | None = None  # of the identity provider with which people sign in
    oidc_client_id: str | None = None
    oidc_client_secret: str | None = field(default=None, repr=False)
    oidc_client_secret_file: Path | None = None
    trusted_proxies: str = ""  # addresses whose X-Forwarded-For header is trusted

    def __post_init__(self) -> None:
        check(self)

    def own_secret(self) -> Keyring:
        """Return the secrets from which tokens are made; an embedded database has its own file for them."""
        given = _keys("secret", self.secret, self.secret_file)
        if given is None and (file := file_of(self.database)) is not None:
            path = file.with_name(file.name + ".secret")
            make_secret(path)
            given = _keys("secret", None, path)
        if given is None:
            raise InputError(
                "coordinators on one PostgreSQL share a secret; set VOXPOP_SECRET_FILE to a file with one, "
                "made with: voxpop keys random"
            )
        return given

    def own_record(self) -> ReleaseRecord | None:
        """Return the record of releases, beside the secret or an embedded database; None if it has no place."""
        beside = self.secret_file if self.secret is None else None
        beside = beside or file_of(self.database)
        if self.released is None and beside is None:
            return None
        return ReleaseRecord(self.released or beside.with_name(beside.name + ".released"))  # type: ignore[union-attr]

    def own_shuffler_key(self) -> Keyring | None:
        """Return the keys that coordinator and shuffler share, or None if there are none."""
        return _keys("shuffler key", self.shuffler_key, self.shuffler_key_file)

    def outside(self) -> Outside:
        """Return what may be reached, and how mail is sent."""
        if self.smtp_url is not None:
            parts = urlsplit(self.smtp_url)
            if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
                raise InputError(
                    "smtp_url must be an address such as smtp://user:password@host:587; correct VOXPOP_SMTP_URL"
                )
        url = None if self.public_url is None else require_url("public_url", self.public_url)
        return Outside(require_networks("webhook_allow", self.webhook_allow), self.smtp_url, self.smtp_from, url)

    def provider(self) -> Provider | None:
        """Return the identity provider, if there is one."""
        if self.oidc_issuer is None:
            return None
        if self.oidc_client_id is None or self.public_url is None:
            raise InputError("an identity provider needs VOXPOP_OIDC_CLIENT_ID and --public-url; give both")
        if find_spec("joserfc") is None:
            raise InputError("an identity provider needs joserfc; install it with: pip install 'voxpop[oidc]'")
        secret = self.oidc_client_secret
        if self.oidc_client_secret_file is not None:
            secret = read_text(self.oidc_client_secret_file).strip()
        issuer = require_private_url("oidc_issuer", self.oidc_issuer)
        return Provider(issuer, self.oidc_client_id, secret, require_url("public_url", self.public_url))


def settings_of(**flags: Any) -> Settings:
    """Make the settings from these flags; flags that are None are left to the environment."""
    given = {}
    for name, kind in get_type_hints(Settings).items():
        value = flags.pop(name, None)
        if value is None:
            value = os.environ.get(f"VOXPOP_{name.upper()}")
        if value is not None:
            try:
                given[name] = msgspec.convert(value, kind, strict=False, dec_hook=lambda _, text: Path(text))
            except msgspec.ValidationError as error:
                said = f"{name} cannot be used: {error}; correct the flag or VOXPOP_{name.upper()}"
                raise InputError(said) from None
    assert not flags, "every flag is a setting"
    return Settings(**given)


def _keys(name: str, value: str | None, path: Path | None) -> Keyring | None:
    if value is not None:
        return read_keyring(f"the {name}", value)
    if path is None:
        return None
    keys = KeyringFile(name, path)
    if (warning := exposed(path)) is not None:
        logs.warn("key_file", key=name, warning=warning)
    return keys


def coordinator_of(settings: Settings, migrate: bool = False) -> CoordinatorApp:
    """Open the coordinator that the settings describe."""
    shuffler, key = None, settings.own_shuffler_key()
    outside, provider = settings.outside(), settings.provider()
    origins = require_origins("allow_origin", settings.allow_origin)
    if settings.shuffler_url is not None:
        if key is None:
            raise InputError("a coordinator shares a key with its shuffler; set VOXPOP_SHUFFLER_KEY_FILE")
        url = require_private_url("shuffler_url", settings.shuffler_url)
        public = require_url("shuffler_public_url", settings.shuffler_public_url or url)
        shuffler = HttpShuffler(url, key, public)
    database, record = open_store(settings.database, "coordinator", migrate), settings.own_record()
    try:
        secret = settings.own_secret()
        _require_same_secret(database, secret)
        require_newest(database, record)
    except InputError:
        database.close()
        raise
    coordinator = Coordinator(database, secret, shuffler, released=record)
    app = CoordinatorApp(
        coordinator,
        key,
        settings.open_dashboard,
        settings.workers,
        origins,
        settings.registrations * (settings.rate > 0),
        outside,
        provider,
    )
    log = logs.event_logger("coordinator")

    def note(kind: str, **values: object) -> None:
        log(kind, **values)
        app.telemetry.events.labels(kind).inc()

    coordinator.context.note = note
    life.delete_again(coordinator.context)
    participants.forget_again(coordinator.context)
    return app


def _require_same_secret(database: Database, secrets: Keyring) -> None:
    """Refuse a changed secret: the tokens of open invitations would change, and all reports would be refused.

    The one in use may be new if the one that was in use before is still accepted.
    """
    mark = check_of(secrets.in_use)
    with database.write() as connection:
        connection.execute(insert_into(connection, marks).values(name="secret", mark=mark).on_conflict_do_nothing())
        known = connection.execute(sa.select(marks.c.mark).where(marks.c.name == "secret").with_for_update())
        if not secrets.holds(known.scalar_one()):
            raise InputError(
                f"the secret is not the one used with the database {database.name} before; give that one "
                "(VOXPOP_SECRET_FILE, or the .secret file beside an SQLite database)"
            )
        connection.execute(sa.update(marks).where(marks.c.name == "secret").values(mark=mark))


def require_newest(database: Database, record: ReleaseRecord | None) -> None:
    """Refuse a database that is older than what was released from it."""
    if record is None:
        logs.warn("no_record", remedy="set VOXPOP_RELEASED to a folder, so that a restored database is recognised")
        return
    record.prepare()
    with database.read() as connection:
        if lost := record.all_lost(connection):
            raise InputError(
                f"the database {database.name} is older than what was released from it, and lacks "
                f"{' and '.join(map(str, lost.values()))}; restore the newest one, or go on with: "
                "voxpop restored --accept"
            )
        for study in connection.execute(sa.select(studies.c.id)).scalars().all():
            record.catch_up(connection, study)


def lost_releases(settings: Settings, accept: bool = False) -> dict[str, Lost]:
    """Return by study what a restored database lost; with `accept`, forget that it was released, and log that."""
    record = settings.own_record()
    if record is None or not record.folder.is_dir():
        return {}
    with closing(open_store(settings.database, "coordinator")) as database, database.read() as connection:
        lost = record.all_lost(connection)
    for study, waves in lost.items() if accept else ():
        logs.warn("restored_accepted", study=study, lost=str(waves))
        record.forget(study)
    return lost


def shuffler_of(settings: Settings, migrate: bool = False) -> ShufflerApp:
    """Open the shuffler that the settings describe."""
    key = settings.own_shuffler_key()
    if key is None:
        raise InputError("a shuffler needs the key that it shares with its coordinator; set VOXPOP_SHUFFLER_KEY_FILE")
    if settings.coordinator_url is None:
        raise InputError("a shuffler needs the address of its coordinator; give --coordinator-url")
    url = require_private_url("coordinator_url", settings.coordinator_url)
    origins = require_origins("allow_origin", settings.allow_origin)
    database = open_store(settings.database, "shuffler", migrate)
    return ShufflerApp(Shuffler(database, logs.event_logger("shuffler")), url, key, origins)


def run(app: CoordinatorApp | ShufflerApp, settings: Settings, ready: Callable[[], None] | None = None) -> None:
    """Serve requests until stopped; one of several workers says when it is ready, and shares its port with them."""
    name, service = ("coordinator", app.coordinator) if isinstance(app, CoordinatorApp) else ("shuffler", app.shuffler)
    assert settings.port is not None, "each service has its own"
    with closing(service.database):
        tls = _tls(settings.tls_cert, settings.tls_key)
        listener = listen(settings.host, settings.port, shared=ready is not None)
        guarded = app.guarded(RateLimit(settings.rate, settings.burst), settings.max_body)
        limits = _limits(guarded, settings)
        limits.note_refusal = app.telemetry.refused.inc
        config = server_config(
            guarded,
            limits,
            tls,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=settings.trusted_proxies or None,
            timeout_graceful_shutdown=10,
            headers=[("strict-transport-security", f"max-age={settings.hsts}")] if tls and settings.hsts else [],
        )
        sys.setswitchinterval(0.0002)  # so that a thread that plans a wave does not delay answers
        gc.freeze()  # a search for garbage in all that is loaded by now would delay answers for 100 ms
        if ready is not None:
            ready()
        else:
            host, port = listener.getsockname()[:2]
            url = f"{'http' if tls is None else 'https'}://{host}:{port}"
            logs.event_logger(name)("listening", url=url)
            if sys.stderr.isatty() and name == "coordinator":
                sys.stderr.write(f"open {url} and sign in with a key: voxpop keys operator NAME --file my.key\n")
        uvicorn.Server(config).run(sockets=[listener])


def _limits(app: Any, settings: Settings) -> Connections:
    proxies = ProxyHeadersMiddleware(app, settings.trusted_proxies).trusted_hosts  # as uvicorn itself reads them
    return Connections(settings.connections, lambda address: address in proxies, affordable_connections())


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Read a certificate and its key; None if there are none."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InputError("TLS needs both a certificate and a key; give --tls-cert and --tls-key")
    for file in (certificate, key):
        if not file.is_file():
            raise InputError(f"there is no file {str(file)!r}; check --tls-cert and --tls-key")

    def no_password() -> str:
        raise InputError(f"the key {str(key)!r} has a password; give a --tls-key without one")

    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key, no_password)
    except OSError as error:  # includes SSLError
        reason = getattr(error, "reason", None) or error.strerror or "they are not PEM files"
        raise InputError(
            f"{str(certificate)!r} and {str(key)!r} are not a certificate and its key: {reason}; check them"
        ) from None
    if (warning := exposed(key)) is not None:
        logs.warn("key_file", key="TLS key", warning=warning)
    return context


def listen(host: str, port: int, shared: bool = False) -> socket.socket:
    """Listen on a port, alone or with other processes that share it."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048, reuse_port=shared)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot listen on {host}:{port}: {reason}; choose another --host or --port") from None

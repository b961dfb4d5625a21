"""Settings of the services, from flags or the environment (VOXPOP_...); secrets from the environment or files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from voxpop.errors import InputError
from voxpop.model.options import check, option
from voxpop.service import logs
from voxpop.service.keys import Keyring, exposed, keyring_of_file, make_secret, read_keyring
from voxpop.service.stores.database import file_of
from voxpop.service.study.released import ReleaseRecord


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
    connections: int = option(200, least=0)  # from one address; 0 for no limit
    max_body: int = option(2**20, least=1024)
    allow_origin: str = ""  # origins of web pages that are devices, separated by spaces or commas
    log_level: str = "info"
    open_dashboard: bool = False
    workers: int = option(1, least=1, most=64)  # processes that serve together; more than one needs PostgreSQL
    trusted_proxies: str = ""  # addresses whose X-Forwarded-For header is trusted

    def __post_init__(self) -> None:
        check(self)

    def own_secret(self) -> Keyring:
        """Return the secrets from which tokens are made; an embedded database has its own file for them."""
        given = _keys("secret", self.secret, self.secret_file)
        if given is not None:
            return given
        file = file_of(self.database)
        if file is None:
            raise InputError(
                "coordinators on one PostgreSQL share a secret; set VOXPOP_SECRET_FILE to a file with one, "
                "made with: voxpop keys random"
            )
        path = file.with_name(file.name + ".secret")
        make_secret(path)
        return _read_keys("secret", path)

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
    return None if path is None else _read_keys(name, path)


def _read_keys(name: str, path: Path) -> Keyring:
    keys = keyring_of_file(name, path)
    if (warning := exposed(path)) is not None:
        logs.warn("key_file", key=name, warning=warning)
    return keys

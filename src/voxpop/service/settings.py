"""Settings of the services, from flags or the environment (VOXPOP_...); secrets from the environment or files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from voxpop.errors import InputError
from voxpop.service import logs
from voxpop.service.keys import Keyring, exposed, keyring_of_file, own_secret, read_keyring
from voxpop.service.stores.database import file_of
from voxpop.service.study.released import ReleaseRecord


class Settings(BaseSettings):
    """The settings of both services; the environment provides those without a flag."""

    model_config = SettingsConfigDict(env_prefix="VOXPOP_", extra="ignore")

    database: str = ""
    host: str = "127.0.0.1"
    port: int | None = None  # 8000 for a coordinator, 8001 for a shuffler
    secret: SecretStr | None = None
    secret_file: Path | None = None
    released: Path | None = None  # the folder in which releases are recorded; beside the secret unless given
    shuffler_key: SecretStr | None = None
    shuffler_key_file: Path | None = None
    shuffler_url: str | None = None
    shuffler_public_url: str | None = None
    coordinator_url: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    hsts: int = 86_400  # seconds for which browsers shall insist on https, where this service serves it; 0: not at all
    rate: float = 200.0  # requests per second from one address
    burst: float = 1000.0
    connections: int = 200  # from one address; 0 for no limit
    max_body: int = 2**20
    allow_origin: str = ""  # origins of web pages that are devices, separated by spaces or commas
    log_level: str = "info"
    open_dashboard: bool = False
    workers: int = 1  # processes that serve together; more than one needs PostgreSQL
    trusted_proxies: str = ""  # addresses whose X-Forwarded-For header is trusted

    def own_secret(self) -> Keyring:
        """Return the secrets from which tokens are made; an embedded database has its own file for them."""
        given = _keys("secret", self.secret, self.secret_file)
        file = file_of(self.database)
        if given is None and file is None:
            raise InputError(
                "coordinators on one PostgreSQL share a secret; set VOXPOP_SECRET_FILE to a file with one, "
                "made with: voxpop keys random"
            )
        if given is None:
            assert file is not None
            path = file.with_name(file.name + ".secret")
            own_secret(path)
            given = _read_keys("secret", path)
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


def settings_of(**flags: Any) -> Settings:
    """Make the settings from these flags; flags that are None are left to the environment."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = str(first["loc"][0])
        raise InputError(f"{name} cannot be used: {first['msg']}; correct the flag or VOXPOP_{name.upper()}") from None


def _keys(name: str, value: SecretStr | None, path: Path | None) -> Keyring | None:
    if value is not None:
        return read_keyring(f"the {name}", value.get_secret_value())
    return None if path is None else _read_keys(name, path)


def _read_keys(name: str, path: Path) -> Keyring:
    keys = keyring_of_file(name, path)
    if (warning := exposed(path)) is not None:
        logs.warn("key_file", key=name, warning=warning)
    return keys

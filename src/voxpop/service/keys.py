"""Keys and tokens: random, stored only as hashes, compared in constant time.

A participation token is the keyed hash of a random nonce under the coordinator's secret, which is not in the database.
So a repeated check-in gets the same token if the first reply was lost, and a stolen database contains no tokens. The
nonce is erased when the wave closes; after that, not even the secret can recover the token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxpop.errors import InputError
from voxpop.io.files import read_text

LEAST = 32  # characters of a key: a shorter one could be guessed from its hash
MOST = 128
SIGNATURE = re.compile("v1=[0-9a-f]{64}")


def new_key() -> str:
    """Draw a new key of 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_key(key: str) -> bytes:
    """Hash a key for storage; a fast hash is enough, because a random key cannot be guessed."""
    return hashlib.sha256(key.encode()).digest()


def same(left: bytes, right: bytes) -> bool:
    """Compare two hashes or signatures in constant time."""
    return hmac.compare_digest(left, right)


def token_of(secret: bytes, nonce: bytes) -> str:
    """Compute the token of an invitation from its nonce."""
    return base64.urlsafe_b64encode(hmac.digest(secret, b"token" + nonce, "sha256")).decode().rstrip("=")


def digest_of(token: str, body: bytes) -> bytes:
    """Compute a digest that recognises the same report; without the token nobody can test a guess against it."""
    return hmac.digest(token.encode(), body, "sha256")


def sign(key: bytes, method: str, path: str, body: bytes) -> str:
    """Sign a message between coordinator and shuffler.

    The signature includes no time: repeating such a message does no harm, and clocks may be wrong.
    """
    message = b"\n".join((b"voxpop-v1", method.encode(), path.encode(), body))
    return "v1=" + hmac.digest(key, message, "sha256").hex()


def require_key(name: str, value: str, remedy: str = "make one with: voxpop keys random") -> str:
    """Return the key without surrounding space; refuse one that is too short to be random or too long for a header."""
    value = value.strip()
    if not LEAST <= len(value) <= MOST or not value.isascii() or not value.isprintable() or " " in value:
        raise InputError(f"{name} must have {LEAST} to {MOST} printable characters; {remedy}")
    return value


def exposed(path: Path) -> str | None:
    """Return a warning, with the remedy, if other accounts of the machine may read a key file; otherwise None."""
    try:
        rights = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    if rights & 0o077 == 0:
        return None
    return f"other accounts of this machine may read {path} (mode {rights:03o}); run: chmod 600 {path}"


def write_key(path: Path, key: str) -> None:
    """Write a key to a new file that only its owner can read."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"the file {str(path)!r} exists; name another one, so that no key is lost") from None
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}; check the path") from None
    with os.fdopen(handle, "w") as file:
        file.write(key + "\n")
        file.flush()
        os.fsync(file.fileno())


def make_secret(path: Path) -> None:
    """Create the secret file of an embedded database on first use, for its owner only."""
    if not path.exists() or path.stat().st_size == 0:  # a process that was killed may leave an empty file
        made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        write_key(made, new_key())
        try:
            if path.exists() and path.stat().st_size == 0:
                path.unlink()
            with suppress(FileExistsError):  # another process was first: use its secret
                os.link(made, path)
        finally:
            made.unlink()


def check_of(secret: bytes) -> bytes:
    """Compute a mark that recognises the same secret and reveals nothing about it."""
    return hmac.digest(secret, b"voxpop: the secret of this database", "sha256")


@dataclass(frozen=True)
class Keyring:
    """Keys of which the first is in use; there is at least one."""

    all: tuple[bytes, ...]

    @classmethod
    def of(cls, keys: Keyring | bytes) -> Keyring:
        """Make a keyring of a single key; a keyring is returned as it is."""
        return keys if isinstance(keys, Keyring) else cls((keys,))

    @property
    def in_use(self) -> bytes:
        """The key that makes tokens and signs messages."""
        return self.all[0]

    def token_of(self, nonce: bytes, hashed: bytes) -> str | None:
        """Compute the token of an invitation with the key that made it; None if that key is not here any more."""
        made = (token_of(key, nonce) for key in self.all)
        return next((token for token in made if same(hash_key(token), hashed)), None)

    def sign(self, method: str, path: str, body: bytes) -> str:
        """Sign a message with the key in use."""
        return sign(self.in_use, method, path, body)

    def signed(self, method: str, path: str, body: bytes, signature: str) -> bool:
        """Return True if the signature of the message was made with any of the keys."""
        given = signature.encode()
        return any(same(sign(key, method, path, body).encode(), given) for key in self.all)

    def holds(self, mark: bytes) -> bool:
        """Return True if this is the mark of any of the keys; see `check_of`."""
        return any(same(check_of(key), mark) for key in self.all)


class KeyringFile(Keyring):
    """The keys of a file, read again once it has changed; a file that cannot be read changes nothing."""

    def __init__(self, name: str, path: Path) -> None:
        vars(self).update(name=name, path=path, seen=_look_of(path), keys=keyring_of_file(name, path).all)

    @property
    def all(self) -> tuple[bytes, ...]:
        """The keys that the file holds now."""
        known: dict[str, Any] = vars(self)
        if (seen := _look_of(known["path"])) not in (None, known["seen"]):
            with suppress(InputError):
                known.update(seen=seen, keys=keyring_of_file(known["name"], known["path"]).all)
        return tuple(known["keys"])


def _look_of(path: Path) -> tuple[int, int, int] | None:
    """Return by what a changed file is recognised; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_keyring(name: str, text: str) -> Keyring:
    """Read the keys of a file or of a variable, one a line; lines that begin with "# " are comments."""
    lines = [line.strip() for line in text.splitlines() or [""]]
    keys = [line for line in lines if line and not line.startswith("# ")] or [""]
    if len(set(keys)) < len(keys):
        raise InputError(f"{name} holds a key twice; remove one of the lines")
    return Keyring(tuple(require_key(name, key).encode() for key in keys))


def keyring_of_file(name: str, path: Path) -> Keyring:
    """Read the keys of a file."""
    return read_keyring(f"the {name} in {path}", read_text(path))

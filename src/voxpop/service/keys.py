"""Keys and tokens: random, kept only as hashes, compared in constant time.

A participation token is the keyed hash of a random nonce under the coordinator's secret, which is not in the
database. So a check-in whose reply was lost gets the same token again, and a stolen database holds no token. The nonce
is erased when the phase closes: from then on the secret does not help either.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from voxpop.core.errors import InputError
from voxpop.formats.files import read_text

LEAST = 32  # characters of a key: with fewer, a hash could be guessed back
MOST = 128
SIGNATURE = re.compile("v1=[0-9a-f]{64}")


def new_key() -> str:
    """A new key of 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_key(key: str) -> bytes:
    """What is stored of a key; a fast hash is enough, for a random key cannot be guessed."""
    return hashlib.sha256(key.encode()).digest()


def same(left: bytes, right: bytes) -> bool:
    """Whether two hashes are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(left, right)


def token_of(secret: bytes, nonce: bytes) -> str:
    """The token of an invitation."""
    return base64.urlsafe_b64encode(hmac.digest(secret, b"token" + nonce, "sha256")).decode().rstrip("=")


def digest_of(token: str, body: bytes) -> bytes:
    """A mark by which the same report is known again; without the token nobody can test a guess against it."""
    return hmac.digest(token.encode(), body, "sha256")


def sign(key: bytes, method: str, path: str, body: bytes) -> str:
    """The signature of a message between coordinator and shuffler.

    It has no time in it: every such message can be repeated without harm, and clocks may be wrong.
    """
    message = b"\n".join((b"voxpop-v1", method.encode(), path.encode(), body))
    return "v1=" + hmac.digest(key, message, "sha256").hex()


def signed(key: bytes, method: str, path: str, body: bytes, signature: str) -> bool:
    """Whether the signature is that of the message."""
    return hmac.compare_digest(sign(key, method, path, body).encode(), signature.encode())


def require_key(name: str, value: str) -> str:
    """A key long enough to be random and short enough to be a header."""
    value = value.strip()
    if not LEAST <= len(value) <= MOST or not value.isascii() or not value.isprintable() or " " in value:
        raise InputError(f"{name} must have {LEAST} to {MOST} printable characters; make one with: voxpop keys random")
    return value


def key_of_file(name: str, path: Path) -> str:
    """The key in a file."""
    return require_key(f"the {name} in {path}", read_text(path))


def own_secret(path: Path) -> str:
    """The secret beside an embedded database, made on first use and readable by its owner only."""
    if not path.exists() or path.stat().st_size == 0:  # an empty one was left by a process that was killed
        made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(new_key())
                file.flush()
                os.fsync(file.fileno())
            if path.exists() and path.stat().st_size == 0:
                path.unlink()
            with suppress(FileExistsError):  # whoever is second takes the first one's
                os.link(made, path)
        finally:
            made.unlink()
    return key_of_file("secret", path)


def check_of(secret: bytes) -> bytes:
    """A mark by which the same secret is known again, and which tells nothing about it."""
    return hmac.digest(secret, b"voxpop: the secret of this database", "sha256")

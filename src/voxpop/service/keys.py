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
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.io.files import locked, read_text, write_durably
from voxpop.service import audit
from voxpop.service.audit import COMMAND_LINE, Action
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import invitations, marks, receipts, studies
from voxpop.service.study.stages import Stage

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


# Rotation: replacing a secret, or the key that coordinator and shuffler share, in steps that lose nothing.
#
# A new key waits at the end of its file, below a comment, until everybody who must accept it does. Then it is promoted
# to the first line, where it is in use. The older ones are retired when nothing needs them any more.


WAITING = "# the next key is only accepted; it waits to be promoted"


@dataclass(frozen=True)
class KeyFile:
    """What a file of keys holds: those that are accepted, the first in use, and a new one that waits."""

    keys: tuple[str, ...]
    waiting: str | None = None

    @property
    def ring(self) -> Keyring:
        """All keys, as a service that is started now uses them."""
        every = self.keys if self.waiting is None else (*self.keys, self.waiting)
        return Keyring(tuple(key.encode() for key in every))

    @property
    def text(self) -> str:
        """The content of the file."""
        return "\n".join([*self.keys, *(() if self.waiting is None else (WAITING, self.waiting)), ""])

    def add(self) -> KeyFile:
        """Add a new key that is only accepted."""
        if self.waiting is not None:
            raise InputError("a new key waits already; when every service was started with it, use --promote")
        return KeyFile(self.keys, new_key())

    def promote(self) -> KeyFile:
        """Put the key that waits in use; those before it are still accepted."""
        if self.waiting is None:
            raise InputError("no key waits to be promoted; make one with --add, and start every service with it first")
        return KeyFile((self.waiting, *self.keys))

    def retire(self) -> KeyFile:
        """Drop all keys but the one in use."""
        if self.waiting is not None:
            raise InputError("a new key waits to be promoted; use --promote before the older ones are retired")
        return KeyFile(self.keys[:1])


def read_key_file(path: Path) -> KeyFile:
    """Read a file of keys, with the one that waits."""
    text = read_text(path)
    keys = [key.decode() for key in read_keyring(f"the key in {path}", text).all]
    waits = WAITING in text.splitlines() and len(keys) > 1
    return KeyFile(tuple(keys[:-1]), keys[-1]) if waits else KeyFile(tuple(keys))


def write_key_file(path: Path, before: KeyFile, after: KeyFile) -> None:
    """Replace a file of keys in one step, readable by its owner only; refuse if it changed since it was read."""
    with locked(path):
        if read_key_file(path) != before:
            raise InputError(f"{str(path)!r} was changed by another program; look at it, and try again")
        write_durably(path, after.text, private=True)


def require_unneeded(database: Database, before: KeyFile, after: KeyFile) -> None:
    """Refuse to drop a secret that coordinators still use, or that made an invitation which is still open.

    A file with other keys than the secrets of this database, such as the shuffler's, is not its business.
    """
    with database.read() as connection:
        mark = connection.execute(sa.select(marks.c.mark).where(marks.c.name == "secret")).scalar_one_or_none()
        if mark is None or not before.ring.holds(mark):
            return
        needing = _needing_others(connection, after.ring)
    if not same(check_of(after.ring.in_use), mark):
        raise InputError(
            "the coordinator does not use the new secret yet, and would be refused without the old one; start every "
            "coordinator that does not read it from a file again, then retire it"
        )
    if needing:
        names = ", ".join(map(repr, sorted(needing)))
        raise InputError(
            f"{needing.total()} open invitations of {names} were made with an older secret; wait until their waves "
            "are closed"
        )


def _needing_others(connection: sa.Connection, ring: Keyring) -> Counter[str]:
    """Count by study the invitations that can still be answered and whose tokens were made with none of these keys."""
    wanted = (
        sa.select(invitations.c.study, invitations.c.nonce, invitations.c.token_hash)
        .join(studies, (studies.c.id == invitations.c.study) & (studies.c.wave == invitations.c.wave))
        .where(studies.c.stage.not_in((Stage.CLOSED, Stage.FINISHED)), ~invitations.c.expired)
        .where(~sa.exists().where(receipts.c.invitation == invitations.c.id))
    )
    rows = connection.execute(wanted)
    return Counter(row.study for row in rows if ring.token_of(row.nonce, row.token_hash) is None)


def note_rotation(database: Database, at: float, path: Path, step: str) -> None:
    """Write into the audit trail what was done to a file of keys; never a key."""
    with database.write() as connection:
        audit.note(connection, at, COMMAND_LINE, Action.SECRET_ROTATED, None, f"{path.name}: {step}")

"""A keyring: several keys of which one is in use and all are accepted, so that a key can be replaced without a gap.

The file of a secret, or of the key that coordinator and shuffler share, holds one key a line. The first is in use: it
makes tokens and signs messages. The others are only accepted, because what was made with them is still under way. A new
key waits at the end of the file, below a comment, until everybody who must accept it does; then it is promoted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voxpop.core.errors import InputError
from voxpop.formats.files import locked, read_text, write_durably
from voxpop.service.keys import check_of, hash_key, new_key, require_key, same, sign, signed, token_of

WAITING = "# the next key is only accepted; it waits to be promoted"


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
        return any(signed(key, method, path, body, signature) for key in self.all)

    def holds(self, mark: bytes) -> bool:
        """Return True if this is the mark of any of the keys; see `check_of`."""
        return any(same(check_of(key), mark) for key in self.all)


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


@dataclass(frozen=True)
class KeyFile:
    """What a file of keys holds: the keys that are accepted, the first in use, and a new one that waits."""

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
            raise InputError("a new key waits already; once every service was started with it, use --promote")
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
    return KeyFile(tuple(keys[:-1]), keys[-1]) if WAITING in text and len(keys) > 1 else KeyFile(tuple(keys))


def write_key_file(path: Path, before: KeyFile, after: KeyFile) -> None:
    """Replace a file of keys in one step, readable by its owner only; refuse if it changed since it was read."""
    with locked(path):
        if read_key_file(path) != before:
            raise InputError(f"{str(path)!r} was changed by another program; look at it, and try again")
        write_durably(path, after.text, private=True)

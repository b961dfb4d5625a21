"""A keyring: several keys of which one is in use and all are accepted, so that a key can be replaced without a gap.

The file of a secret, or of the key that coordinator and shuffler share, holds one key a line. The first is in use: it
makes tokens and signs messages. The others are only accepted, because what was made with them is still under way, or
because they are about to be used. `rotation.py` changes such files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voxpop.core.errors import InputError
from voxpop.formats.files import read_text
from voxpop.service.keys import check_of, hash_key, require_key, same, sign, signed, token_of


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

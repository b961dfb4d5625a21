"""Rotation: replacing a secret, or the key that coordinator and shuffler share, in steps that lose nothing.

A new key waits at the end of its file, below a comment, until everybody who must accept it does. Then it is promoted to
the first line, where it is in use. The older ones are retired when nothing needs them any more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.io.files import locked, read_text, write_durably
from voxpop.service import audit
from voxpop.service.audit import COMMAND_LINE, Action
from voxpop.service.keys import Keyring, check_of, new_key, read_keyring, same
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import invitations, marks, receipts, studies
from voxpop.service.study.stages import Stage

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

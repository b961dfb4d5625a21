"""Operators and viewers: their keys, which can be listed and revoked, and the sessions of their browsers.

A key is shown once and kept only as its hash. A browser gives the key once and gets a random cookie instead, of which,
too, only the hash is kept. A session ends when it is not used, when it is old, on signing out, and with its key.
"""

from __future__ import annotations

import hmac
import unicodedata
from dataclasses import dataclass, fields
from typing import Literal

import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.service import audit
from voxpop.service.audit import COMMAND_LINE, Action
from voxpop.service.keys import hash_key, new_key, same
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import NAME, operators, sessions
from voxpop.service.study import log

KeyRole = Literal["operator", "viewer"]

IDLE_SECONDS = 8 * 3600.0  # after which a session that is not used ends
LONGEST_SECONDS = 24 * 3600.0  # after which every session ends
SEEN_SECONDS = 60.0  # how exactly the last use of a session is known, so that reading a page writes nothing


@dataclass(frozen=True)
class Principal:
    """Who acts, and what they may see."""

    name: str
    role: KeyRole = "operator"
    study: str | None = None  # the only one that a viewer may see; None: all

    @property
    def operates(self) -> bool:
        """True if they may change anything."""
        return self.role == "operator"

    @property
    def sees_drafts(self) -> bool:
        """True if they may look at drafts, too: operators, and those with a key for the very study."""
        return self.operates or self.study is not None

    def sees(self, study: str) -> bool:
        """Return True if they may look at a study."""
        return self.study is None or self.study == study


@dataclass(frozen=True)
class Session:
    """A browser that is signed in."""

    cookie: str
    principal: Principal

    @property
    def csrf(self) -> str:
        """What forms of this session contain, and no other site can know."""
        return hmac.digest(self.cookie.encode(), b"voxpop: csrf", "sha256").hex()


@dataclass(frozen=True)
class KeyInfo:
    """A key as it is listed."""

    name: str
    role: KeyRole
    study: str | None
    created_at: float  # 0: not known
    revoked_at: float | None


@dataclass(frozen=True)
class SessionInfo:
    """A session as it is listed."""

    number: str  # the hash of its cookie, which opens nothing
    operator: str
    created_at: float
    seen_at: float


LISTED = [operators.c[part.name] for part in fields(KeyInfo)]


def add_key(
    database: Database,
    name: str,
    key: str,
    at: float,
    role: KeyRole = "operator",
    study: str | None = None,
    actor: str = COMMAND_LINE,
    replace: bool = True,
) -> None:
    """Give someone a key; it replaces the key under the same name, and ends its sessions.

    Without `replace`, a name that is in use is refused. What there is is looked at in the same transaction, so that of
    two who make a key under one name at once, the second is refused or replaces the first, and knows it.
    """
    name = require_holder(name)
    if (role == "viewer") != (study is not None):
        raise InputError("a viewer's key is for one study, and an operator's for all; name a study for viewers only")
    with database.write() as connection:
        if study is not None:
            if not NAME.fullmatch(study):
                raise no_study(study)
            log.row_of(connection, study)
        known = _locked(connection)
        if not replace and any(key.name == name for key in known):
            raise Refusal(409, f"there is a key under the name {name!r}; choose another name, or revoke that key first")
        if role != "operator":
            _require_another(known, name)
        connection.execute(sa.delete(sessions).where(sessions.c.operator == name))
        connection.execute(sa.delete(operators).where(operators.c.name == name))
        values = {"name": name, "key_hash": hash_key(key), "role": role, "study": study, "created_at": at}
        connection.execute(sa.insert(operators).values(**values))
        audit.note(connection, at, actor, Action.KEY_ADDED, study, f"{name} ({role})")


def require_holder(name: str) -> str:
    """Return a name in the one spelling under which a key is kept; refuse one under which none can be."""
    name = unicodedata.normalize("NFKC", name)
    if not 1 <= len(name) <= 64 or not name.isprintable() or name != name.strip():
        raise InputError(f"the name of a key has 1 to 64 printable characters, got {name!r:.80}; choose another")
    return name


def list_keys(database: Database) -> list[KeyInfo]:
    """List all keys by name, without the keys themselves."""
    with database.read() as connection:
        return [KeyInfo(*row) for row in connection.execute(sa.select(*LISTED).order_by(operators.c.name))]


def revoke_key(database: Database, name: str, at: float, actor: str = COMMAND_LINE, last: bool = False) -> bool:
    """Revoke the key under a name, and end its sessions; return False if it was revoked before.

    The last operator's key is revoked only if `last` says so: nobody could operate the service any more.
    """
    with database.write() as connection:
        known = _locked(connection)
        spelled = operators.c.name.in_((name, unicodedata.normalize("NFKC", name)))
        row = connection.execute(sa.select(operators).where(spelled)).first() if name.isprintable() else None
        if row is None:
            raise Refusal(404, f"there is no key under the name {name!r}; list them with: voxpop keys list")
        if row.revoked_at is not None:
            return False
        if not last:
            _require_another(known, row.name)
        _revoke(connection, row.name, row.study, at, actor)
    return True


def revoke_viewers(connection: sa.Connection, study: str, at: float, actor: str) -> None:
    """Revoke the keys of those who may see a study, and end their sessions, in the transaction that deletes it."""
    valid = (operators.c.study == study) & operators.c.revoked_at.is_(None)
    for name in connection.execute(sa.select(operators.c.name).where(valid).order_by(operators.c.name)).scalars().all():
        _revoke(connection, name, study, at, actor)


def _revoke(connection: sa.Connection, name: str, study: str | None, at: float, actor: str) -> None:
    connection.execute(sa.update(operators).where(operators.c.name == name).values(revoked_at=at))
    connection.execute(sa.delete(sessions).where(sessions.c.operator == name))
    audit.note(connection, at, actor, Action.KEY_REVOKED, study, name)


def _locked(connection: sa.Connection) -> list[KeyInfo]:
    """Return the keys that are valid; nobody else makes or revokes one before this transaction ends."""
    if connection.dialect.name == "postgresql":  # on SQLite, there is one writer
        connection.execute(sa.text("LOCK TABLE operators IN SHARE ROW EXCLUSIVE MODE"))
    valid = operators.c.revoked_at.is_(None)
    return [KeyInfo(*row) for row in connection.execute(sa.select(*LISTED).where(valid))]


def _require_another(known: list[KeyInfo], name: str) -> None:
    """Refuse to take away the last operator's key."""
    if [key.name for key in known if key.role == "operator"] == [name]:
        raise Refusal(
            409,
            f"the key of {name!r} is the last operator's; make another operator's key first, or revoke it on the "
            "server with: voxpop keys revoke --last",
        )


def principal_of(database: Database, key: str) -> Principal | None:
    """Return whose key this is; None if it is nobody's."""
    given = hash_key(key)
    with database.read() as connection:
        row = connection.execute(sa.select(operators).where(operators.c.key_hash == given)).first()
    if row is None or not same(row.key_hash, given):
        return None
    if row.revoked_at is not None:
        raise Refusal(401, "this key was revoked; ask another operator for a new one")
    return Principal(row.name, row.role, row.study)


def sign_in(database: Database, key: str, at: float) -> Session | None:
    """Begin a session for a browser that shows a key; return None if it is nobody's."""
    principal = principal_of(database, key)
    if principal is None:
        return None
    cookie = new_key()
    row = {"id_hash": hash_key(cookie), "operator": principal.name, "key_hash": hash_key(key)}
    with database.write() as connection:
        connection.execute(sa.delete(sessions).where(_over(at)))
        connection.execute(sa.insert(sessions).values(**row, created_at=at, seen_at=at))
        audit.note(connection, at, principal.name, Action.SIGNED_IN, principal.study)
    return Session(cookie, principal)


def session_of(database: Database, cookie: str, at: float, live: bool = False) -> Session | None:
    """Return the session of a cookie; None if there is none or it has ended.

    A page that updates itself (`live`) does not count as use: a browser left open must be signed out in the end.
    """
    given = hash_key(cookie)
    joined = sa.select(sessions.c.seen_at, operators).join(operators, operators.c.name == sessions.c.operator)
    valid = joined.where(
        sessions.c.id_hash == given,
        sessions.c.key_hash == operators.c.key_hash,
        operators.c.revoked_at.is_(None),
        ~_over(at),
    )
    with database.read() as connection:
        row = connection.execute(valid).first()
    if row is None:
        return None
    if not live and at - row.seen_at > SEEN_SECONDS:
        with database.write() as connection:
            connection.execute(sa.update(sessions).where(sessions.c.id_hash == given).values(seen_at=at))
    return Session(cookie, Principal(row.name, row.role, row.study))


def sign_out(database: Database, session: Session, at: float) -> None:
    """End a session."""
    with database.write() as connection:
        connection.execute(sa.delete(sessions).where(sessions.c.id_hash == hash_key(session.cookie)))
        audit.note(connection, at, session.principal.name, Action.SIGNED_OUT, session.principal.study)


def list_sessions(database: Database, at: float) -> list[SessionInfo]:
    """List the sessions that have not ended, the one last used first."""
    with database.read() as connection:
        rows = connection.execute(sa.select(sessions).where(~_over(at)).order_by(sessions.c.seen_at.desc()))
        return [SessionInfo(row.id_hash.hex(), row.operator, row.created_at, row.seen_at) for row in rows]


def end_session(database: Database, number: str, at: float, actor: str) -> bool:
    """End somebody's session; return False if it has ended already."""
    try:
        ours = sessions.c.id_hash == bytes.fromhex(number)
    except ValueError:
        raise InputError("the session's number is not valid; reload the list of sessions") from None
    with database.write() as connection:
        found = connection.execute(sa.select(sessions.c.operator).where(ours)).scalar_one_or_none()
        if found is None:
            return False
        connection.execute(sa.delete(sessions).where(ours))
        audit.note(connection, at, actor, Action.SIGNED_OUT, detail=f"the session of {found}")
    return True


def _over(at: float) -> sa.ColumnElement[bool]:
    return sa.or_(sessions.c.seen_at < at - IDLE_SECONDS, sessions.c.created_at < at - LONGEST_SECONDS)

"""Who may do what: operators, and members with roles by study; their keys, and the sessions of their browsers.

A key is shown once and kept only as its hash. A browser gives the key once and gets a random cookie instead, of which,
too, only the hash is kept. A session ends when it is not used, when it is old, on signing out, and with its key.
"""

from __future__ import annotations

import hmac
import re
import secrets
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.service import audit
from voxpop.service.audit import COMMAND_LINE, Action
from voxpop.service.keys import hash_key, new_key, same
from voxpop.service.refusals import Refusal, no_study
from voxpop.service.stores.database import Database
from voxpop.service.stores.schema import NAME, grants, operators, sessions
from voxpop.service.study import log

KeyRole = Literal["operator", "owner", "viewer", "application"]
StudyRole = Literal["owner", "viewer", "application"]
EMAIL = re.compile(r"[^\s@<>,;:\"]{1,64}@[^\s@<>,;:\"]{1,189}")

IDLE_SECONDS = 8 * 3600.0  # after which a session that is not used ends
LONGEST_SECONDS = 24 * 3600.0  # after which every session ends
SEEN_SECONDS = 60.0  # how exactly the last use of a session is known, so that reading a page writes nothing


@dataclass(frozen=True)
class Principal:
    """Who acts, and what they may do: an operator everything, a member what the roles by study say.

    The key of an application may report the rounds of a study and read its decision in force, and nothing else.
    """

    name: str
    role: str = "operator"  # or member, application, anyone
    studies: Mapping[str, str] = field(default_factory=dict)  # the roles by study

    @property
    def operates(self) -> bool:
        """True if they may change anything."""
        return self.role == "operator"

    @property
    def sees_drafts(self) -> bool:
        """True if they may look at the drafts among what they see: all but strangers on an open service."""
        return self.role != "anyone"

    def sees(self, study: str) -> bool:
        """Return True if they may look at a study."""
        return self.operates or self.role == "anyone" or self.studies.get(study) in ("owner", "viewer")

    def manages(self, study: str) -> bool:
        """Return True if they may change a study."""
        return self.operates or self.studies.get(study) == "owner"

    def plays(self, study: str) -> bool:
        """Return True if they may report the rounds of a study."""
        return self.manages(study) or self.studies.get(study) == "application"


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
    """A key, or an account without one, as it is listed."""

    name: str
    role: Literal["operator", "member", "application"]
    created_at: float  # 0: not known
    revoked_at: float | None
    email: str | None = None  # for which an identity provider vouches
    studies: dict[str, StudyRole] = field(default_factory=dict)


@dataclass(frozen=True)
class SessionInfo:
    """A session as it is listed."""

    number: str  # the hash of its cookie, which opens nothing
    operator: str
    created_at: float
    seen_at: float


LISTED = [operators.c[part.name] for part in fields(KeyInfo) if part.name != "studies"]


def add_key(
    database: Database,
    name: str,
    key: str | None,
    at: float,
    role: KeyRole = "operator",
    study: str | Sequence[str] | None = None,
    actor: str = COMMAND_LINE,
    replace: bool = True,
    email: str | None = None,
) -> None:
    """Give someone a key, for all studies or a role in some; it replaces what there is under the same name.

    Without a key it is an account, for whoever the identity provider says has the `email`. Without `replace`, a name
    that is in use is refused. What there is is looked at in the same transaction, so that of two who make a key under
    one name at once, the second is refused or replaces the first, and knows it.
    """
    name = require_holder(name)
    named = [study] if isinstance(study, str) else sorted(set(study or ()))
    if (role != "operator") != bool(named):
        which = "all studies; name none" if role == "operator" else "some studies; name them"
        raise InputError(f"the role {role} is for {which}")
    if role == "application" and (len(named) != 1 or key is None):
        raise InputError("an application has a key of its own for each study; name one study, and no e-mail address")
    if key is None and email is None:
        raise InputError("someone without a key signs in with an e-mail address; give it")
    email = None if email is None else require_email(email)
    with database.write() as connection:
        for each in named:
            if not NAME.fullmatch(each):
                raise no_study(each)
            log.row_of(connection, each)
        known = _locked(connection)
        if not replace and any(one.name == name for one in known):
            raise Refusal(409, f"there is a key under the name {name!r}; choose another name, or revoke that key first")
        if any(one.email == email and one.name != name for one in known if email):
            raise Refusal(409, f"somebody else signs in with {email}; revoke that account first")
        if role != "operator":
            _require_another(known, name)
        for table in (sessions, grants):
            connection.execute(sa.delete(table).where(table.c.operator == name))
        connection.execute(sa.delete(operators).where(operators.c.name == name))
        kind = role if role in ("operator", "application") else "member"
        hashed = secrets.token_bytes(32) if key is None else hash_key(key)
        values = {"name": name, "key_hash": hashed, "role": kind, "email": email, "created_at": at}
        connection.execute(sa.insert(operators).values(**values))
        for each in named:
            connection.execute(sa.insert(grants).values(operator=name, study=each, role=role))
        audit.note(connection, at, actor, Action.KEY_ADDED, named[0] if len(named) == 1 else None, f"{name} ({role})")


def grant(
    database: Database, name: str, study: str, role: StudyRole | None, at: float, actor: str = COMMAND_LINE
) -> bool:
    """Give a member a role in one more study, another role, or none; return False if it was so before."""
    with database.write() as connection:
        log.row_of(connection, study)
        holder = next((one for one in _locked(connection) if one.name == unicodedata.normalize("NFKC", name)), None)
        if holder is None:
            raise Refusal(404, f"there is no key or account under the name {name!r}; list them with: voxpop keys list")
        if holder.role != "member" or role == "application":
            raise Refusal(409, f"{name!r} is an {holder.role}, and only members have roles by study; make another key")
        if holder.studies.get(study) == role:
            return False
        ours = (grants.c.operator == holder.name, grants.c.study == study)
        connection.execute(sa.delete(grants).where(*ours))
        if role is not None:
            connection.execute(sa.insert(grants).values(operator=holder.name, study=study, role=role))
        audit.note(connection, at, actor, Action.ROLE_CHANGED, study, f"{holder.name} ({role or 'none'})")
    return True


def require_email(text: str) -> str:
    """Return an e-mail address in the one spelling in which it is compared; refuse what is none."""
    if not EMAIL.fullmatch(text.strip()):
        raise InputError(f"an e-mail address looks like ann@example.org, got {text!r:.80}; correct it")
    return text.strip().lower()


def require_holder(name: str) -> str:
    """Return a name in the one spelling under which a key is kept; refuse one under which none can be."""
    name = unicodedata.normalize("NFKC", name)
    if not 1 <= len(name) <= 64 or not name.isprintable() or name != name.strip():
        raise InputError(f"the name of a key has 1 to 64 printable characters, got {name!r:.80}; choose another")
    return name


def list_keys(database: Database) -> list[KeyInfo]:
    """List all keys by name, without the keys themselves."""
    with database.read() as connection:
        return _infos(connection, sa.select(*LISTED).order_by(operators.c.name))


def _infos(connection: sa.Connection, wanted: Any) -> list[KeyInfo]:
    roles = defaultdict[str, dict[str, Any]](dict)
    for row in connection.execute(sa.select(grants).order_by(grants.c.study)):
        roles[row.operator][row.study] = row.role
    return [KeyInfo(**row._mapping, studies=roles[row.name]) for row in connection.execute(wanted)]


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
        _revoke(connection, row.name, None, at, actor)
    return True


def revoke_viewers(connection: sa.Connection, study: str, at: float, actor: str) -> None:
    """Revoke the keys that are for this study only, and end their sessions, in the transaction that deletes it."""
    others = sa.select(grants.c.operator).where(grants.c.study != study)
    ours = sa.select(grants.c.operator).where(grants.c.study == study, grants.c.operator.not_in(others))
    valid = operators.c.name.in_(ours) & operators.c.revoked_at.is_(None)
    for name in connection.execute(sa.select(operators.c.name).where(valid).order_by(operators.c.name)).scalars().all():
        _revoke(connection, name, study, at, actor)
    connection.execute(sa.delete(grants).where(grants.c.study == study, grants.c.operator.in_(others)))


def _revoke(connection: sa.Connection, name: str, study: str | None, at: float, actor: str) -> None:
    connection.execute(sa.update(operators).where(operators.c.name == name).values(revoked_at=at))
    connection.execute(sa.delete(sessions).where(sessions.c.operator == name))
    mine = connection.execute(sa.select(grants.c.study).where(grants.c.operator == name)).scalars().all()
    audit.note(connection, at, actor, Action.KEY_REVOKED, study or (mine[0] if len(mine) == 1 else None), name)


def _locked(connection: sa.Connection) -> list[KeyInfo]:
    """Return the keys that are valid; nobody else makes or revokes one before this transaction ends."""
    if connection.dialect.name == "postgresql":  # on SQLite, there is one writer
        connection.execute(sa.text("LOCK TABLE operators IN SHARE ROW EXCLUSIVE MODE"))
    valid = operators.c.revoked_at.is_(None)
    return _infos(connection, sa.select(*LISTED).where(valid))


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
        return _principal(connection, row)


def _principal(connection: sa.Connection, row: Any) -> Principal:
    mine = connection.execute(sa.select(grants.c.study, grants.c.role).where(grants.c.operator == row.name))
    return Principal(row.name, row.role, {row.study: row.role for row in mine})


def sign_in(database: Database, key: str, at: float) -> Session | None:
    """Begin a session for a browser that shows a key; return None if it is nobody's."""
    principal = principal_of(database, key)
    if principal is None:
        return None
    if principal.role == "application":
        raise Refusal(403, "this is an application's key, which signs nobody in; use a key of your own")
    with database.write() as connection:
        return _begin(connection, principal, hash_key(key), at)


def sign_in_as(database: Database, subject: str, email: str | None, at: float) -> Session:
    """Begin a session for someone for whom the identity provider vouches.

    The first time it is by an e-mail address that the provider has verified, and then by the provider's own number.
    """
    with database.write() as connection:
        valid = sa.select(operators).where(operators.c.revoked_at.is_(None))
        row = connection.execute(valid.where(operators.c.subject == subject)).first()
        if row is None and email is not None:
            named = (operators.c.email == email.lower(), operators.c.subject.is_(None))
            row = connection.execute(valid.where(*named).with_for_update()).first()
        if row is None:
            raise Refusal(403, "nobody has made an account for you here; ask an operator for one with your address")
        connection.execute(sa.update(operators).where(operators.c.name == row.name).values(subject=subject))
        return _begin(connection, _principal(connection, row), row.key_hash, at)


def _begin(connection: sa.Connection, principal: Principal, hashed: bytes, at: float) -> Session:
    cookie = new_key()
    row = {"id_hash": hash_key(cookie), "operator": principal.name, "key_hash": hashed}
    connection.execute(sa.delete(sessions).where(_over(at)))
    connection.execute(sa.insert(sessions).values(**row, created_at=at, seen_at=at))
    audit.note(connection, at, principal.name, Action.SIGNED_IN)
    return Session(cookie, principal)


def session_of(database: Database, cookie: str, at: float, live: bool = False) -> Session | None:
    """Return the session of a cookie; None if there is none or it has ended.

    A page that updates itself (`live`) does not count as use: a browser left open must be signed out in the end.
    """
    given = hash_key(cookie)
    joined = sa.select(sessions.c.seen_at, operators).join(operators, operators.c.name == sessions.c.operator)
    ours = (sessions.c.id_hash == given, sessions.c.key_hash == operators.c.key_hash)
    valid = joined.where(*ours, operators.c.revoked_at.is_(None), ~_over(at))
    with database.read() as connection:
        row = connection.execute(valid).first()
        if row is None:
            return None
        principal = _principal(connection, row)
    if not live and at - row.seen_at > SEEN_SECONDS:
        with database.write() as connection:
            connection.execute(sa.update(sessions).where(sessions.c.id_hash == given).values(seen_at=at))
    return Session(cookie, principal)


def sign_out(database: Database, session: Session, at: float) -> None:
    """End a session."""
    with database.write() as connection:
        connection.execute(sa.delete(sessions).where(sessions.c.id_hash == hash_key(session.cookie)))
        audit.note(connection, at, session.principal.name, Action.SIGNED_OUT)


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

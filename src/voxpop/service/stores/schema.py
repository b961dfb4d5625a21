"""The tables.

Coordinator: `events` is the append-only log of each study, from which its snapshot follows. `studies` holds the
progress of the current wave, in the row that transactions lock. `inbox` holds raw reports until their wave closes.

Shuffler: `reports` holds encoded reports until their batch is whole. A shuffler knows tokens, but no people or studies.
"""

import re

import sqlalchemy as sa

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")  # of a study: files are called by it
coordinator, shuffler = sa.MetaData(), sa.MetaData()

EVERYBODY = 2**62  # `newest` of a wave that an older version began: everybody may be asked about it
BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers only INTEGER keys automatically


def table(name: str, *parts: sa.schema.SchemaItem, of: sa.MetaData = coordinator) -> sa.Table:
    """Declare a table, of the coordinator unless said otherwise."""
    return sa.Table(name, of, *parts)


studies = table(
    "studies",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("seq", sa.Integer, nullable=False),  # of the last event
    sa.Column("wave", sa.Integer, nullable=False),
    sa.Column("stage", sa.String(16), nullable=False),  # a `Stage` of service/study/stages.py
    sa.Column("played", sa.BigInteger, nullable=False),  # rounds of the wave that were played
    sa.Column("opened_at", sa.Float, nullable=False),
    sa.Column("short", sa.Integer, nullable=False),  # people who are wanted but could not be found
    sa.Column("batch", sa.String(64)),  # the wave's name at the shuffler
    sa.Column("enrolment_hash", sa.LargeBinary),  # NULL: everybody may register; empty: with a code of `codes` only
    sa.Column("invited", sa.Integer, nullable=False, server_default="0"),  # to the wave: answered, or still with time
    sa.Column("newest", BigId),  # the last person to register before the wave's rounds began; NULL: they have not
    sa.Column("attempt", sa.String(64)),  # the name of the attempt to release the wave, if there is one
    sa.Column("life", sa.String(16), nullable=False, server_default="running"),  # a `Life` of service/study/stages.py
    sa.Column("life_since", sa.Double, nullable=False, server_default="0"),  # when that began
    # Under which proofs of the batch are checked, always the same: under two keys, verifier shares would tell too much.
    sa.Column("verify_key", sa.LargeBinary),
    sa.Column("public", sa.Boolean, nullable=False, server_default=sa.false()),  # anyone may read the decision in force
)
# Where the open wave of a study stood, whenever that changed: what was in force at an earlier time follows from it.
stands = table(
    "stands",
    sa.Column("id", BigId, primary_key=True),
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("wave", sa.Integer, nullable=False),  # this, and the rest, as in `studies`
    sa.Column("stage", sa.String(16), nullable=False),
    sa.Column("life", sa.String(16), nullable=False),
    sa.Column("opened_at", sa.Double, nullable=False),
    sa.Column("newest", BigId),
    sa.Index("stands_study", "study", "at"),
)
notes = table(  # of operators on waves
    "notes",
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("wave", sa.Integer, primary_key=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("actor", sa.String(64), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)
events = table(
    "events",
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)
plays = table(
    "plays",
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("wave", sa.Integer, nullable=False),
    sa.Column("rounds", sa.BigInteger, nullable=False),
)
people = table(
    "people",
    sa.Column("id", BigId, primary_key=True),
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), nullable=False),
    sa.Column("key_hash", sa.LargeBinary, nullable=False),
    sa.Column("participations", sa.Integer, nullable=False, server_default="0"),
    sa.Column("withdrawn", sa.Boolean, nullable=False, server_default=sa.false()),  # kept because releases count them
    sa.Column("stratum", sa.Text),  # NULL: the study has none
    sa.UniqueConstraint("study", "key_hash", name="people_key"),
    sa.Index("people_participations", "study", "participations"),
    sa.Index("people_withdrawn", "study", sqlite_where=sa.text("withdrawn = 1"), postgresql_where=sa.text("withdrawn")),
)
invitations = table(
    "invitations",
    sa.Column("id", BigId, primary_key=True),
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), nullable=False),
    sa.Column("wave", sa.Integer, nullable=False),
    sa.Column("person", BigId, sa.ForeignKey("people.id"), nullable=False),
    sa.Column("nonce", sa.LargeBinary, nullable=False),  # the token is derived from it; empty once the wave is closed
    sa.Column("token_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("deadline", sa.Float, nullable=False),
    sa.Column("ready", sa.Boolean, nullable=False),  # the shuffler knows the token, or need not know it
    sa.Column("expired", sa.Boolean, nullable=False),
    sa.Column("block", sa.Integer, nullable=False, server_default="1"),  # of the wave's rounds, on which one reports
    sa.Index("invitations_wave", "study", "wave", "deadline"),
    sa.Index("invitations_person", "person", "wave"),
)
# The next two tables have no foreign keys: each would cost a lookup and a row lock per report. They are not needed,
# because the same transaction has read the invitation, and who deletes an invitation holds the study's lock alone.
receipts = table(
    "receipts",
    sa.Column("invitation", BigId, primary_key=True),
    # Of the report, keyed by the token, which is not stored in the database; NULL: the shuffler has the report.
    sa.Column("digest", sa.LargeBinary),
)
inbox = table(
    "inbox",
    sa.Column("invitation", BigId, primary_key=True),
    sa.Column("study", sa.String(64), nullable=False),
    sa.Column("wave", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index("inbox_wave", "study", "wave"),
)
totals = table(
    "totals",
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("wave", sa.Integer, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)
operators = table(
    "operators",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("key_hash", sa.LargeBinary, nullable=False, unique=True),  # random if there is no key
    sa.Column("role", sa.String(16), nullable=False, server_default="operator"),  # or member, or application
    sa.Column("created_at", sa.Double, nullable=False, server_default="0"),  # 0: by an older version
    sa.Column("revoked_at", sa.Double),  # NULL: it is valid
    sa.Column("email", sa.String(254)),  # by which an identity provider may vouch for them, once
    sa.Column("subject", sa.Text),  # the provider and its number for them, from then on
)
grants = table(  # what those may do who are no operators, by study
    "grants",
    sa.Column("operator", sa.String(64), sa.ForeignKey("operators.name"), primary_key=True),
    sa.Column("study", sa.String(64), primary_key=True),  # no foreign key: grants of a deleted one are listed
    sa.Column("role", sa.String(16), nullable=False),  # owner, viewer or application
)
hooks = table(  # who is told what happens; what is signed follows from the nonce and the secret outside the database
    "hooks",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("format", sa.String(16), nullable=False),
    sa.Column("study", sa.String(64)),  # NULL: all
    sa.Column("kinds", sa.Text, nullable=False),  # separated by spaces; empty: all
    sa.Column("nonce", sa.LargeBinary, nullable=False),
    sa.Column("made_at", sa.Double, nullable=False),
)
told = table(  # up to where the log of a study was made into deliveries, and what else was told last
    "told",
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)
deliveries = table(  # what is to be told, or was; without foreign keys: it outlives study and receiver
    "deliveries",
    sa.Column("id", BigId, primary_key=True),
    sa.Column("message", sa.String(64), nullable=False),  # the same for all receivers, and whenever it is sent again
    sa.Column("hook", sa.String(64), nullable=False),
    sa.Column("study", sa.String(64)),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # due, delivered or failed
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("due", sa.Double, nullable=False),  # when it is sent, or sent again
    sa.Column("error", sa.Text, nullable=False, server_default=""),
    sa.Index("deliveries_due", "state", "due"),
)
sessions = table(  # of browsers that are signed in
    "sessions",
    sa.Column("id_hash", sa.LargeBinary, primary_key=True),  # of the cookie
    sa.Column("operator", sa.String(64), sa.ForeignKey("operators.name"), nullable=False),
    sa.Column("key_hash", sa.LargeBinary, nullable=False),  # with which it began: a replaced key ends it
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("seen_at", sa.Double, nullable=False),
)
audit = table(  # who did what; append-only
    "audit",
    sa.Column("id", BigId, primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("actor", sa.String(64), nullable=False),  # the name of an operator, or "command line"
    sa.Column("action", sa.String(32), nullable=False),
    sa.Column("study", sa.String(64)),  # without a foreign key: the trail outlives the study
    sa.Column("detail", sa.Text, nullable=False, server_default=""),
    sa.Index("audit_study", "study", "id"),
)
deleted = table(  # studies that were deleted on purpose, so that the record of releases does not miss them
    "deleted",
    sa.Column("study", sa.String(64), primary_key=True),
    sa.Column("created_at", sa.Double, primary_key=True),
)
summaries = table(  # what a list of studies shows of each, so that it need not read their logs
    "summaries",
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("seq", sa.Integer, nullable=False),  # of the log when it was written
    sa.Column("body", sa.Text, nullable=False),
)
tallies = table(  # counters of a wave; each process that stores reports has its own row, so that none waits
    "tallies",
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("wave", sa.Integer, primary_key=True),
    sa.Column("writer", sa.String(32), primary_key=True),  # empty: those who hold the study's lock
    sa.Column("asked", sa.Integer, nullable=False, server_default="0"),
    sa.Column("answered", sa.Integer, nullable=False, server_default="0"),
    sa.Column("lapsed", sa.Integer, nullable=False, server_default="0"),
    sa.Column("refused", sa.Integer, nullable=False, server_default="0"),
    sa.Column("late", sa.Double, nullable=False, server_default="0"),  # deadlines for which those who lapsed were asked
)
# Checks of values outside the database, such as the secret; and `ready`, written to show that it works.
marks = table(
    "marks",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("mark", sa.LargeBinary, nullable=False),
)
version = table(  # of these tables; one row, in a table that has the name which alembic gave it once
    "alembic_version",
    sa.Column("version_num", sa.String(32), primary_key=True),
)
codes = table(  # enrolment codes for one person each; that one was used is kept, and not by whom
    "codes",
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("code_hash", sa.LargeBinary, primary_key=True),
    sa.Column("used", sa.Boolean, nullable=False, server_default=sa.false()),
)
counts = table(  # apart from `studies`, whose rows uploads share
    "counts",
    sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("registered", sa.Integer, nullable=False),
    sa.Column("never_asked", sa.Integer, nullable=False),  # people whose participations are 0
    sa.Column("withdrawn", sa.Integer, nullable=False, server_default="0"),  # people who have withdrawn
)

batches = table(
    "batches",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("coordinates", sa.Integer, nullable=False),
    sa.Column("bits", sa.Integer, nullable=False),  # levels and trials
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # a `BatchStage` of service/shuffler/batches.py
    sa.Column("total", sa.Text),  # what is forwarded, or answered if the batch is shared; NULL until it is sealed
    sa.Column("levels", sa.Integer),  # these two are NULL if the first version stored the batch
    sa.Column("chance", sa.Double),
    sa.Column("shared", sa.Boolean, nullable=False, server_default=sa.false()),  # reports are shares
    of=shuffler,
)
tokens = table(
    "tokens",
    sa.Column("token_hash", sa.LargeBinary, primary_key=True),
    sa.Column("batch", sa.String(64), sa.ForeignKey("batches.id"), nullable=False),
    sa.Column("withdrawn", sa.Boolean, nullable=False),
    sa.Column("digest", sa.LargeBinary),  # of the report, keyed by the token; NULL: none yet; empty: forwarded
    sa.Index("tokens_batch", "batch"),
    of=shuffler,
)
reports = table(
    "reports",
    sa.Column("token_hash", sa.LargeBinary, sa.ForeignKey("tokens.token_hash"), primary_key=True),
    sa.Column("batch", sa.String(64), sa.ForeignKey("batches.id"), nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index("reports_batch", "batch"),
    of=shuffler,
)
for shared in (marks, version):
    shared.to_metadata(shuffler)


def newest_person(connection: sa.Connection) -> int:
    """Return the number of the person who registered last."""
    return int(connection.execute(sa.select(sa.func.coalesce(sa.func.max(people.c.id), 0))).scalar_one())


def require_later(connection: sa.Connection, restored: bool = False) -> None:
    """Let nobody who registers from now on pass for one who was there before the rounds of a wave began.

    SQLite gives the number of a person who registered last again when they are gone; PostgreSQL gives none twice, but
    does not know the numbers that were given before the database was `restored`.
    """
    if restored or connection.dialect.name == "sqlite":
        last = newest_person(connection)
        later = sa.update(studies).where(studies.c.newest > last, studies.c.newest < EVERYBODY)
        connection.execute(later.values(newest=last))

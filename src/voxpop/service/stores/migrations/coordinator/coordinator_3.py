"""The life of a study, roles and sessions of operators, the audit trail, and counters of every phase."""

import sqlalchemy as sa
from alembic import op

revision = "coordinator_3"
down_revision = "coordinator_2"

BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")

COUNTED = """
    INSERT INTO tallies (study, phase, writer, asked, answered, lapsed, refused)
    SELECT i.study, i.phase, '', count(*), count(r.invitation), count(CASE WHEN i.expired THEN 1 END), 0
    FROM invitations i LEFT JOIN receipts r ON r.invitation = i.id GROUP BY i.study, i.phase
"""


def upgrade() -> None:
    """Add the columns and tables, and count what is there once."""
    op.add_column("studies", sa.Column("life", sa.String(16), nullable=False, server_default="running"))
    op.add_column("studies", sa.Column("life_since", sa.Double, nullable=False, server_default="0"))
    op.add_column("people", sa.Column("withdrawn", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_index(
        "people_withdrawn",
        "people",
        ["study"],
        sqlite_where=sa.text("withdrawn = 1"),
        postgresql_where=sa.text("withdrawn"),
    )
    op.add_column("counts", sa.Column("withdrawn", sa.Integer, nullable=False, server_default="0"))
    op.add_column("operators", sa.Column("role", sa.String(16), nullable=False, server_default="operator"))
    op.add_column("operators", sa.Column("study", sa.String(64)))
    op.add_column("operators", sa.Column("created_at", sa.Double, nullable=False, server_default="0"))
    op.add_column("operators", sa.Column("revoked_at", sa.Double))
    op.create_table(
        "sessions",
        sa.Column("id_hash", sa.LargeBinary, primary_key=True),
        sa.Column("operator", sa.String(64), sa.ForeignKey("operators.name"), nullable=False),
        sa.Column("key_hash", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("id", BigId, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("study", sa.String(64)),
        sa.Column("detail", sa.Text, nullable=False, server_default=""),
    )
    op.create_index("audit_study", "audit", ["study", "id"])
    op.create_table(
        "deleted",
        sa.Column("study", sa.String(64), primary_key=True),
        sa.Column("created_at", sa.Double, primary_key=True),
    )
    op.create_table(
        "summaries",
        sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "tallies",
        sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("phase", sa.Integer, primary_key=True),
        sa.Column("writer", sa.String(32), primary_key=True),
        sa.Column("asked", sa.Integer, nullable=False, server_default="0"),
        sa.Column("answered", sa.Integer, nullable=False, server_default="0"),
        sa.Column("lapsed", sa.Integer, nullable=False, server_default="0"),
        sa.Column("refused", sa.Integer, nullable=False, server_default="0"),
    )
    op.execute(COUNTED)

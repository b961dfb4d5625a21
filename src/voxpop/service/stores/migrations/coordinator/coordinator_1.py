"""The first schema of the coordinator: log, people, invitations, inbox."""

import sqlalchemy as sa
from alembic import op

revision = "coordinator_1"
down_revision = None

BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "studies",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("played", sa.BigInteger, nullable=False),
        sa.Column("opened_at", sa.Float, nullable=False),
        sa.Column("short", sa.Integer, nullable=False),
        sa.Column("batch", sa.String(64)),
        sa.Column("enrolment_hash", sa.LargeBinary),
    )
    op.create_table(
        "events",
        sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "plays",
        sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("rounds", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "people",
        sa.Column("id", BigId, primary_key=True),
        sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), nullable=False),
        sa.Column("key_hash", sa.LargeBinary, nullable=False),
        sa.Column("participations", sa.Integer, nullable=False, server_default="0"),
        sa.UniqueConstraint("study", "key_hash", name="people_key"),
    )
    op.create_index("people_participations", "people", ["study", "participations"])
    op.create_table(
        "invitations",
        sa.Column("id", BigId, primary_key=True),
        sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), nullable=False),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("person", BigId, sa.ForeignKey("people.id"), nullable=False),
        sa.Column("nonce", sa.LargeBinary, nullable=False),
        sa.Column("token_hash", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("deadline", sa.Float, nullable=False),
        sa.Column("ready", sa.Boolean, nullable=False),
        sa.Column("expired", sa.Boolean, nullable=False),
    )
    op.create_index("invitations_phase", "invitations", ["study", "phase", "deadline"])
    op.create_index("invitations_person", "invitations", ["person", "phase"])
    op.create_table(
        "receipts",
        sa.Column("invitation", BigId, primary_key=True),
        sa.Column("digest", sa.LargeBinary),
    )
    op.create_table(
        "inbox",
        sa.Column("invitation", BigId, primary_key=True),
        sa.Column("study", sa.String(64), nullable=False),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("inbox_phase", "inbox", ["study", "phase"])
    op.create_table(
        "totals",
        sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("phase", sa.Integer, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "operators",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("key_hash", sa.LargeBinary, nullable=False, unique=True),
    )
    op.create_table(
        "marks",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("mark", sa.LargeBinary, nullable=False),
    )

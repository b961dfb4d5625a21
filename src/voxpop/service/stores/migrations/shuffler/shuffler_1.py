"""The first schema of the shuffler: batches, tokens, reports."""

import sqlalchemy as sa
from alembic import op

revision = "shuffler_1"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "batches",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("coordinates", sa.Integer, nullable=False),
        sa.Column("bits", sa.Integer, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("total", sa.Text),
    )
    op.create_table(
        "tokens",
        sa.Column("token_hash", sa.LargeBinary, primary_key=True),
        sa.Column("batch", sa.String(64), sa.ForeignKey("batches.id"), nullable=False),
        sa.Column("withdrawn", sa.Boolean, nullable=False),
        sa.Column("digest", sa.LargeBinary),
    )
    op.create_index("tokens_batch", "tokens", ["batch"])
    op.create_table(
        "reports",
        sa.Column("token_hash", sa.LargeBinary, sa.ForeignKey("tokens.token_hash"), primary_key=True),
        sa.Column("batch", sa.String(64), sa.ForeignKey("batches.id"), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("reports_batch", "reports", ["batch"])

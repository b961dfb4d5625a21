"""Batches of shares, which a helper adds up when the coordinator names their tokens."""

import sqlalchemy as sa
from alembic import op

revision = "shuffler_3"
down_revision = "shuffler_2"


def upgrade() -> None:
    """Add the column; batches that are already there are of whole reports."""
    op.add_column("batches", sa.Column("shared", sa.Boolean, nullable=False, server_default=sa.false()))

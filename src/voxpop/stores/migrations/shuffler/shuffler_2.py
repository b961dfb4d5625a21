"""A row that shows whether the database can be written, and a number that recognises its file."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "shuffler_2"
down_revision = "shuffler_1"


def upgrade() -> None:
    """Add the table with its row."""
    op.create_table(
        "marks",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("mark", sa.LargeBinary, nullable=False),
    )
    op.execute("INSERT INTO marks (name, mark) VALUES ('ready', '')")
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"PRAGMA user_version = {secrets.randbelow(2**31 - 1) + 1}")

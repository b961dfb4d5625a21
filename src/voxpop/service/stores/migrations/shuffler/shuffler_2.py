"""How the reports of a batch are encoded; a row that shows whether the database can be written, and a file's number.

The encoding of a batch that is already there is not known, only its number of bits: the next announcement fills it in,
and until then no report is taken. Reports that are already there were compared with the number of bits alone.
"""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "shuffler_2"
down_revision = "shuffler_1"


def upgrade() -> None:
    """Add the columns, and the table with its row."""
    op.add_column("batches", sa.Column("levels", sa.Integer))
    op.add_column("batches", sa.Column("chance", sa.Double))
    op.create_table(
        "marks",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("mark", sa.LargeBinary, nullable=False),
    )
    op.execute("INSERT INTO marks (name, mark) VALUES ('ready', '')")
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"PRAGMA user_version = {secrets.randbelow(2**31 - 1) + 1}")

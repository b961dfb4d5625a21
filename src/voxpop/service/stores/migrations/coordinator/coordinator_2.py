"""Counters instead of counting, who registered before a phase began, and attempts to release a phase."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "coordinator_2"
down_revision = "coordinator_1"

BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")

INVITED = """
    UPDATE studies SET invited = (
        SELECT count(*) FROM invitations i WHERE i.study = studies.id AND i.phase = studies.phase AND NOT i.expired
    )
"""
# A phase that is under way keeps the rule under which it began: everybody may be asked.
BEGUN = f"UPDATE studies SET newest = {2**62} WHERE stage IN ('playing', 'collecting')"
COUNTS = """
    INSERT INTO counts (study, registered, never_asked)
    SELECT s.id, count(p.id), count(CASE WHEN p.participations = 0 THEN 1 END)
    FROM studies s LEFT JOIN people p ON p.study = s.id GROUP BY s.id
"""


def upgrade() -> None:
    """Add the columns and tables, and count what is there once."""
    op.add_column("studies", sa.Column("invited", sa.Integer, nullable=False, server_default="0"))
    op.add_column("studies", sa.Column("newest", BigId))
    op.add_column("studies", sa.Column("attempt", sa.String(64)))
    op.create_table(
        "counts",
        sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("registered", sa.Integer, nullable=False),
        sa.Column("never_asked", sa.Integer, nullable=False),
    )
    for statement in (INVITED, BEGUN, COUNTS, "INSERT INTO marks (name, mark) VALUES ('ready', '')"):
        op.execute(statement)
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"PRAGMA user_version = {secrets.randbelow(2**31 - 1) + 1}")

"""One word: what was called a phase is a wave, in columns, indexes and the bodies of events."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "coordinator_4"
down_revision = "coordinator_3"

TABLES = ("studies", "plays", "invitations", "inbox", "totals", "tallies")
INDEXES = {
    "invitations_phase": ("invitations", ["study", "wave", "deadline"]),
    "inbox_phase": ("inbox", ["study", "wave"]),
}
RENAMED = ("opened", "closed")  # events that name their wave; a `created` one may have a label called phase

events = sa.table("events", *map(sa.column, ("study", "seq", "kind", "body")))


def upgrade() -> None:
    """Rename columns and indexes, and rewrite the events; summaries are made anew when somebody looks."""
    for name in TABLES:
        op.execute(f"ALTER TABLE {name} RENAME COLUMN phase TO wave")
    for name, (table, columns) in INDEXES.items():
        op.drop_index(name, table)
        op.create_index(name.replace("phase", "wave"), table, columns)
    op.execute("DELETE FROM summaries")
    connection = op.get_bind()
    for study, seq, _, body in connection.execute(sa.select(events).where(events.c.kind.in_(RENAMED))).all():
        text = json.dumps(_renamed(json.loads(body)), allow_nan=False, separators=(",", ":"))
        ours = (events.c.study == study, events.c.seq == seq)
        connection.execute(sa.update(events).where(*ours).values(body=text))


def _renamed(part: Any) -> Any:
    if isinstance(part, dict):
        return {"wave" if name == "phase" else name: _renamed(value) for name, value in part.items()}
    return [_renamed(one) for one in part] if isinstance(part, list) else part

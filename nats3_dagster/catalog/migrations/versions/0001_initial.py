"""Incarnations, archives, coverage, chunks, gaps, hours, removals and replays."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    """Past SQLAlchemy, which would read the colons and percent signs of function bodies as parameters."""
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    for name in ("0001_tables.sql", "0001_proofs.sql"):
        connection.execute((SQL / name).read_bytes())

"""Absent sequences have reasons, real messages take the place of gaps, and hours follow their gaps."""

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    """Past SQLAlchemy, as 0001 does."""
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    connection.execute((SQL / "0008_absences.sql").read_bytes())

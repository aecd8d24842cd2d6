"""Witnesses: a captured message of each incarnation with its store time."""

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    """Past SQLAlchemy, as 0001 does."""
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    connection.execute((SQL / "0010_witness.sql").read_bytes())

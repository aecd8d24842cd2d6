"""Messages by minute of each chunk; seals of hours."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    """Past SQLAlchemy, as 0001 does."""
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    connection.execute((SQL / "0002_seals.sql").read_bytes())

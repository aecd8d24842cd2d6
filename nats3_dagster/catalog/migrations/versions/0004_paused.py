"""The state `paused` of a replay."""

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    """Past SQLAlchemy, as 0001 does."""
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    connection.execute((SQL / "0004_paused.sql").read_bytes())

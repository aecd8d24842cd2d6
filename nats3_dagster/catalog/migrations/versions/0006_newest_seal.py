"""The newest seal of each archive is found by an index."""

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    """Past SQLAlchemy, as 0001 does."""
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    connection.execute((SQL / "0006_newest_seal.sql").read_bytes())

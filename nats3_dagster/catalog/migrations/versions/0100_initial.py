"""The schema: tables, the hours of gaps, what Postgres proves, totals, and views."""

from pathlib import Path

from alembic import op

revision = "0100"
down_revision = None

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    """Past SQLAlchemy, which would read the colons and percent signs of function bodies as parameters."""
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    # Views and triggers come after the tables that they read.
    for name in ("0100_tables.sql", "0100_gaps.sql", "0100_proofs.sql", "0100_totals.sql", "0100_views.sql"):
        connection.execute((SQL / name).read_bytes())

"""The schema: tables, the hours of gaps, kept sums, what Postgres proves, holds, copies, erasures, events, totals,
views."""

from pathlib import Path

from alembic import op

revision = "0100"
down_revision = None

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    """Creates the schema past SQLAlchemy, which would read the colons and percent signs of function bodies as
    parameters."""
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    # Views and triggers come after the tables that they read.
    for name in (
        "tables",
        "events",
        "sums",
        "gaps",
        "proofs",
        "holds",
        "copies",
        "erasures",
        "totals",
        "cleaning",
        "views",
        "iceberg",
        "parts",
    ):
        connection.execute((SQL / f"0100_{name}.sql").read_bytes())
    connection.execute((SQL / "expected_parts.sql").read_bytes())

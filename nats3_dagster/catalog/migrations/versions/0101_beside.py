"""The index of what lies beside an hour, the replay that a chunk waits for, and the events of erasures."""

from pathlib import Path

from alembic import op

revision = "0101"
down_revision = "0100"

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    for name in ("0101_beside", "0101_events", "expected_parts"):
        connection.execute((SQL / f"{name}.sql").read_bytes())

"""The consumers of streams that are kept beside the chunks, errors for which some are not, rules for accounts,
imports, and buffers of archives."""

from pathlib import Path

from alembic import op

revision = "0102"
down_revision = "0101"

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    for name in ("0102_consumers", "0102_accounts", "0102_imports", "0102_buffer", "expected_parts"):
        connection.execute((SQL / f"{name}.sql").read_bytes())

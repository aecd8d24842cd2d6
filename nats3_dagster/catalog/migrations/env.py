"""The environment of every Alembic migration: the connection that `schema.migrate` opened, in one transaction."""

from pathlib import Path

from alembic import context

connection = context.config.attributes["connection"]
with connection.begin():
    prepare = Path(__file__).parent / "sql" / "prepare.sql"
    connection.connection.driver_connection.execute(prepare.read_bytes())
    context.configure(connection=connection, version_table_schema="nats3")
    context.run_migrations()

"""Dagster's own storage: dagster-postgres on the database that our settings name.

Dagster and the catalog find Postgres by the same rules (NATS3_POSTGRES_URL, nats3.toml, the embedded stack), so that a
run from a plain shell is in the UI too, and a Postgres that is not there is one line.
"""

import os
from functools import lru_cache
from typing import Any, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from weakref import ref

from dagster import Field
from dagster_postgres.storage import DagsterPostgresStorage
from sqlalchemy import Engine, create_engine

from nats3_dagster.defs.instance.internals import (
    ConfigurableClassData,
    RunStorageSqlMetadata,
    ScheduleStorageSqlMetadata,
    SqlEventLogStorageMetadata,
    use_engine,
)
from nats3_dagster.defs.jobs.failures import CannotLoad
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# Two connections of a process are kept, and asked whether they still are some before they are used again; what else is
# needed at the same time is closed after use. dagster-postgres opens one for each question, 2.5 for an event, of 7 ms
# each: a third of the time of a backfill of many hours.
_POOL: dict[str, Any] = {
    "isolation_level": "AUTOCOMMIT",
    "pool_size": 2,
    "max_overflow": -1,
    "pool_recycle": 300,
    "pool_pre_ping": True,
}


class SettingsPostgresStorage(DagsterPostgresStorage):
    """The storage that dagster.yaml names. The tables are made when they are missing."""

    def __init__(self, *, postgres_url: str, **options: Any) -> None:
        super().__init__(postgres_url=postgres_url, **options)
        for storage in (self.run_storage, self.event_log_storage, self.schedule_storage):
            use_engine(storage, _engine(postgres_url))

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {"should_autocreate_tables": Field(bool, is_required=False, default_value=True)}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> Self:
        """Raises CannotLoad when Postgres is not there; Dagster itself would try five times and end in a traceback."""
        try:
            settings = Settings.load()
            with Workspace(settings) as workspace:
                _ = workspace.catalog  # connects
            return cls(postgres_url=dagster_url(settings.postgres), inst_data=inst_data, **config_value)
        except Nats3Error as error:
            raise CannotLoad(error) from None


@lru_cache(maxsize=2)
def _engine(url: str) -> Engine:
    """One for all instances of the process: a code server makes an instance for each tick of a sensor."""
    engine = create_engine(url, **_POOL)
    weak = ref(engine)

    def leave_to_parent() -> None:
        """A forked process must not speak on its parent's connections."""
        if (of_parent := weak()) is not None:
            of_parent.dispose(close=False)

    os.register_at_fork(after_in_child=leave_to_parent)
    return engine


def make_tables(url: str) -> list[str]:
    """Make Dagster's tables where they are missing; the names of all, in the schema public. Raises OperatorError for an
    address that is no URL."""
    DagsterPostgresStorage(postgres_url=dagster_url(url), should_autocreate_tables=True)
    tables = {
        name
        for metadata in (RunStorageSqlMetadata, SqlEventLogStorageMetadata, ScheduleStorageSqlMetadata)
        for name in metadata.tables
    }
    # Dagster's own migrations keep their version in the last one.
    return sorted(tables | {"alembic_version"})


def dagster_url(url: str) -> str:
    """The same database for Dagster: through psycopg 2, with its tables in schema public.

    SQLAlchemy takes psycopg 3 from 2.1 on where the URL names no driver, and dagster-postgres then fails on its first
    NOTIFY. Postgres looks into the schema named like the user first: for the user `nats3` that is the catalog's, with
    an `alembic_version` of its own. Raises OperatorError for an address that is no URL."""
    at = urlsplit(url)
    if at.scheme not in ("postgresql", "postgres"):
        raise OperatorError(
            "Dagster reads the address of Postgres only as a URL",
            "Write NATS3_POSTGRES_URL as postgresql://user:password@host:5432/database",
        )
    query = dict(parse_qsl(at.query))
    query["options"] = f"{query.get('options', '')} -csearch_path=public".strip()
    return at._replace(scheme="postgresql+psycopg2", query=urlencode(query, quote_via=quote)).geturl()

"""Dagster's own storage: dagster-postgres on the database that our settings name.

The rule kept here: Dagster and the catalog find Postgres by the same rules (NATS3_POSTGRES_URL, nats3.toml, the
embedded stack), so that a run from a plain shell is in the UI too, and whoever cannot reach it is told in one line.
"""

from typing import Any, Self

from dagster import Field
from dagster._serdes import ConfigurableClassData
from dagster_postgres.storage import DagsterPostgresStorage

from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.failures import CannotLoad
from nats3_dagster.errors import Nats3Error
from nats3_dagster.settings import Settings


class SettingsPostgresStorage(DagsterPostgresStorage):
    """Named in dagster.yaml. The tables are made when they are missing."""

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {"should_autocreate_tables": Field(bool, is_required=False, default_value=True)}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> Self:
        """Raises CannotLoad when Postgres is not there; Dagster itself would try five times and end in a traceback."""
        try:
            url = Settings.load().postgres
            Catalog.connect(url).close()
        except Nats3Error as error:
            raise CannotLoad(str(error)) from None
        return cls(postgres_url=url, inst_data=inst_data, **config_value)

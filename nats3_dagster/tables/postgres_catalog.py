"""The Iceberg catalog in our own Postgres."""

from pyiceberg.catalog.sql import SqlCatalog

from nats3_dagster.catalog.session.search_path import search_schema


class PostgresCatalog(SqlCatalog):
    """pyiceberg's SQL catalog, with its tables in our schema, where the migrations make them."""

    def _init_catalog(self) -> None:
        """pyiceberg's step after the engine was made and before it is asked for the first time."""
        search_schema(self.engine)
        super()._init_catalog()

"""The catalog: our Postgres schema, the only truth about what exists. Only this package speaks SQL."""

from nats3_dagster.catalog.catalog import Catalog
from nats3_dagster.catalog.grants import grant
from nats3_dagster.catalog.schema import migrate

__all__ = ["Catalog", "grant", "migrate"]

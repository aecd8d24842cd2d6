"""The catalog: our Postgres schema, the only truth about what exists. Only this package speaks SQL."""

from nats3_dagster.catalog.catalog import Catalog
from nats3_dagster.catalog.session.grants import grant
from nats3_dagster.catalog.session.schema import migrate

__all__ = ["Catalog", "grant", "migrate"]

"""The catalog: our Postgres schema, the only truth about what exists.

The rule kept here: all SQL is in sql/ and migrations/sql/, by name, and nothing outside this package knows of it.
`Catalog` is one connection with the calls of each noun: archives, coverage, chunks, gaps and hours, removals, seals,
replays.
"""

from nats3_dagster.catalog.replays import Replays


class Catalog(Replays):
    """`with Catalog.connect(url) as catalog:`. Every call raises CatalogError when Postgres fails it."""

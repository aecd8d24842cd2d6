"""How PySpark finds `format("jetstream")`: it looks for packages of this kind of name with a `DefaultSource`."""

from nats3_dagster.pipeline.sources.jetstream import JetStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]

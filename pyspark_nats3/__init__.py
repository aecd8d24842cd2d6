"""How PySpark finds `format("nats3")`: it looks for packages of this kind of name with a `DefaultSource`."""

from nats3_dagster.pipeline.sources.archive_source import Nats3DataSource as DefaultSource

__all__ = ["DefaultSource"]

"""Data sources of Spark: `format("jetstream")` and `format("nats3")`.

PySpark finds them by the packages `pyspark_jetstream` and `pyspark_nats3` once nats3-dagster is installed. `register`
is for sessions that do not look.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make both formats known to a session."""
    from nats3_dagster.pipeline.sources.archive_source import Nats3DataSource
    from nats3_dagster.pipeline.sources.jetstream import JetStreamDataSource

    for source in (JetStreamDataSource, Nats3DataSource):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            # PySpark 4.0 refuses the name of a source that it has found by itself.
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise

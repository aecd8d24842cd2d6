"""An archive's messages as a frame of the Spark session that runs, or of a new one."""

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

from nats3_dagster.archive.read.frame import checked_columns
from nats3_dagster.model import Selection
from nats3_dagster.pipeline.session import start
from nats3_dagster.pipeline.sources import register
from nats3_dagster.pipeline.sources.archive_source import Nats3DataSource
from nats3_dagster.settings import Settings


def archive_frame(
    settings: Settings, archive: str, selection: Selection, columns: Iterable[str] | None, *, over_gaps: bool
) -> DataFrame:
    """The messages of hours and subjects, in the columns of `archive.read.frame`. Messages are read, and what is
    missing is an error, when Spark computes the frame. Raises OperatorError for another column, EngineError if Spark
    cannot start."""
    names = checked_columns(columns)
    spark = SparkSession.getActiveSession() or start(settings.spark_master, settings.connect)
    register(spark)
    options = {"hours": ",".join(selection.hours), "subjects": ",".join(selection.subjects)}
    return (
        spark.read.format(Nats3DataSource.name())
        .option("archive", archive)
        .option("columns", ",".join(names))
        .option("headers", "binary")
        .option("failOnDataLoss", str(not over_gaps).lower())
        .options(**{name: value for name, value in options.items() if value})
        .load()
    )

"""Spark for a command: started with a word to the person who waits.

The rule kept here: the session ends with the process. A command that is interrupted leaves no stack traces of Java.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from nats3_dagster.cli.progress import step

if TYPE_CHECKING:
    from nats3_dagster.settings import Settings


@contextmanager
def spark_for(settings: "Settings") -> Iterator[Any]:
    """The SparkSession of this process, started in 3 to 5 s. Raises EngineError."""
    with step("Starting Spark"):
        from nats3_dagster.pipeline.session import start

        spark = start(settings.spark_master, settings.connect)
    try:
        yield spark
    except KeyboardInterrupt:
        # The JVM ends while it still kills the tasks, and would log that as errors of its scheduler.
        with suppress(Exception):
            spark.sparkContext.setLogLevel("OFF")
        raise

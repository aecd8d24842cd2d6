"""Writing to a stream."""

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType


def writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """What `df.write.format("jetstream")` writes with. Raises OperatorError."""
    raise NotImplementedError


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
    """What `df.writeStream.format("jetstream")` writes with. Raises OperatorError."""
    raise NotImplementedError

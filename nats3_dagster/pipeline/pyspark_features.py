"""Features: what the PySpark that is installed has of what the data sources use.

Invariant: PySpark's versions differ here and nowhere else in this project. A feature is found by what PySpark has, not
by the number of its version; the number is for texts.
"""

import inspect
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from nats3_dagster.errors import OperatorError


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that not every supported PySpark has."""

    # The option of the sources that needs it.
    option: str
    # The first version that has it.
    since: str
    is_there: bool


# PySpark tells a stream's reader where a batch begins, how large it may be, and that a query ends with what is there.
READ_LIMITS = Feature("maxMessagesPerTrigger", "4.2", find_spec("pyspark.sql.streaming.datasource") is not None)
FEATURES = (READ_LIMITS,)

if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    StreamArrowWriter = datasource.DataSourceStreamArrowWriter
else:

    class StreamArrowWriter(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter):
        """A stream's writer that gets Arrow batches: PySpark 4.0 gives them to all writers of this second class."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow types of Spark's columns, times in UTC."""
    # PySpark 4.0 and 4.1 have a flag in the place of the zone, and it is set by default.
    has_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if has_zone else {}
    return to_arrow_schema(schema, **zone)


def require(feature: Feature, source: str) -> None:
    """Raises OperatorError where PySpark does not have the feature."""
    if not feature.is_there:
        needed = f"The option {feature.option} of {source} needs PySpark {feature.since}"
        raise OperatorError(
            f"{needed}, and this is {pyspark.__version__}", "Leave it out, or use a newer PySpark", field=feature.option
        )

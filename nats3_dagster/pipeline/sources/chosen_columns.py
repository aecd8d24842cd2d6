"""Columns of a source that the user chose: by the option `columns`, or by a schema."""

from collections.abc import Mapping, Sequence

from pyspark.sql.types import DataType, StructType

from nats3_dagster.errors import OperatorError
from nats3_dagster.settings.names import nearest

# The types that each column may have.
Columns = Mapping[str, Sequence[DataType]]


def check_names(source: str, names: Sequence[str], columns: Columns) -> None:
    """Raises OperatorError unless the option `columns` names columns of the source, and each once."""
    for name in names:
        if name not in columns:
            raise _unknown(f"The option columns of {source} names {name!r}, which it does not have", name, columns)
    for name in names:
        if names.count(name) > 1:
            raise OperatorError(f"The option columns of {source} names {name} twice", "Name it once", field="columns")


def check_schema(source: str, schema: StructType, columns: Columns) -> None:
    """Raises OperatorError unless a schema that the user gave has columns of the source, in types that they may have.
    Whether a column takes nulls makes no difference."""
    for column in schema.fields:
        if column.name not in columns:
            raise _unknown(f"{source} has no column {column.name!r}, which the schema names", column.name, columns)
        types = [type_.simpleString() for type_ in columns[column.name]]
        if column.dataType.simpleString() not in types:
            raise OperatorError(
                f"The column {column.name} of {source} is {' or '.join(types)}, and the schema says "
                f"{column.dataType.simpleString()}",
                "Give it that type in the schema, and cast it afterwards",
            )


def _unknown(what: str, name: str, columns: Columns) -> OperatorError:
    near = nearest(name, columns)
    return OperatorError(what, f"Did you mean {near}?" if near else f"There are {', '.join(columns)}", field="columns")

"""The body that creates an export."""

from pydantic import ConfigDict

from nats3_dagster.bodies.base import Body, Text, named, with_settings
from nats3_dagster.model import ExportSpec
from nats3_dagster.model.spec_table import by_key


class _Create(Body):
    """A new export. `to` must be given."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "to": "s3://lake/pizza",
                    "decode": "json",
                    "key": "subject:2",
                    "format": "csv",
                    "columns": ["order", "price"],
                },
            ]
        }
    )

    name: Text | None = None  # described by the table of settings, as all fields are

    def spec(self, name: str) -> ExportSpec:
        """The export of this name. Raises OperatorError if a field is invalid."""
        document = self.model_dump(by_alias=True, exclude_none=True) | {"name": name}
        with named(ExportSpec):
            return ExportSpec(**by_key(ExportSpec, document))


# The command names the export; in a document the name is optional.
CreateExport = with_settings("CreateExport", _Create, ExportSpec, optional={"name"})

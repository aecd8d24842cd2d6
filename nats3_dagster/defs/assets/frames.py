"""Hours of an archive as data frames, for assets that depend on them: an IO manager, and a resource.

Invariant: an asset gets all messages of the hours that its partition maps to, or its run fails.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dagster import (
    ConfigurableIOManager,
    InitResourceContext,
    InputContext,
    IOManager,
    OutputContext,
    io_manager,
)
from pydantic import Field

from nats3_dagster.defs.instance.resources import with_store
from nats3_dagster.defs.jobs.failures import ForeseenFailure
from nats3_dagster.defs.keys import Naming
from nats3_dagster.errors import LostMessages, Nats3Error, OperatorError
from nats3_dagster.model import Selection
from nats3_dagster.settings import Settings

if TYPE_CHECKING:
    from nats3_dagster.library import Archive

# The assets whose hours have messages.
_READ = ("chunks", "sealed")
# Of an input, in its metadata.
_PREFIX = "nats3/"
_SETTINGS = ("columns", "subjects", "over_gaps", "max_bytes")
_LOST_HINT = (
    "Capture those hours while the stream still has them. To read what there is, give the input the metadata "
    f"{_PREFIX}over_gaps: True"
)
# Classes of frames by their package, which is not imported to compare them.
_FRAMES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyspark", "DataFrame")}


class ArchiveResource:
    """Archives for assets and ops, as a resource without config: `archives: ResourceParam[ArchiveResource]`, and then
    `with archives.open("orders") as archive: archive.read(hours=[...]).to_polars()`."""

    def open(self, name: str) -> "Archive":
        """The archive, by the settings of the environment and of nats3.toml; see `nats3_dagster.Archive`. Raises
        Unknown if there is no such archive."""
        from nats3_dagster.library import Archive

        return Archive.open(name)


class ArchiveIOManager(ConfigurableIOManager):
    """Gives an asset the hours of an archive that its partition maps to, as a frame of the type that its argument has:
    pandas, Polars, an Arrow table or Spark.

    Metadata of the input choose what is read: nats3/columns, nats3/subjects, nats3/over_gaps, nats3/max_bytes."""

    max_bytes: int | None = Field(
        default=None,
        ge=1,
        description="The most bytes of a frame, 1 GiB without it. Frames of Spark have no limit.",
    )

    def handle_output(self, context: OutputContext, obj: Any) -> None:
        _refuse(context)

    def load_input(self, context: InputContext) -> Any:
        return _load(context, Settings.load(), self.max_bytes)


class _StoreIOManager(IOManager):
    """An ArchiveIOManager by the resources of the code location."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def handle_output(self, context: OutputContext, obj: Any) -> None:
        _refuse(context)

    def load_input(self, context: InputContext) -> Any:
        return _load(context, self._settings, None)


@io_manager(
    required_resource_keys={"nats3_settings", "nats3_s3"},
    description="Hours of archives as frames of pandas, Polars, Arrow or Spark, for assets that depend on them.",
)
def frames_io_manager(context: InitResourceContext) -> IOManager:
    # `context.resources.nats3_s3` would be a client of boto3.
    resources: Any = context.resources
    given = resources.original_resource_dict
    return _StoreIOManager(with_store(given["nats3_settings"], given["nats3_s3"]))


def _refuse(context: OutputContext) -> None:
    raise ForeseenFailure(
        OperatorError(
            f"The asset {context.asset_key.to_user_string()} cannot be stored in an archive",
            "Give it another IO manager. Captures alone write to archives",
        )
    )


def _load(context: InputContext, settings: Settings, max_bytes: int | None) -> Any:
    from nats3_dagster.library import Archive  # it imports pyarrow, which a load of definitions does without

    with _shown(context):
        archive, package = _archive_of(context), _package_of(context)
        chosen = _settings_of(context.definition_metadata)
        hours, over_gaps = context.asset_partition_keys, bool(chosen.get("over_gaps", False))
        if not hours:
            raise OperatorError(f"The partition maps to no hour of {archive}", "Correct its partition mapping")
        with Archive.open(archive, settings) as opened:
            if context.asset_key.path[-1] == "sealed" and not over_gaps:
                opened.require_sealed(hours)
            read = opened.read(hours=hours, subjects=chosen.get("subjects"), over_gaps=over_gaps)
            if not over_gaps and (gone := sum(one.messages for one in read.removed())):
                raise OperatorError(
                    f"Up to {gone:,} messages of these hours were removed from archive {archive} on purpose",
                    f"To read what is left, give the input the metadata {_PREFIX}over_gaps: True",
                )
            if package == "pyspark":
                from nats3_dagster.pipeline.archive_frame import archive_frame

                selection = Selection.parse(hours=hours, subjects=chosen.get("subjects"))
                return archive_frame(settings, archive, selection, chosen.get("columns"), over_gaps=over_gaps)
            make = {"pandas": read.to_pandas, "polars": read.to_polars, "pyarrow": read.to_arrow}[package]
            limit = chosen.get("max_bytes", max_bytes)
            frame = make(chosen.get("columns"), **({} if limit is None else {"max_bytes": int(limit)}))
        # Dagster takes metadata of inputs for a single partition only.
        context.log.info(f"{context.name}: {len(frame):,} messages of {len(hours):,} hours of archive {archive}")
        return frame


def _archive_of(context: InputContext) -> str:
    """The archive's name. Raises OperatorError for an asset that is no hours of an archive."""
    path = context.asset_key.path
    if len(path) < 2 or path[-1] not in _READ or not context.has_asset_partitions:
        raise OperatorError(
            f"The asset {context.asset_key.to_user_string()} is not hours of an archive",
            "Depend on ARCHIVE/sealed or ARCHIVE/chunks",
        )
    return path[-2]


def _package_of(context: InputContext) -> str:
    """The package of the frame that the input is annotated with, as a class or, where it is not imported, by name.
    Raises OperatorError for any other type."""
    kind: Any = context.dagster_type.typing_type
    package, name = getattr(kind, "__module__", "").partition(".")[0], getattr(kind, "__name__", "")
    if (package, name) not in _FRAMES:
        shown = "none" if context.dagster_type.display_name == "Any" else context.dagster_type.display_name
        raise OperatorError(
            f"The input {context.name} has the type {shown}, which is no frame",
            "Annotate it as pandas.DataFrame, polars.DataFrame, pyarrow.Table or pyspark.sql.DataFrame",
        )
    return package


def _settings_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of nats3 in the metadata of an input. Raises OperatorError for a key that there is not."""
    given = {key.removeprefix(_PREFIX): value for key, value in metadata.items() if key.startswith(_PREFIX)}
    for key in given.keys() - {*_SETTINGS}:
        raise OperatorError(
            f"An input has no metadata {_PREFIX}{key}", f"There are {', '.join(_PREFIX + one for one in _SETTINGS)}"
        )
    values = {key: getattr(value, "value", value) for key, value in given.items()}
    for key in ("columns", "subjects"):
        if isinstance(values.get(key), str):
            values[key] = [part.strip() for part in values[key].split(",")]
    return values


@contextmanager
def _shown(context: InputContext) -> Iterator[None]:
    """Has Dagster show a Nats3Error as its two sentences."""
    naming = Naming(tuple(context.asset_key.path[:-2]))
    try:
        yield
    except LostMessages as error:
        raise ForeseenFailure(LostMessages(error.what, _LOST_HINT, ranges=error.ranges), naming) from None
    except Nats3Error as error:
        raise ForeseenFailure(error, naming) from None

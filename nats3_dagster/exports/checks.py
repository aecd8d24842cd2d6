"""Refusals of an export before anything is written."""

from pathlib import Path

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding.decoders import decoder_of
from nats3_dagster.exports.decoding.schemas import read_schema
from nats3_dagster.model import Archive, ExportSpec
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.workspace import Workspace


def check_export(workspace: Workspace, archive: Archive, spec: ExportSpec) -> None:
    """Raises OperatorError for an export that cannot run: its files would lie where chunks or files of another export
    live, its decoder cannot be imported, its schema cannot be read, or an extra is missing. Asks the catalog, and no
    store."""
    check_apart(workspace, archive, spec)
    workspace.catalog.exports.check_place(archive, spec)
    decoder_of(spec, read_schema(spec))


def check_apart(workspace: Workspace, archive: Archive, spec: ExportSpec) -> None:
    """Raises OperatorError if the destination contains chunks of an archive, or lies among them."""
    place, store = spec.place, workspace.settings.store
    for other in {a.name: a for a in (*workspace.catalog.archives.all(), archive)}.values():
        prefix = archive_prefix(other.spec.prefix, other.name)
        folder = store.of(other.spec.bucket).folder
        if place.scheme == "file" and folder is not None:
            ours, theirs = _real(Path(place.prefix)), _real(folder / other.spec.bucket / prefix)
        elif folder is None and other.spec.bucket == (
            place.bucket if place.scheme == "s3" else f"{place.scheme}://{place.bucket}"
        ):
            ours, theirs = tuple(place.prefix.split("/")) if place.prefix else (), tuple(prefix.split("/"))
        else:
            continue
        if ours[: len(theirs)] == theirs or theirs[: len(ours)] == ours:
            raise OperatorError(
                f"The export {spec.name} would write where the chunks of archive {other.name} live",
                "Choose another bucket, or a prefix beside the archive's",
                field="destination",
            )


def _real(path: Path) -> tuple[str, ...]:
    return path.resolve().parts

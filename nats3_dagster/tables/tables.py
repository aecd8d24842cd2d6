"""Tables: create one for an archive, find it, forget it."""

import re
from typing import Final

from nats3_dagster.errors import OperatorError, Unknown, WrongState
from nats3_dagster.model import Archive
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.steps import Next
from nats3_dagster.tables.catalogs import DEFAULT, opened
from nats3_dagster.workspace import Workspace

NAMESPACE: Final = "nats3"


def tables(workspace: Workspace) -> list[ArchiveTable]:
    """The tables of all archives. Asked of our catalog alone."""
    return workspace.catalog.tables.all()


def find(workspace: Workspace, name: str) -> ArchiveTable:
    """The table of the archive of this name, or of a deleted one. Raises Unknown."""
    known = workspace.catalog.tables.named(name)
    if known is None:
        archive = workspace.catalog.archives.get(name)
        raise Unknown(f"Archive {archive.name} has no table", Next.CREATE_TABLE(archive=archive.name))
    return known


def create(
    workspace: Workspace, name: str, *, catalog: str = DEFAULT, identifier: str | None = None,
    location: str | None = None,
) -> ArchiveTable:  # fmt: skip
    """Make an empty table for the archive, and its namespace if there is none; `sync` fills it.

    Without an identifier it is `nats3.<archive>`; without a location its metadata is in the archive's bucket, beside
    the archive. A table that was made for this archive already is taken. Raises OperatorError, WrongState, TableError,
    Conflict."""
    from nats3_dagster.tables import layout  # pyarrow, which commands that only ask do without

    archive = workspace.catalog.archives.get(name)
    identifier = _identifier(identifier or f"{NAMESPACE}.{archive.name}")
    if known := workspace.catalog.tables.of(archive.id):
        raise WrongState(f"Archive {archive.name} has the table {known.identifier} already", Next.LIST_TABLES())
    location = location or _location(workspace, archive)
    with opened(workspace.settings, catalog) as iceberg:
        from pyiceberg.exceptions import TableAlreadyExistsError

        iceberg.create_namespace_if_not_exists(identifier.rpartition(".")[0])
        try:
            iceberg.create_table(
                identifier, layout.schema(), location, layout.partitions(),
                properties={
                    **layout.PROPERTIES, "schema.name-mapping.default": layout.name_mapping(),
                    layout.OF_ARCHIVE: str(archive.id),
                },
            )  # fmt: skip
        except TableAlreadyExistsError:
            # Made by a process that died before it noted it, or by somebody else.
            properties = iceberg.load_table(identifier).properties
            if properties.get(layout.OF_ARCHIVE) != str(archive.id):
                raise WrongState(
                    f"The Iceberg catalog {catalog} has a table {identifier}, which is not of archive {archive.name}",
                    "Choose another name for the table",
                ) from None
    workspace.catalog.tables.add(archive, catalog, identifier)
    made = workspace.catalog.tables.of(archive.id)
    assert made is not None
    return made


def drop(workspace: Workspace, known: ArchiveTable, *, forget: bool = False) -> bool:
    """Take the table out of its Iceberg catalog, and forget it; whether it was there. Its chunks and its metadata files
    stay. `forget`: do not ask the Iceberg catalog. Raises TableError: then nothing is forgotten."""
    dropped = False
    if not forget:
        with opened(workspace.settings, known.catalog) as iceberg:
            from pyiceberg.exceptions import NoSuchTableError

            try:
                iceberg.drop_table(known.identifier)  # without purge: that would delete chunks
                dropped = True
            except NoSuchTableError:
                pass
    workspace.catalog.tables.forget(known.archive_id)
    return dropped


def _identifier(text: str) -> str:
    """Raises OperatorError unless it is a namespace and a name that every engine takes."""
    if not re.fullmatch(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+", text) or len(text) > 200:
        raise OperatorError(
            f"{text!r} is not the name of a table", "Write it as namespace.name, of letters, digits and _",
            field="table",
        )  # fmt: skip
    return text


def _location(workspace: Workspace, archive: Archive) -> str:
    """Outside of where chunks lie, so that nothing that cleans up a table's folder comes upon one."""
    from nats3_dagster.tables.layout import location

    spec = archive.spec
    if set(spec.prefix) & set("?#%"):
        raise OperatorError(
            f"The prefix {spec.prefix!r} has a character that the address of a table's file cannot have: ? # or %",
            "An archive with another prefix can have a table",
        )
    return location(workspace.settings, spec.bucket, "/".join(filter(None, (spec.prefix, "iceberg", spec.name))))

"""Tables: create one for an archive, find it, verify it, forget it."""

import re
from typing import Final

from nats3_dagster.errors import OperatorError, Unknown, WrongState
from nats3_dagster.model import Archive
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.plausible import secret_in
from nats3_dagster.steps import Next
from nats3_dagster.tables.catalogs import DEFAULT, opened
from nats3_dagster.tables.compare import Comparison, compare
from nats3_dagster.tables.observe import Observation, observe_one
from nats3_dagster.tables.sync import load
from nats3_dagster.workspace import Workspace

NAMESPACE: Final = "nats3"


def find(workspace: Workspace, name: str) -> ArchiveTable:
    """The table of the archive of this name, or of a deleted one if no other has the name now. Raises Unknown."""
    known = find_any(workspace, name)
    if known.archive_deleted and (archive := workspace.catalog.archives.find(name)):
        raise Unknown(
            f"Archive {archive.name} has no table: {known.identifier} is the table of a deleted archive of that name",
            Next.REPLACE_TABLE(archive=archive.name),
        )
    return known


def find_any(workspace: Workspace, name: str) -> ArchiveTable:
    """The table of the archive of this name, else of a deleted one. Raises Unknown."""
    known = workspace.catalog.tables.named(name)
    if known is None:
        archive = workspace.catalog.archives.get(name)
        raise Unknown(f"Archive {archive.name} has no table", Next.CREATE_TABLE(archive=archive.name))
    return known


def create(
    workspace: Workspace,
    name: str,
    *,
    catalog: str = DEFAULT,
    identifier: str | None = None,
    location: str | None = None,
    replace: bool = False,
) -> ArchiveTable:
    """Make an empty table for the archive, and its namespace if there is none; `sync` fills it.

    Without an identifier it is `nats3.<archive>`; without a location its metadata is in the archive's bucket, beside
    the archive. A table that was made for this archive already is taken. `replace`: a table that nats3 made for another
    archive is dropped first, without its files. Raises OperatorError, WrongState, TableError,
    Conflict."""
    from nats3_dagster.tables import layout  # pyarrow, which commands that only ask do without

    archive = workspace.catalog.archives.get(name)
    if location and ({"@", "?", "#"} & set(location) or secret_in(location)):
        raise OperatorError("The table's location holds a login or a query, and would be stored", "Leave it out")
    if workspace.settings.store.has_elsewhere(archive.spec.bucket):
        raise OperatorError(
            f"The bucket {archive.spec.bucket!r} is elsewhere by NATS3_S3_BUCKET_PROFILES, and a table's files are "
            "looked for in the store of the settings",
            "Make that store the one of the settings; or read the archive without a table",
        )
    identifier = _identifier(identifier or f"{NAMESPACE}.{archive.name}")
    if known := workspace.catalog.tables.of(archive.id):
        raise WrongState(f"Archive {archive.name} has the table {known.identifier} already", Next.LIST_TABLES())
    location = location or _location(workspace, archive)
    with opened(workspace.settings, catalog) as iceberg:
        from pyiceberg.exceptions import TableAlreadyExistsError

        iceberg.create_namespace_if_not_exists(identifier.rpartition(".")[0])

        def make() -> None:
            iceberg.create_table(
                identifier,
                layout.schema(),
                location,
                layout.partitions(),
                properties={
                    **layout.PROPERTIES,
                    "schema.name-mapping.default": layout.name_mapping(),
                    layout.OF_ARCHIVE: str(archive.job_id),
                },
            )

        try:
            make()
        except TableAlreadyExistsError:
            # Made by a process that died before it noted it, by nats3 for another archive, or by another program.
            owner = iceberg.load_table(identifier).properties.get(layout.OF_ARCHIVE)
            if owner != str(archive.job_id):
                _check_replaceable(workspace, archive, catalog, identifier, owner, replace=replace)
                iceberg.drop_table(identifier)
                make()
        if replace:
            workspace.catalog.tables.forget_of_deleted(catalog, identifier)
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

            from nats3_dagster.tables.layout import OF_ARCHIVE

            try:
                owner = iceberg.load_table(known.identifier).properties.get(OF_ARCHIVE)
                if owner not in (None, str(known.job_id)):
                    raise WrongState(
                        f"The table {known.identifier} is of another archive by now, and is not dropped",
                        Next.FORGET_FOREIGN_TABLE(archive=known.archive),
                    )
                iceberg.drop_table(known.identifier)  # without purge: that would delete chunks
                dropped = True
            except NoSuchTableError:
                pass
    workspace.catalog.tables.forget(known.archive_id)
    return dropped


def _check_replaceable(
    workspace: Workspace, archive: Archive, catalog: str, identifier: str, owner: str | None, *, replace: bool
) -> None:
    """Raises WrongState unless the table may be dropped: nats3 made it, the caller asked for it, and no archive of this
    catalog that is not deleted has it."""
    what = f"The Iceberg catalog {catalog} has a table {identifier}, which is not of archive {archive.name}"
    rows = [t for t in workspace.catalog.tables.all() if (t.catalog, t.identifier) == (catalog, identifier)]
    if owner is None or any(not t.archive_deleted for t in rows):
        raise WrongState(what, "Choose another name for the table")
    if not replace:
        raise WrongState(f"{what}, but of another one that nats3 archived", Next.REPLACE_TABLE(archive=archive.name))


def _identifier(text: str) -> str:
    """Raises OperatorError unless it is a namespace and a name that every engine takes."""
    if not re.fullmatch(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+", text) or len(text) > 200:
        raise OperatorError(
            f"{text!r} is not the name of a table",
            "Write it as namespace.name, of letters, digits and _",
            field="table",
        )
    return text


def _location(workspace: Workspace, archive: Archive) -> str:
    """Returns a location outside of the chunks' folders, so that nothing that cleans up a table's folder comes upon a
    chunk."""
    from nats3_dagster.tables.layout import location

    spec = archive.spec
    if set(spec.prefix) & set("?#%"):
        raise OperatorError(
            f"The prefix {spec.prefix!r} has a character that the address of a table's file cannot have: ? # or %",
            "An archive with another prefix can have a table",
        )
    return location(workspace.settings, spec.bucket, "/".join(filter(None, (spec.prefix, "iceberg", spec.name))))


def verify(workspace: Workspace, known: ArchiveTable) -> Comparison:
    """Every difference between the table and the archive as they are now. The objects themselves are not read. Raises
    TableError, CatalogError."""
    with opened(workspace.settings, known.catalog) as catalog:
        return compare(workspace, known, load(catalog, known))


def inspect(workspace: Workspace, known: ArchiveTable) -> tuple[Observation, Comparison]:
    """Returns the effects of another program on the table, and every difference. Only the guard of the chunks is
    changed: gc.enabled is set to false where it is not. Raises TableError, CatalogError."""
    return observe_one(workspace, known), verify(workspace, known)

"""`nats3 store copy`: the other buckets of an archive get what is missing there."""

from typing import Annotated

import typer

from nats3_dagster.archive.stored import copies, copy_check
from nats3_dagster.cli.terminal.options import ArchiveName, Output
from nats3_dagster.cli.terminal.output import Columns, Format, Size, show
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.documents.keeping import CopiedObjects
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def copy(
    name: ArchiveName,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Read every object of the copies, and put again what is missing or damaged there."
        ),
    ] = False,
    forget: Annotated[
        str | None,
        typer.Option(
            "--forget",
            metavar="BUCKET",
            help="Forget a former copy whose bucket is gone for good. Erasures look there else.",
        ),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Copy what is missing in the other buckets of an archive, and remove there what its first bucket lost.

    Seals copy the chunks of their hour by themselves; what was there before the setting copies, and removals, wait for
    this command."""
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)
        if forget is not None:
            copies.forget(workspace, archive, forget)
            note(f"The former copy in the bucket {forget!r} is forgotten")
            return
        copies.require_copies(archive)
        done = copies.copy(workspace, archive)
        checked = copy_check.check_copies(workspace, archive) if verify else ()
    found = CopiedObjects.of_all(archive.name, done, checked)
    show(output, [one.plain() for one in found], {**_COPIED, **(_VERIFIED if verify else {})})


_COPIED: Columns = {
    "BUCKET": lambda c: c["bucket"],
    "OBJECTS": lambda c: c["objects"],
    "SIZE": lambda c: Size(c["bytes"]),
    "REMOVED": lambda c: c["removed"],
}
_VERIFIED: Columns = {"VERIFIED": lambda c: c["verified"], "MENDED": lambda c: c["mended"]}

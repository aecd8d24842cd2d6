"""`nats3 store copy`: the other buckets of an archive get what is missing there."""

from nats3_dagster.archive.stored import copies
from nats3_dagster.cli.terminal.options import ArchiveName, Output
from nats3_dagster.cli.terminal.output import Columns, Format, Size, show
from nats3_dagster.documents.keeping import CopiedObjects
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def copy(name: ArchiveName, output: Output = Format.table) -> None:
    """Copy what is missing in the other buckets of an archive, and remove there what its first bucket lost.

    Seals copy the chunks of their hour by themselves; what was there before the setting copies, and removals, wait for
    this command."""
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)
        copies.require_copies(archive)
        done = copies.copy(workspace, archive)
    show(output, [CopiedObjects.of(archive.name, one).plain() for one in done], _COPIED)


_COPIED: Columns = {
    "BUCKET": lambda c: c["bucket"],
    "OBJECTS": lambda c: c["objects"],
    "SIZE": lambda c: Size(c["bytes"]),
    "REMOVED": lambda c: c["removed"],
}

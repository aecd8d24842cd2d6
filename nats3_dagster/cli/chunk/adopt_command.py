"""`nats3 chunk adopt`: messages of objects that no chunk lists become part of the archive."""

from nats3_dagster.archive.proof.unlisted import adopt_unlisted, examine, unlisted_orphans
from nats3_dagster.cli.terminal.options import ArchiveName, Output
from nats3_dagster.cli.terminal.output import Format, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.documents.proofs import AdoptedMessages
from nats3_dagster.errors import ChunkError
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace


def adopt(name: ArchiveName, output: Output = Format.table) -> None:
    """Adopt absent messages of an archive from objects in its bucket that no chunk lists, as after a catalog was
    restored from a backup; also what an archive of this name had that was deleted without --purge. What the stream
    contradicts is left out, and named. Exit status 1 if messages are left."""
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)
        orphans = unlisted_orphans(workspace, archive)
        with followed(workspace, archive.name):
            adopted = adopt_unlisted(workspace, archive, orphans)
        unlisted = list(examine(workspace, archive, orphans))
    for item in unlisted:
        if item.reason:
            note(f"Not adopted: {item.key}: {item.reason}")
    result = AdoptedMessages.of(name, adopted, unlisted)
    view = result.plain()
    show_one(output, view, view)
    if result.missing:
        raise ChunkError(
            f"{result.missing:,} messages of {result.unlisted:,} objects are still not in archive {name}: other "
            "commits came between, or they were not captured yet",
            f"Run it again, or capture: {Next.CAPTURE(archive=name).command}",
        )

"""`nats3 store claim`: an archive becomes the owner of its folder in the bucket."""

from nats3_dagster.archive.stored import folder
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import ArchiveName, Output
from nats3_dagster.cli.terminal.output import Format, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.documents.archives import ClaimedFolder
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


def claim(name: ArchiveName, yes: Yes = False, output: Output = Format.table) -> None:
    """Make an archive the owner of its folder in its bucket, copies and former copies, even if another one owns it
    now. Needed after a bucket was restored from an older copy, or moved, or after a rebuild. Objects are not changed;
    those that are missing are named by `nats3 chunk verify`."""
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)
        buckets = folder.claimable(workspace, archive)
        where = f"the bucket {buckets[0]}" if len(buckets) == 1 else f"the buckets {', '.join(buckets)}"
        confirm(f"Archive {archive.name} becomes the owner of its folder in {where}", yes)
        for bucket in buckets:
            folder.claim(workspace, archive, take_over=True, bucket_name=bucket)
    view = ClaimedFolder.of(archive).plain()
    show_one(output, view, view)
    verify = Next.VERIFY(archive=name).command
    note(f"Archive {archive.name} owns its folder. To see whether its objects are there: {verify}")

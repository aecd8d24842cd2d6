"""What the processes of copy_faults do: they copy, repair, and read an archive that has a copy."""

from nats3_dagster.archive.proof.manifest_repair import repair_manifests
from nats3_dagster.archive.proof.repair import plan_repair, repair_all
from nats3_dagster.archive.proof.verify import chunks_to_verify, verify_chunks
from nats3_dagster.archive.stored import copies, copy_check
from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.errors import Nats3Error
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def copy(archive: str) -> int:
    """As `nats3 store copy`; the objects that were put into copies or removed there."""
    with Workspace(Settings.load()) as workspace:
        done = copies.copy(workspace, workspace.catalog.archives.get(archive))
        return sum(one.objects + one.removed for one in done)


def try_copy(archive: str) -> str:
    """The same beside others, or without the copy's bucket; what it was told, if it failed."""
    try:
        copy(archive)
    except Nats3Error as error:
        return str(error)
    return ""


def check(archive: str) -> int:
    """As `nats3 store copy --verify`; the objects that were put again."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        copies.copy(workspace, row)
        return sum(one.mended for one in copy_check.check_copies(workspace, row))


def repair(archive: str) -> int:
    """As `nats3 chunk repair`; the chunks that were put back."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        list(repair_manifests(workspace, row))
        bad = [one for one in verify_chunks(workspace, chunks_to_verify(workspace, row)) if one.error]
        return sum(one.done for one in repair_all(workspace, row, plan_repair(workspace, row, bad)))


def read(archive: str) -> list[int]:
    """The sequences of all messages of the archive, as replays fetch them."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        fetched = fetch_chunks(workspace.bucket, workspace.catalog.chunks.select(row), 2)
        return [
            seq for _, reader in fetched for batch in reader.batches(["seq"]) for seq in batch.column(0).to_pylist()
        ]

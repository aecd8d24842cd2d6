"""What processes of the faults of restored copies do, beside the jobs of jobs.py."""

from typing import NamedTuple

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.proof import repair as repairing
from nats3_dagster.archive.proof import unlisted, verify
from nats3_dagster.archive.stored import folder
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


class Examined(NamedTuple):
    """An object that no chunk lists."""

    key: str
    # Messages that the archive lacks.
    missing: int
    # Why the object is refused; empty where it is not.
    reason: str


def examine(archive: str) -> list[Examined]:
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        return [Examined(item.key, item.missing, item.reason) for item in unlisted.examine(workspace, row)]


def repair(archive: str, accept_loss: bool) -> list[str]:
    """Repair the bad chunks; the keys of those that were repaired."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        state = open_source(workspace, row).state
        checked = verify.verify_chunks(workspace, verify.chunks_to_verify(workspace, row))
        planned = repairing.plan_repair(workspace, row, [verified for verified in checked if verified.error])
        repaired = list(repairing.repair(workspace, row, state, planned, accept_loss=accept_loss))
        return [item.chunk.meta.key for item in repaired if item.done]


def claim(archive: str) -> None:
    """Make the archive the owner of its folder again."""
    with Workspace(Settings.load()) as workspace:
        folder.claim(workspace, workspace.catalog.archives.get(archive), take_over=True)

"""What the UI shows of an hour beside its messages: that it was compacted, is held, is copied, and what left it."""

import uuid

from nats3_dagster.archive import status
from nats3_dagster.archive.keep import erasure, holds
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.stored import copies, folder
from nats3_dagster.defs.assets.metadata import hour_metadata
from nats3_dagster.model import Selection, SeqRange
from nats3_dagster.objects import create_bucket
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.small_chunks import HOUR, compact, small
from nats3_dagster_tests.support.stored import LIFE, made


def test_an_hour_shows_what_happened_to_it(workspace: Workspace, bucket: str) -> None:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive, 3)

    def shown() -> dict[str, object]:
        metadata = hour_metadata(status.hour(workspace, archive, HOUR), workspace.settings)
        names = ("compacted", "holds", "missing_in_copies", "sequences_erased", "dagster/partition_row_count")
        return {name: metadata[name] for name in names if name in metadata}

    rows = "dagster/partition_row_count"
    assert shown() == {rows: 15}
    compact(workspace, archive)
    assert shown() == {rows: 15, "compacted": True}
    holds.place(workspace, "logs", "court", Selection(hours=(HOUR,)), "order 5")
    holds.place(workspace, "logs", "audit", Selection(), "order 6")
    assert shown() == {rows: 15, "compacted": True, "holds": "court, audit"}
    for name in ("court", "audit"):
        holds.release(workspace, "logs", name, "done")
    other = f"copy-{uuid.uuid4().hex[:12]}"
    create_bucket(workspace.settings.store, other)
    archive = change(workspace, "logs", {"copies": (other,)}).after
    assert shown() == {rows: 15, "compacted": True, "missing_in_copies": 2}
    copies.copy(workspace, archive)
    assert shown() == {rows: 15, "compacted": True, "missing_in_copies": 0}
    erasure.erase(workspace, archive, {LIFE: (SeqRange(2, 4),)}, reason="case 17", chosen_by=["sequences"])
    # Sealed again, and not looked at by a compaction since.
    assert shown() == {rows: 12, "sequences_erased": 3, "missing_in_copies": 0}

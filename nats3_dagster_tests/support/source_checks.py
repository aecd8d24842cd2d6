"""An archive that lacks messages of its stream, and the comparison of both."""

from typing import Any

import pyarrow as pa

from nats3_dagster.archive.captures import read as reading
from nats3_dagster.archive.proof.source_check import Compared, compare
from nats3_dagster.chunks import open_chunk
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import captures
from nats3_dagster_tests.support.wire import Wire


def capture_without(workspace: Workspace, archive: Archive, wire: Wire, monkeypatch: Any, *lost: int) -> None:
    """Capture as a read does that does not see some messages."""
    planned = captures.plan(workspace, archive, wire)
    read = reading.read_batches

    def short(*args: Any) -> Any:
        for batch in read(*args):
            yield batch.filter(pa.array([seq not in lost for seq in batch.column("seq").to_pylist()]))

    with monkeypatch.context() as patch:
        patch.setattr(reading, "read_batches", short)
        outcomes = captures.read(workspace, planned)
    captures.commit.commit(workspace, planned, outcomes)


def differences(workspace: Workspace, archive: Archive) -> list[Compared]:
    return [c for c in compare(workspace, archive) if c.wrong or c.different]


def payloads(workspace: Workspace, archive: Archive) -> list[int]:
    live = [c.meta for c in workspace.catalog.chunks.select(archive)]
    readers = [open_chunk(workspace.bucket(m.bucket).get(m.key), m) for m in live]
    return [int(d) for r in readers for batch in r.batches(["data"]) for d in batch.column("data").to_pylist()]

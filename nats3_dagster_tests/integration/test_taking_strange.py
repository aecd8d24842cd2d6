"""Messages that are legal in NATS and strange elsewhere are taken from a work queue exactly, and acknowledged."""

from nats3_dagster.archive.stored.fetch import fetch_each
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.taking import QUEUE, STRANGE, gaps, left, make, run
from nats3_dagster_tests.support.wire import Wire

BLOCKS = [b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: \xff\xfe\r\n\r\n", b"NATS/1.0\r\nno colon\r\n\r\n", b"\0\xff\r\n"]


def test_strange_messages_are_taken_exactly(workspace: Workspace, wire: Wire, bucket: str) -> None:
    largest = 1 << 20
    sent = [
        *((b"jobs." + token, b"", b"%d" % n) for n, token in enumerate(STRANGE)),
        *((b"jobs.h", block, b"$JS.ACK.x MSG jobs 1 2\r\n") for block in BLOCKS),
        *((b"jobs.large", b"", b"%d" % n * largest) for n in range(9)),
    ]
    wire.create_stream("JOBS", "jobs.>", **QUEUE)
    archive = make(workspace, bucket)
    wire.publish(sent)
    assert run(workspace, archive).messages == len(sent)
    assert (left(wire), wire.state("JOBS")["messages"], gaps(workspace, archive)) == ((0, 0), 0, [])
    taken: list[tuple[bytes, bytes, bytes]] = []
    for _, reader in fetch_each(workspace.bucket, workspace.catalog.chunks.select(archive), 1):
        for batch in reader.result().batches(["subject", "subject_bytes", "headers", "data"]):
            for row in batch.to_pylist():
                subject = row["subject_bytes"] or row["subject"].encode()
                taken.append((subject, row["headers"] or b"", row["data"]))
    assert taken == sent

"""An archive with one chunk, its damage and its repair."""

import time
from collections.abc import Sequence
from typing import Any

from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.captures.read import RangeCapture
from nats3_dagster.archive.proof.repair import Repair, Repaired, plan_repair, repair
from nats3_dagster.archive.proof.verify import chunks_to_verify, verify_chunks
from nats3_dagster.archive.stored import folder
from nats3_dagster.hours import hour_of
from nats3_dagster.model import Archive, ArchiveSpec, Chunk
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import plan_hours
from nats3_dagster_tests.support.wire import Wire

MESSAGES = [(f"ev.{n}", b"", b"%d" % n) for n in range(100)]


def make_events(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """An archive with one chunk of 100 messages, of a stream that keeps one message for each subject."""
    wire.create_stream("EV", "ev.>", max_msgs_per_subject=1)
    wire.publish(MESSAGES)
    archive = workspace.catalog.archives.create(ArchiveSpec("events", "EV", bucket), _observed(workspace))
    folder.claim(workspace, archive)
    planned = plan_hours(workspace, archive, [hour_of(time.time_ns())])
    (window,) = planned.spans
    commit.commit(workspace, planned, list(RangeCapture(planned.job, window, workspace.link).outcomes()))
    return archive


def _observed(workspace: Workspace) -> Any:
    from nats3_dagster.jetstream.streams import stream_state

    return stream_state(workspace.link, "EV")


def live(workspace: Workspace, archive: Archive) -> list[Chunk]:
    return list(workspace.catalog.chunks.select(archive))


def damage(s3_client: Any, chunk: Chunk) -> bytes:
    data = bytearray(s3_client.get_object(Bucket=chunk.meta.bucket, Key=chunk.meta.key)["Body"].read())
    data[len(data) // 2] ^= 1
    s3_client.put_object(Bucket=chunk.meta.bucket, Key=chunk.meta.key, Body=bytes(data))
    return bytes(data)


def stored(s3_client: Any, bucket: str) -> dict[str, bytes]:
    items = s3_client.list_objects_v2(Bucket=bucket).get("Contents", [])
    keys = [item["Key"] for item in items if "/_" not in item["Key"]]
    return {key: s3_client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


def planned(workspace: Workspace, archive: Archive) -> Repair:
    bad = [v for v in verify_chunks(workspace, chunks_to_verify(workspace, archive)) if v.error]
    return plan_repair(workspace, archive, bad)


def repaired(workspace: Workspace, archive: Archive, plan: Repair, **how: bool) -> Sequence[Repaired]:
    return list(repair(workspace, archive, open_source(workspace, archive).state, plan, **how))

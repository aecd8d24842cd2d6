"""Repair: what could be restored is never destroyed, and a good object is never deleted."""

from typing import Any

import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.proof.repair import Repair, repair
from nats3_dagster.archive.proof.verify import find_holes
from nats3_dagster.archive.stored import folder
from nats3_dagster.catalog.contents.chunks import Chunks
from nats3_dagster.chunks import ChunkWriter, open_chunk
from nats3_dagster.chunks.columns import as_wire
from nats3_dagster.errors import StoreError
from nats3_dagster.model import Archive, SeqRange
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.adoption import archive_of
from nats3_dagster_tests.support.captures import capture
from nats3_dagster_tests.support.repairs import MESSAGES, damage, live, make_events, planned, repaired, stored
from nats3_dagster_tests.support.taking import content, durable, left, make, numbers, run
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def events(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    return make_events(workspace, wire, bucket)


def test_what_the_stream_no_longer_has_is_given_up_only_when_asked(
    workspace: Workspace, events: Archive, wire: Wire, s3_client: Any, bucket: str
) -> None:
    """The damaged object may be the last copy that a copy of the bucket can restore."""
    (before,) = live(workspace, events)
    bad = damage(s3_client, before)
    wire.publish(MESSAGES[:60])
    (one,) = repaired(workspace, events, planned(workspace, events))
    assert (one.done, one.messages, one.lost) == (False, 40, 60)
    assert live(workspace, events) == [before]
    assert stored(s3_client, bucket) == {before.meta.key: bad}

    (one,) = repaired(workspace, events, planned(workspace, events), accept_loss=True)
    assert (one.done, one.lost) == (True, 60)
    after = live(workspace, events)
    assert [c.meta.messages for c in after] == [40]
    assert set(stored(s3_client, bucket)) == {after[0].meta.key}
    assert planned(workspace, events) == Repair((), ())
    incarnation, covers = before.meta.incarnation, before.meta.covers
    assert workspace.catalog.coverage.missing(events, incarnation, covers) == ()


@pytest.mark.parametrize("accept_loss", [False, True])
def test_unlisted_objects_are_asked_before_messages_are_given_up(
    workspace: Workspace, events: Archive, wire: Wire, s3_client: Any, bucket: str, accept_loss: bool
) -> None:
    """The catalog was restored: an object of a chunk that it forgot holds what the stream no longer has."""
    (before,) = live(workspace, events)
    data = next(iter(stored(s3_client, bucket).values()))
    reader = open_chunk(data, before.meta)
    writer = ChunkWriter("events", before.meta.incarnation, before.meta.hour, bucket, "", 3, reader.footer.config)
    for batch in reader.batches(seqs=SeqRange(1, 50)):
        writer.write(as_wire(batch))
    forgotten, meta = writer.finish(SeqRange(1, 50), "deleted")
    workspace.bucket(bucket).put_new(meta.key, forgotten, meta.sha256)
    damage(s3_client, before)
    wire.publish(MESSAGES[: 60 if accept_loss else 50])
    (one,) = repaired(workspace, events, planned(workspace, events), accept_loss=accept_loss)
    assert (one.done, one.lost) == (True, 10 if accept_loss else 0)
    assert sum(chunk.meta.messages for chunk in live(workspace, events)) == 100 - one.lost
    assert planned(workspace, events) == Repair((), ())
    assert find_holes(workspace, events).sequences == 0


def test_what_is_given_up_between_two_messages_is_lost(
    workspace: Workspace, events: Archive, wire: Wire, s3_client: Any
) -> None:
    """Somebody deleted it in the stream, and nobody in the archive."""
    (before,) = live(workspace, events)
    damage(s3_client, before)
    first = before.meta.covers.first
    for seq in (first + 1, first + 7):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    (one,) = repaired(workspace, events, planned(workspace, events), accept_loss=True)
    assert (one.done, one.lost) == (True, 2)
    (after,) = live(workspace, events)
    assert (after.meta.absent_reason, after.meta.lost) == ("damaged", 2)
    assert find_holes(workspace, events).losses["damaged"] == 2


def test_under_a_filter_every_absent_sequence_counts_as_lost(
    workspace: Workspace, wire: Wire, s3_client: Any, bucket: str
) -> None:
    """What else was not selected there cannot be told from what was removed: five of ten sequences are `ev.1`."""
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"x") for n in range(10)])
    archive = archive_of(workspace, bucket, "ev.1")
    capture(workspace, archive, wire)
    (before,) = live(workspace, archive)
    damage(s3_client, before)
    wire.api("STREAM.MSG.DELETE.EV", seq=4)
    (one,) = repaired(workspace, archive, planned(workspace, archive), accept_loss=True)
    assert (one.done, one.lost) == (True, 1)
    (after,) = live(workspace, archive)
    assert (after.meta.messages, after.meta.absent_reason, after.meta.lost) == (4, "damaged", 6)


def test_without_an_owner_object_nothing_is_written(
    workspace: Workspace, events: Archive, s3_client: Any, bucket: str
) -> None:
    """It may be another store: one that is not mounted."""
    (before,) = live(workspace, events)
    s3_client.delete_object(Bucket=bucket, Key=before.meta.key)
    plan = planned(workspace, events)
    s3_client.delete_object(Bucket=bucket, Key=folder.owner_key(archive_prefix(events.spec.prefix, events.name)))
    with pytest.raises(StoreError, match="owner object is missing"):
        repaired(workspace, events, plan)
    assert stored(s3_client, bucket) == {}


@pytest.mark.parametrize("how", ["damaged", "deleted"])
def test_the_same_bytes_are_put_again(
    workspace: Workspace, events: Archive, s3_client: Any, bucket: str, how: str
) -> None:
    (before,) = live(workspace, events)
    good = stored(s3_client, bucket)
    if how == "damaged":
        damage(s3_client, before)
    else:
        s3_client.delete_object(Bucket=bucket, Key=before.meta.key)
    (one,) = repaired(workspace, events, planned(workspace, events))
    assert (one.done, one.lost) == (True, 0)
    assert live(workspace, events) == [before]
    assert stored(s3_client, bucket) == good


@pytest.mark.parametrize("changed", [False, True], ids=["same key", "other key"])
def test_of_two_repairs_at_once_the_good_object_survives(
    workspace: Workspace, events: Archive, wire: Wire, s3_client: Any, bucket: str, changed: bool
) -> None:
    (before,) = live(workspace, events)
    damage(s3_client, before)
    if changed:  # the stream's configuration is in each chunk
        config = wire.api("STREAM.INFO.EV")["config"]
        wire.api("STREAM.UPDATE.EV", **{**config, "max_msg_size": 5000})
    first, second = planned(workspace, events), planned(workspace, events)
    assert [one.done for one in repaired(workspace, events, first)] == [True]
    (late,) = repaired(workspace, events, second)
    assert late.conflict
    assert f"chunk {before.id}" in late.conflict.what.lower()
    (after,) = live(workspace, events)
    assert (after.meta.key != before.meta.key) is changed
    assert set(stored(s3_client, bucket)) == {after.meta.key}
    assert planned(workspace, events) == Repair((), ())


def test_killed_before_the_commit(
    workspace: Workspace, events: Archive, wire: Wire, s3_client: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = live(workspace, events)
    bad = damage(s3_client, before)
    wire.publish(MESSAGES[:60])
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Chunks, "replace", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        repaired(workspace, events, planned(workspace, events), accept_loss=True)
    assert live(workspace, events) == [before]
    assert stored(s3_client, bucket)[before.meta.key] == bad
    assert [one.done for one in repaired(workspace, events, planned(workspace, events), accept_loss=True)] == [True]
    assert len(stored(s3_client, bucket)) == 1


def test_a_chunk_of_a_stream_that_is_gone(
    workspace: Workspace, events: Archive, wire: Wire, s3_client: Any, bucket: str
) -> None:
    (before,) = live(workspace, events)
    damage(s3_client, before)
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    plan, state = planned(workspace, events), open_source(workspace, events, adopt=True).state
    (one,) = repair(workspace, events, state, plan)
    assert (one.done, one.lost) == (False, 100)
    (one,) = repair(workspace, events, state, plan, accept_loss=True)
    assert (one.done, live(workspace, events), stored(s3_client, bucket)) == (True, [], {})
    (gap,) = workspace.catalog.gaps.select(events)
    assert (gap.reason, gap.size) == ("missing", 100)
    ((placed,),) = (part.gaps for part in workspace.catalog.hours.parts(events, before.meta.hour))
    assert placed.first_hour == placed.last_hour == before.meta.hour


def test_what_an_interest_stream_keeps_for_others_repairs_an_archive_that_takes_from_it(
    workspace: Workspace, wire: Wire, s3_client: Any, bucket: str
) -> None:
    wire.create_stream("JOBS", "jobs.>", retention="interest")
    durable(wire, "worker")
    archive = make(workspace, bucket)
    wire.publish(numbers(1, 100))
    run(workspace, archive)
    (chunk,) = live(workspace, archive)
    damage(s3_client, chunk)
    (one,) = repaired(workspace, archive, planned(workspace, archive))
    assert (one.done, one.messages, one.lost) == (True, 100, 0)
    assert [int(data) for _, data in content(workspace, archive)] == list(range(1, 101))
    assert left(wire, "worker") == (100, 0)

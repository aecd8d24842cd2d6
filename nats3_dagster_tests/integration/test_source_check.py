"""An archive compared with its stream: what is wrongly absent is found, and put into the archive."""

from typing import Any

import pyarrow as pa
import pytest

from nats3_dagster.archive.captures import read as reading
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.source_check import compare, correct
from nats3_dagster.jetstream.read.leader_read import messages_of
from nats3_dagster.model import Archive, ArchiveSpec, Gap, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import captures
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.source_checks import capture_without, differences, payloads
from nats3_dagster_tests.support.taking import durable, make, numbers, run
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def archive(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"NATS/1.0\r\nN: 1\r\n\r\n" if n % 3 else b"", b"%d" % n) for n in range(1, 101)])
    return create(workspace, ArchiveSpec("events", "EV", bucket))


def test_an_archive_that_is_right_differs_in_nothing(workspace: Workspace, archive: Archive, wire: Wire) -> None:
    for seq in (3, 4, 100):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    captures.capture(workspace, archive, wire)
    wire.api("STREAM.MSG.DELETE.EV", seq=50)
    wire.publish([("ev.a", b"", b"101")])
    assert [(c.seqs, c.messages, c.wrong, c.different) for c in compare(workspace, archive)] == [((1, 100), 96, (), ())]


def test_what_a_chunk_says_is_absent_is_put_into_it(
    workspace: Workspace, archive: Archive, wire: Wire, monkeypatch: Any
) -> None:
    wire.api("STREAM.MSG.DELETE.EV", seq=60)
    capture_without(workspace, archive, wire, monkeypatch, 41, 42, 77)
    (old,) = workspace.catalog.chunks.select(archive)
    wire.api("STREAM.MSG.DELETE.EV", seq=10)  # the archive alone has it, and keeps it
    (found,) = differences(workspace, archive)
    assert (found.wrong, found.different) == (((41, 42), (77, 77)), ())
    assert correct(workspace, archive, found) == 3
    assert payloads(workspace, archive) == [n for n in range(1, 101) if n != 60]
    (new,) = workspace.catalog.chunks.select(archive, with_deleted=True)
    assert (new.meta.covers, new.meta.deleted, new.meta.absent_reason) == ((1, 100), ((60, 60),), "deleted")
    assert not workspace.bucket(old.meta.bucket).exists(old.meta.key)
    assert differences(workspace, archive) == []


def test_messages_in_a_gap_are_put_in_its_place(workspace: Workspace, archive: Archive, wire: Wire) -> None:
    (incarnation,) = workspace.catalog.coverage.incarnations(archive)
    wire.api("STREAM.MSG.DELETE.EV", seq=30)
    workspace.catalog.chunks.commit(archive, [], [Gap(incarnation, (SeqRange(1, 20), SeqRange(28, 40)), "expired")])
    wire.api("STREAM.PURGE.EV", seq=15)
    captures.capture(workspace, archive, wire)
    found = differences(workspace, archive)
    assert [(c.reason, c.wrong) for c in found] == [("expired", ((15, 20),)), ("expired", ((28, 29), (31, 40)))]
    assert [correct(workspace, archive, c) for c in found] == [6, 12]
    assert payloads(workspace, archive) == [n for n in range(15, 101) if n != 30]
    assert [(g.reason, g.ranges) for g in workspace.catalog.gaps.select(archive)] == [("expired", ((1, 14),))]
    assert workspace.catalog.coverage.of(archive, incarnation).lost == {"expired": 1}


def test_other_messages_under_the_same_sequences_are_found(
    workspace: Workspace, archive: Archive, wire: Wire, monkeypatch: Any
) -> None:
    planned = captures.plan(workspace, archive, wire)
    read = reading.read_batches

    def other(*args: Any) -> Any:
        for batch in read(*args):
            data = batch.column("data").to_pylist()
            data[4] = b"x"
            at = batch.schema.get_field_index("data")
            yield batch.set_column(at, batch.schema.field(at), pa.array(data, pa.binary()))

    with monkeypatch.context() as patch:
        patch.setattr(reading, "read_batches", other)
        outcomes = captures.read(workspace, planned)
    captures.commit.commit(workspace, planned, outcomes)
    assert [(c.wrong, c.different) for c in differences(workspace, archive)] == [((), ((5, 5),))]


def test_the_command_finds_and_repairs(
    workspace: Workspace, archive: Archive, wire: Wire, monkeypatch: Any, nats3: Command
) -> None:
    capture_without(workspace, archive, wire, monkeypatch, 41)
    assert nats3.ok("chunk", "verify", "events", "-o", "json").json["source"] is None
    ran = nats3("chunk", "verify", "events", "--source", "-o", "json")
    assert ran.status == 1
    assert ran.json["source"] == {"messages": 100, "wrongly_absent": 1, "different": 0, "repaired": 0}
    assert ran.error == (
        "Error: Stream EV has 1 messages that archive events says are absent. "
        "Put them into the archive: nats3 chunk verify events --source --repair"
    )
    assert nats3.ok("chunk", "verify", "events", "--source", "--repair", "-o", "json").json["source"]["repaired"] == 1
    assert nats3.ok("chunk", "verify", "events", "--source", "-o", "json").json["source"]["wrongly_absent"] == 0
    assert nats3.refused("chunk", "verify", "events", "--repair").startswith("2 Error: --repair goes with --source")


def test_a_gap_that_is_right_differs_in_nothing(workspace: Workspace, archive: Archive, wire: Wire) -> None:
    planned = captures.plan(workspace, archive, wire)
    for seq in range(40, 51):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    outcomes = captures.read(workspace, planned)
    gap = Gap(planned.job.state.incarnation, (SeqRange(101, 102),), "deleted")
    captures.commit.commit(workspace, planned, [*outcomes, gap])
    wire.publish([("ev.a", b"", b"x")] * 3)
    for seq in (101, 102):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    (compared,) = [c for c in compare(workspace, archive) if c.reason]
    assert (compared.seqs, compared.messages, compared.found.num_rows) == ((101, 102), 0, 0)


def test_an_archive_of_a_work_queue_is_compared_with_what_is_left(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """Another worker's messages are still there, and the queue refuses a consumer for those of the archive."""
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    archive = make(workspace, bucket, subjects=("jobs.1",))
    durable(wire, "worker", filter_subject="jobs.0")
    wire.publish(numbers(1, 100))
    run(workspace, archive)
    ((seqs, messages, wrong),) = [(c.seqs, c.messages, c.wrong) for c in compare(workspace, archive) if c.chunk]
    assert (seqs.last, messages, wrong) == (99, 0, ())
    wire.publish([("jobs.1", b"NATS/1.0\r\nA: b\r\n\r\n", b"new")])
    left = messages_of(workspace.link, open_source(workspace, archive).state.incarnation, SeqRange(1, 200), ("jobs.1",))
    ((row),) = left.to_pylist()
    assert (row["seq"], row["subject"], row["headers"], row["data"]) == (
        101,
        "jobs.1",
        b"NATS/1.0\r\nA: b\r\n\r\n",
        b"new",
    )

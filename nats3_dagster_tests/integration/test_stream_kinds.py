"""Streams of unusual kinds: which are archived, by which subjects, and which are refused."""

import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.proof.source_check import compare
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, ArchiveSpec, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import archived, capture
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.10")  # transforms, and streams that begin above 1


def archive_of(workspace: Workspace, bucket: str, *subjects: str, stream: str = "EV") -> Archive:
    return create(workspace, ArchiveSpec("events", stream, bucket, subjects=subjects))


def test_the_subjects_of_a_stream_that_transforms_are_those_it_stores(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    transform = {"src": "ev.in.>", "dest": "stored.>"}
    wire.create_stream("EV", "ev.in.>", "ev.other", subject_transform=transform)
    wire.publish([("ev.in.a", b"", b"x")] * 4)
    with pytest.raises(OperatorError, match="EV has no subject that 'ev.in.a' takes. It captures stored.>, ev.other"):
        archive_of(workspace, bucket, "ev.in.a")
    archive = archive_of(workspace, bucket, "stored.a")
    capture(workspace, archive, wire)
    assert archived(workspace, archive) == ([(1, 4)], 4, [])


def test_messages_from_before_a_transform_can_be_selected(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 4)
    config = wire.api("STREAM.INFO.EV")["config"]
    wire.api("STREAM.UPDATE.EV", **{**config, "subject_transform": {"src": "ev.>", "dest": "stored.>"}})
    archive = archive_of(workspace, bucket, "ev.a")
    capture(workspace, archive, wire)
    assert archived(workspace, archive) == ([(1, 4)], 4, [])


def test_a_filter_may_take_what_is_sourced(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("O", "o.>")
    wire.create_stream("EV", "ev.>", sources=[{"name": "O"}])
    archive_of(workspace, bucket, "o.a")


def test_sequences_that_no_float_holds(workspace: Workspace, wire: Wire, bucket: str) -> None:
    first = 2**53 + 3
    wire.create_stream("EV", "ev.>", first_seq=first)
    archive = archive_of(workspace, bucket)
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(10)])
    wire.api("STREAM.MSG.DELETE.EV", seq=first + 4)
    capture(workspace, archive, wire)
    assert archived(workspace, archive) == ([(first, first + 9)], 9, [])
    (chunk,) = workspace.catalog.chunks.select(archive, with_deleted=True)
    assert chunk.meta.deleted == (SeqRange(first + 4, first + 4),)
    assert not any(one.wrong or one.different for one in compare(workspace, archive))


@pytest.mark.parametrize("first", [2**62, 2**63 - 5, 2**63])
def test_sequences_of_which_a_server_has_no_messages_are_refused(
    workspace: Workspace, wire: Wire, bucket: str, first: int
) -> None:
    """A server acknowledges them, and a capture would find nothing, and say nothing."""
    wire.create_stream("EV", "ev.>", first_seq=first)
    with pytest.raises(OperatorError, match="NATS keeps no message in a file from 2.62 on"):
        archive_of(workspace, bucket)


def test_a_stream_that_reaches_them_is_an_error(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", first_seq=2**62 - 2)
    archive = archive_of(workspace, bucket)
    wire.publish([("ev.a", b"", b"x")] * 5)
    with pytest.raises(OperatorError, match="is at sequence"):
        open_source(workspace, archive)

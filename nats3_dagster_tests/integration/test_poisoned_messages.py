"""Messages that are legal in NATS and strange elsewhere stop nothing: they are archived and replayed as they are."""

from collections import Counter

import pytest

from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.errors import TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.encode import MAX_SUBJECT_BYTES
from nats3_dagster.model import ChunkResult, Order, Pace, ReplaySpec, Selection
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.job import shares
from nats3_dagster.replay.messages.republish import Republisher
from nats3_dagster.subjects import decoded, readable
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import plan_hours, read
from nats3_dagster_tests.support.replays import dry_run, pending
from nats3_dagster_tests.support.runs import archive_events, hours_of
from nats3_dagster_tests.support.taking import STRANGE
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def strange(wire: Wire, settings: object, bucket: str) -> list[bytes]:
    """Subjects of the stream EV, in order."""
    wire.create_stream("EV", "ev.>")
    subjects = [b"ev." + token for token in STRANGE]
    wire.publish([(subject, b"", b"%d" % n) for n, subject in enumerate(subjects)])
    return subjects


def capture_hour(workspace: Workspace, hour: str) -> CaptureResult:
    """What a run does, without Spark."""
    planned = plan_hours(workspace, workspace.catalog.archives.get("events"), [hour])
    outcomes = read(workspace, planned)
    (result,) = commit.commit(workspace, planned, outcomes)
    return result


def replay(workspace: Workspace, spec: ReplaySpec) -> int:
    """What a run does, without Spark; the messages published."""
    replay_id = begin(workspace, spec)[0].id
    with workspace.catalog.replays.lock(replay_id):
        begun = attempt.start(workspace, replay_id)
        results: list[ChunkResult] = []
        with Link(workspace.settings.nats) as link:
            for share in shares(begun.job, pending(workspace, replay_id), 2):
                results += [one for one in Republisher(share, link).results() if isinstance(one, ChunkResult)]
        done = attempt.record(workspace, begun.job, results, None)
    return sum(result.published for result in done)


def test_strange_subjects_are_archived(workspace: Workspace, wire: Wire, bucket: str, strange: list[bytes]) -> None:
    archive_events(workspace.settings, bucket)
    hour = hours_of(wire, "EV")[-1]
    assert capture_hour(workspace, hour).messages == len(strange)
    chunks = workspace.catalog.chunks.select(workspace.catalog.archives.get("events"), with_subjects=True)
    (chunk,) = chunks
    ((_, reader),) = fetch_chunks(workspace.bucket, [chunk], 1)
    (batch,) = reader.batches(["subject", "subject_bytes"])
    rows = batch.to_pylist()
    assert [row["subject_bytes"] or row["subject"].encode() for row in rows] == strange
    assert [row["subject"] for row in rows][:3] == ["ev.%FF", "ev.%FF", "ev.é.%FF%FE"]
    assert reader.verify().subjects == Counter(decoded(subject) for subject in strange)


@pytest.mark.parametrize("order", ["stream", "subject"])
@pytest.mark.parametrize("batched", [False, pytest.param(True, marks=pytest.mark.needs_nats("2.14"))])
def test_strange_subjects_come_back(
    workspace: Workspace, wire: Wire, bucket: str, strange: list[bytes], batched: bool, order: Order
) -> None:
    archive_events(workspace.settings, bucket)
    capture_hour(workspace, hours_of(wire, "EV")[-1])
    wire.create_stream("BACK", "back.>", **({"allow_batched": True} if batched else {}))
    with Wire(workspace.settings.nats.servers[0]) as listener:
        listener.listen("back.>")
        spec = ReplaySpec("events", "back.>", Selection(subjects=("ev.>",)), order=order, pace=Pace(rate=1000))
        assert replay(workspace, spec) == len(strange)
        heard = listener.heard(len(strange))
    expected = [b"back." + subject.removeprefix(b"ev.") for subject in strange]
    assert heard == expected if order == "stream" else Counter(heard) == Counter(expected)
    assert wire.state("BACK")["messages"] == len(strange)


def test_a_filter_selects_by_the_bytes(workspace: Workspace, wire: Wire, bucket: str, strange: list[bytes]) -> None:
    archive_events(workspace.settings, bucket)
    capture_hour(workspace, hours_of(wire, "EV")[-1])
    wire.create_stream("BACK", "back.>")
    with Wire(workspace.settings.nats.servers[0]) as listener:
        listener.listen("back.>")
        spec = ReplaySpec("events", "back.{{right(1,1)}}", Selection(subjects=("ev.*",)))
        assert replay(workspace, spec) == len(strange) - 1
        last_bytes = [subject[-1:] for subject in strange if subject.count(b".") == 1]
        assert listener.heard(len(last_bytes)) == [b"back." + byte for byte in last_bytes]
    by_name = ReplaySpec("events", "back.x", Selection(subjects=("ev.%FF",)))
    # The text that is shown for it takes every subject of that text.
    assert replay(workspace, by_name) == sum(readable(decoded(subject)) == "ev.%FF" for subject in strange)


def test_a_subject_too_long_to_be_published_is_refused_in_the_plan(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """The server would hang up, in the middle of the replay, time and again."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    longest = MAX_SUBJECT_BYTES - len("back.")
    wire.publish([("ev." + "a" * longest, b"", b"1")])
    archive_events(workspace.settings, bucket)
    capture_hour(workspace, hours_of(wire, "EV")[-1])
    spec = ReplaySpec("events", "back.>", Selection(subjects=("ev.>",)))
    assert replay(workspace, spec) == 1
    wire.publish([("ev." + "b" * (longest + 1), b"", b"2")])
    capture_hour(workspace, hours_of(wire, "EV")[-1])
    with pytest.raises(TargetError, match=f"has {MAX_SUBJECT_BYTES + 1} bytes"):
        dry_run(workspace, spec)


def test_a_stream_whose_description_has_a_nul_is_archived(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", description="a\0b", metadata={"k\0": "v\0"})
    wire.publish([("ev.a", b"", b"1")])
    archive_events(workspace.settings, bucket)
    assert capture_hour(workspace, hours_of(wire, "EV")[-1]).messages == 1

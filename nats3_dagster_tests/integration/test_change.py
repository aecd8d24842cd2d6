"""Changing an archive: what may change, what may not and why, and two who change it at once."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from nats3_dagster.archive.lifecycle import change as changing
from nats3_dagster.archive.lifecycle.change import change, differences
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import Conflict, OperatorError, Unknown
from nats3_dagster.model import Archive, ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import chunk, spec, state
from nats3_dagster_tests.support.races import errors, meet, race
from nats3_dagster_tests.support.wire import Wire

INSTEAD = "Make another archive for it under another name; pause or delete this one, whose objects stay"


@pytest.fixture
def two(settings: Settings) -> Iterator[tuple[Workspace, Workspace]]:
    """What two processes have: connections of their own."""
    with ExitStack() as stack:
        yield stack.enter_context(Workspace(settings)), stack.enter_context(Workspace(settings))


@pytest.fixture
def logs(two: tuple[Workspace, Workspace]) -> Archive:
    """An archive `logs` of which nothing is captured."""
    return two[0].catalog.archives.create(spec(prefix="a", subjects=("logs.a",)), state())


def test_what_may_change_changes_together(two: tuple[Workspace, Workspace], logs: Archive) -> None:
    wanted = {"max_messages": 5, "max_bytes": 6, "max_age_s": 7, "zstd_level": 8, "paused": True, "stream": "LOGS"}
    done = change(two[0], "logs", wanted)
    assert done.before == logs
    assert [(one.field, one.old, one.new) for one in done.differences] == [
        ("max_messages", 1_000_000, 5),
        ("max_bytes", 64 << 20, 6),
        ("max_age_s", 30, 7),
        ("zstd_level", 3, 8),
        ("paused", False, True),
    ]
    assert done.after == two[1].catalog.archives.get("logs")
    assert done.after.spec == spec(
        prefix="a", subjects=("logs.a",), max_messages=5, max_bytes=6, max_age_s=7, zstd_level=8
    )
    assert done.after.paused
    again = change(two[0], "logs", wanted)
    assert (again.differences, again.after) == ((), done.after)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("name", "other", "from logs to other: its objects and its assets are named by it"),
        ("stream", "EV", "from LOGS to EV: what it has is counted by the sequences of its stream"),
        ("bucket", "other", "from archive to other: its chunks are there, and its objects are looked for there"),
        ("prefix", "", "from a to none: its chunks are there, and its objects are looked for there"),
        ("mode", "consumer", "from stream to consumer: what it has was read, or taken and acknowledged, in this way"),
        ("durable", "mine", "from none to mine: what it has is counted by what its consumer delivered"),
    ],
)
def test_what_may_not_change_is_refused_with_the_reason(
    two: tuple[Workspace, Workspace], logs: Archive, field: str, value: Any, text: str
) -> None:
    with pytest.raises(OperatorError) as refused:
        change(two[0], "logs", {"max_messages": 5, field: value})
    assert str(refused.value) == f"{field} of archive logs cannot change {text}. {INSTEAD}"
    assert two[0].catalog.archives.get("logs") == logs


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"max_messages": 0}, "max_messages is 0. Use 1 to 281,474,976,710,656"),
        ({"max_bytes": 5, "zstd_level": 23}, "zstd_level is 23. Use 1 to 22"),
        ({"max_mesages": 5}, "An archive has no field 'max_mesages'. It has name, stream"),
    ],
)
def test_an_invalid_value_changes_nothing(
    two: tuple[Workspace, Workspace], logs: Archive, wanted: dict[str, Any], text: str
) -> None:
    with pytest.raises(OperatorError, match=text):
        change(two[0], "logs", wanted)
    with pytest.raises(Unknown, match="There is no archive log"):
        change(two[0], "log", {"max_messages": 5})
    assert two[0].catalog.archives.get("logs") == logs


def test_of_two_changes_of_one_field_one_is_refused_and_changes_of_two_fields_are_both_made(
    two: tuple[Workspace, Workspace], logs: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        meet(patch, changing, "differences")
        results = race(
            lambda: change(two[0], "logs", {"max_messages": 5, "zstd_level": 5}),
            lambda: change(two[1], "logs", {"max_messages": 7, "max_age_s": 7}),
        )
    (refused,) = errors(results)
    assert isinstance(refused, Conflict)
    (made,) = [result for result in results if result is not refused]
    mine, theirs = made.after.spec.max_messages, 12 - made.after.spec.max_messages
    assert {mine, theirs} == {5, 7}
    assert refused.what == f"Another process changed archive logs: max_messages is {mine} now, and was 1000000"
    # All of the other one's change is left out, also of fields that nobody else changed.
    assert two[0].catalog.archives.get("logs") == made.after
    with monkeypatch.context() as patch:
        meet(patch, changing, "differences")
        results = race(
            lambda: change(two[0], "logs", {"max_bytes": 100}),
            lambda: change(two[1], "logs", {"max_bytes": 100, "paused": True}),
        )
    assert errors(results) == []
    both = two[0].catalog.archives.get("logs")
    assert (both.spec.max_bytes, both.paused, both.spec.max_messages) == (100, True, mine)


def test_a_commit_beside_a_change_is_no_conflict_and_a_delete_is(catalog: Catalog) -> None:
    """A capture changes the archive's row too, with every commit."""
    seen = catalog.archives.create(spec(), state())
    catalog.chunks.commit(seen, [chunk(1, 10)])
    assert catalog.archives.change(seen, spec(max_messages=5), paused=False).spec.max_messages == 5
    catalog.archives.delete("logs")
    catalog.archives.create(spec(), state())
    with pytest.raises(Conflict, match="Archive logs was deleted"):
        catalog.archives.change(seen, spec(max_messages=7), paused=False)
    assert catalog.archives.get("logs").spec.max_messages == 1_000_000


def test_a_consumer_that_could_not_deliver_a_chunk_is_named_before_the_change(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>", retention="workqueue")
    wire.api(
        "CONSUMER.DURABLE.CREATE.EV.mine",
        stream_name="EV",
        config={
            "durable_name": "mine",
            "ack_policy": "explicit",
            "max_ack_pending": 100,
            "ack_wait": 30_000_000_000,
        },
    )
    create(workspace, ArchiveSpec("a", "EV", bucket, mode="consumer", durable="mine", max_messages=100))
    assert change(workspace, "a", {"max_messages": 50}).after.spec.max_messages == 50
    with pytest.raises(OperatorError) as refused:
        change(workspace, "a", {"max_messages": 101})
    assert str(refused.value) == (
        "Consumer mine of stream EV allows 100 unacknowledged messages (max_ack_pending), and a chunk has up to 101: "
        "101 at least. Change the consumer first, or choose a smaller value"
    )
    assert workspace.catalog.archives.get("a").spec.max_messages == 50


def test_filters_that_say_the_same_are_no_difference(catalog: Catalog) -> None:
    some = catalog.archives.create(spec(subjects=("logs.a", "logs.b.>")), state())
    every = catalog.archives.create(spec("every"), state())
    assert differences(some, {"subjects": ("logs.b.>", "logs.a", "logs.b.*")}) == ()
    assert differences(every, {"subjects": ("logs.a", ">")}) == ()
    assert len(differences(every, {"subjects": ("logs.a",)})) == 1
    with pytest.raises(OperatorError, match="'logs..a' is not a subject filter"):
        differences(every, {"subjects": ("logs..a",)})

"""What a replay with `--delete-chunks` took out of an archive is said by every read of a selection that had it."""

import json
import re
from dataclasses import replace

import pytest

from nats3_dagster import Archive as Opened
from nats3_dagster.archive import status
from nats3_dagster.archive.keep import erasure
from nats3_dagster.archive.read import answers
from nats3_dagster.archive.selected.removed import Removed, removed
from nats3_dagster.archive.stored import folder
from nats3_dagster.documents.messages import MessagePage
from nats3_dagster.model import Archive, ChunkResult, ReplaySpec, Selection, SeqRange
from nats3_dagster.replay import control
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import ids
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.stored import Made, made, store

REPLAY, OTHER = "0123456789abcdef", "f" * 16
HOURS = ["2026-11-21-10:00", "2026-11-21-11:00", "2026-11-21-12:00"]
LINE = "Not in archive logs any more: {} messages of the selection, removed after replay {} had published them"


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive `logs` of three hours, 100 messages in each; two replays removed the first two hours."""
    archive = made(workspace, bucket, "logs", last=300)
    for hour, first in ((10, 1), (11, 101), (12, 201)):
        store(workspace, archive, hour, [Made(n, f"logs.{n % 2}", b"%d" % n) for n in range(first, first + 100)])
    chunks = workspace.catalog.chunks.select(archive)
    for replay_id, chunk in zip((REPLAY, OTHER), chunks[:2], strict=True):
        workspace.catalog.replays.begin(replay_id, archive, ReplaySpec("logs", delete_chunks=True), (), ids([chunk]))
        attempt = workspace.catalog.replays.start_attempt(replay_id)
        workspace.catalog.replay_chunks.record(replay_id, attempt, [ChunkResult(chunk.id, 100, 100, 0, 0)])
        workspace.catalog.replays.finish(replay_id, attempt, "succeeded")
        assert control.delete_chunks(workspace, replay_id) == 1
    return archive


def test_a_query_and_cat_say_what_was_removed(nats3: Command, archive: Archive) -> None:
    ran = nats3.ok("query", "logs", "SELECT count(*) AS n FROM messages", "-o", "json", "--hour", HOURS[0])
    assert json.loads(ran.out) == [{"n": 0}]
    assert ran.err.splitlines() == [LINE.format(100, REPLAY)]
    ran = nats3.ok("message", "cat", "logs", "-o", "json", "--sequences", "51-210", "--subject", "logs.1")
    assert [json.loads(line)["seq"] for line in ran.out.splitlines()] == [201, 203, 205, 207, 209]
    assert ran.err.splitlines() == [LINE.format("up to 100", REPLAY), LINE.format("up to 100", OTHER)]
    assert nats3.ok("message", "cat", "logs", "--hour", HOURS[2], "-o", "raw").err == ""


def test_a_selection_counts_what_it_would_have_had(workspace: Workspace, archive: Archive, settings: Settings) -> None:
    first, second = Removed("logs", "retired", REPLAY, 100, True), Removed("logs", "retired", OTHER, 100, True)
    cut = replace(first, is_exact=False)
    assert removed(workspace, archive, Selection()) == (first, second)
    assert removed(workspace, archive, Selection(subjects=(">",))) == (first, second)
    assert removed(workspace, archive, Selection(hours=(HOURS[1], HOURS[2]))) == (second,)
    assert removed(workspace, archive, Selection(sequences=SeqRange(1, 100))) == (first,)
    assert removed(workspace, archive, Selection(sequences=SeqRange(2, 100))) == (cut,)
    assert removed(workspace, archive, Selection.parse(to_time="2026-11-21T10:00:00.05Z")) == (cut,)
    assert removed(workspace, archive, Selection.parse(from_time="2026-11-21T12:00:00Z")) == ()
    assert removed(workspace, archive, Selection(subjects=("logs.1",))) == (cut, replace(second, is_exact=False))
    page = answers.page(workspace, "logs", Selection(hours=(HOURS[1], HOURS[2])), None, limit=10, most_bytes=1 << 20)
    for _ in range(2):
        assert MessagePage.of(page).plain()["removed"] == [
            {"reason": "retired", "replay_id": OTHER, "messages": 100, "is_exact": True}
        ]
        page = answers.page(workspace, "logs", None, page.cursor, limit=10, most_bytes=1 << 20)
    with Opened.open("logs", settings) as opened:
        read = opened.read()
        assert [m.seq for m in read] == list(range(201, 301))
        assert read.removed() == (first, second)


def test_erased_messages_are_seen_wherever_one_looks(workspace: Workspace, archive: Archive, nats3: Command) -> None:
    """Some of a chunk are absences in it, all of a chunk are a gap."""
    (live,) = workspace.catalog.chunks.select(archive)
    life = live.meta.incarnation
    folder.claim(workspace, archive)
    erasure.erase(workspace, archive, {life: [SeqRange(211, 220)]}, reason="case 17", chosen_by=["sequences"])
    some = Removed("logs", "erased", None, 10, True)
    times = "2026-11-21T12:00:00", "2026-11-21T12:00:00.05", "2026-11-21T13:00:00"
    for selection, expected in {
        Selection(sequences=SeqRange(201, 300)): (some,),
        Selection(sequences=SeqRange(215, 215)): (replace(some, is_exact=False),),
        Selection(hours=(HOURS[2],)): (some,),
        Selection(hours=(HOURS[1],), sequences=SeqRange(201, 300)): (),
        Selection.parse(from_time=f"{times[0]}Z", to_time=f"{times[2]}Z"): (some,),
        Selection.parse(from_time=f"{times[1]}Z"): (replace(some, is_exact=False),),
        Selection.parse(from_time=f"{times[2]}Z"): (),
        Selection(sequences=SeqRange(201, 300), subjects=("logs.1",)): (replace(some, is_exact=False),),
    }.items():
        assert removed(workspace, archive, selection) == expected, selection
    lines = [LINE.format(100, REPLAY), LINE.format(100, OTHER)]
    erased = "Not in archive logs any more: 10 messages of the selection, which were erased"

    def said() -> list[str]:
        """The lines of a query about what is not there any more."""
        err = nats3.ok("query", "SELECT count(*) FROM logs").err
        return [line for line in err.splitlines() if line.startswith("Not in")]

    assert said() == [*lines, erased]
    seen = nats3.ok("store", "get", "logs", "-o", "json").json
    assert seen["removed"] == {"erased": 10, "retired": 200}
    assert re.search("^removed +200 retired, 10 erased$", nats3.ok("store", "get", "logs").out, re.MULTILINE)
    # What the UI calls gaps of an hour.
    assert [status.hour(workspace, archive, hour).missing for hour in HOURS] == [100, 100, 10]

    erasure.erase(workspace, archive, {life: [SeqRange(201, 300)]}, reason="case 18", chosen_by=["sequences"])
    assert said() == [*lines, erased.replace("10", "100")]
    assert nats3.ok("store", "get", "logs", "-o", "json").json["removed"] == {"erased": 100, "retired": 200}


def test_a_chunk_that_was_replaced_was_not_removed(workspace: Workspace, archive: Archive) -> None:
    (live,) = workspace.catalog.chunks.select(archive)
    workspace.catalog.chunks.retire(archive, [live.id], recapture=True)
    store(workspace, archive, 12, [Made(n, "logs.again") for n in range(201, 301)])
    assert removed(workspace, archive, Selection(hours=(HOURS[2],))) == ()
    (live,) = workspace.catalog.chunks.select(archive)
    workspace.catalog.chunks.retire(archive, [live.id])
    assert removed(workspace, archive, Selection(hours=(HOURS[2],))) == (Removed("logs", "retired", None, 100, True),)

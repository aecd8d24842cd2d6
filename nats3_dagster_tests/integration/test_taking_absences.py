"""Archives of the mode `consumer`: why messages are absent that the stream removed before they were taken."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health.nats_health import check
from nats3_dagster.archive.proof.verify import find_holes
from nats3_dagster.archive.status import holdings
from nats3_dagster.model import SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.taking import INTEREST, QUEUE, content, covered, gaps, left, make, run
from nats3_dagster_tests.support.wire import Wire

LIMITS = {"retention": "limits"}
SHORT = b"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n"
SUPERSEDING: dict[str, Any] = {"max_msgs_per_subject": 1}
TTL: dict[str, Any] = {"allow_msg_ttl": True}


def update(wire: Wire, **changes: Any) -> None:
    wire.api("STREAM.UPDATE.JOBS", **{**wire.api("STREAM.INFO.JOBS")["config"], **changes})


def supersede(wire: Wire) -> None:
    """1 and 12 stay, 2 to 11 are superseded where the stream has a limit for each subject."""
    wire.publish([("jobs.kept", b"", b"x"), *[("jobs.hot", b"", b"%d" % n) for n in range(11)]])


def expire(wire: Wire) -> None:
    """1 and 3 stay, 2 goes by its time to live."""
    wire.publish([("jobs.a", b"", b"x"), ("jobs.b", SHORT, b"x"), ("jobs.c", b"", b"x")])
    until = time.monotonic() + 10
    while wire.state("JOBS")["messages"] == 3 and time.monotonic() < until:
        time.sleep(0.05)


def erase(wire: Wire) -> None:
    supersede(wire)
    wire.api("STREAM.MSG.DELETE.JOBS", seq=5)


def lift(wire: Wire) -> None:
    update(wire, max_msgs_per_subject=-1)


@pytest.mark.parametrize(
    ("config", "acts", "reason", "lost"),
    [
        ({**LIMITS, **SUPERSEDING}, [supersede], "superseded", 10),
        ({**LIMITS, **SUPERSEDING}, [supersede, lift], "superseded", 10),
        (LIMITS, [erase], None, 0),
        pytest.param({**LIMITS, **TTL}, [expire], "ttl", 1, marks=pytest.mark.needs_nats("2.11")),
        pytest.param(
            {**LIMITS, **TTL, **SUPERSEDING}, [expire], "superseded_or_ttl", 1, marks=pytest.mark.needs_nats("2.11")
        ),
        pytest.param(
            {**LIMITS, **TTL, **SUPERSEDING},
            [expire, lift],
            "superseded_or_ttl",
            1,
            marks=pytest.mark.needs_nats("2.11"),
        ),
    ],
    ids=["superseded", "limit lifted", "deleted", "ttl", "either", "either, one lifted"],
)
def test_what_a_limits_stream_removed_has_the_reason_of_every_archive(
    workspace: Workspace,
    wire: Wire,
    bucket: str,
    nats3: Command,
    config: dict[str, Any],
    acts: list[Callable[[Wire], None]],
    reason: str | None,
    lost: int,
) -> None:
    wire.create_stream("JOBS", "jobs.>", **config)
    archive = make(workspace, bucket)
    for act in acts:
        act(wire)
    last = wire.state("JOBS")["last_seq"]
    (chunk,) = run(workspace, archive).chunks
    assert (chunk.covers, chunk.absent_reason) == (SeqRange(1, last), reason or "deleted")
    assert (gaps(workspace, archive), covered(workspace, archive, last), left(wire)) == ([], True, (0, 0))
    losses = {reason: lost} if reason else {}
    assert holdings(workspace, "jobs").losses == losses
    assert nats3.ok("store", "get", "jobs", "-o", "json").json["losses"] == losses
    assert {why: count for why, count in find_holes(workspace, archive).losses.items() if count} == losses
    whats = [finding.what for finding in check(workspace) if "removed before they were captured" in finding.what]
    assert whats == (
        [f"Archive jobs, stream JOBS: {lost} messages were removed before they were captured ({lost} {reason})"]
        if reason
        else []
    )


@pytest.mark.parametrize("retention", [QUEUE, INTEREST], ids=["queue", "interest"])
def test_of_a_stream_that_removes_what_is_acknowledged_it_is_a_loss(
    workspace: Workspace, wire: Wire, bucket: str, retention: dict[str, Any]
) -> None:
    """Another client may have acknowledged it: nothing tells that from a limit."""
    wire.create_stream("JOBS", "jobs.>", **retention, **SUPERSEDING)
    archive = make(workspace, bucket)
    supersede(wire)
    lift(wire)
    result = run(workspace, archive)
    assert (result.lost, [(c.covers, c.absent_reason) for c in result.chunks]) == (10, [(SeqRange(1, 12), "expired")])
    assert [seq for seq, _ in content(workspace, archive)] == [1, 12]
    assert covered(workspace, archive, 12)


def test_messages_below_the_head_are_gaps(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """The limit that removed them is lifted before the run, and what is absent after them is deleted by hand."""
    wire.create_stream("JOBS", "jobs.>", max_msgs=5)
    archive = make(workspace, bucket)
    wire.publish([("jobs.a", b"", b"%d" % n) for n in range(1, 21)])
    update(wire, max_msgs=-1)
    wire.api("STREAM.MSG.DELETE.JOBS", seq=18)
    open_source(workspace, archive)
    result = run(workspace, archive)
    assert gaps(workspace, archive) == [("expired", [(1, 15)])]
    assert [(c.covers, c.absent_reason) for c in result.chunks] == [(SeqRange(16, 20), "deleted")]
    assert result.lost == 15


def test_the_end_of_a_stream_that_was_superseded_before_any_of_it_came(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """No message follows, so no chunk covers it: the gap of the run's end has the same reason."""
    wire.create_stream("JOBS", "jobs.>", **SUPERSEDING)
    archive = make(workspace, bucket)
    wire.publish([("jobs.kept", b"", b"x")])
    supersede(wire)
    lift(wire)
    for seq in (2, 13):  # the newest of each subject
        wire.api("STREAM.MSG.DELETE.JOBS", seq=seq)
    result = run(workspace, archive)
    assert (gaps(workspace, archive), result.lost) == ([("superseded", [(1, 13)])], 13)

"""Durables of the user: an archive takes its messages through them exactly, or says why it cannot."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.source.backlog import backlog
from nats3_dagster.errors import OperatorError, SourceError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.taking import INTEREST, content, covered, durable, gaps, left, make, numbers, run
from nats3_dagster_tests.support.wire import Wire

LATER = (datetime.now(UTC) + timedelta(days=1)).isoformat().replace("+00:00", "Z")
PUSH = {"deliver_subject": "push.here"}
# What cannot be: its reason.
UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "max_deliver": ({"max_deliver": 3}, r"gives up a message after 3 deliveries \(max_deliver\)"),
    "backoff": ({"max_deliver": 3, "backoff": [6 * SECOND_NS, 7 * SECOND_NS]}, "gives up a message after 3"),
    "headers_only": ({"headers_only": True}, "delivers headers only"),
    "inactive_threshold": ({"inactive_threshold": 60 * SECOND_NS}, "is deleted without pull requests for a while"),
    "max_bytes": ({"max_bytes": 1000}, "gives a pull request 1,000 bytes at most"),
    "pause": ({"pause_until": LATER}, "is paused until "),
    "max_ack_pending": ({"max_ack_pending": 5}, "allows 5 unacknowledged messages"),
    "ack_wait": ({"ack_wait": SECOND_NS}, "has an ack_wait of 1 s"),
    "subjects": ({"filter_subject": "jobs.0"}, "delivers jobs.0, not all subjects"),
    "priorities": ({"priority_policy": "overflow", "priority_groups": ["a"]}, "delivers to groups"),
}
# What only a new consumer can have.
NEVER: dict[str, tuple[dict[str, Any], str]] = {
    "push": (PUSH, "is a push consumer"),
    "ack none": ({"ack_policy": "none"}, "has the ack policy none"),
    "ack all": ({"ack_policy": "all"}, "has the ack policy all"),
    "last per subject": ({"deliver_policy": "last_per_subject", "filter_subject": "jobs.>"}, "begins with the last"),
    "original pace": ({"replay_policy": "original"}, "delivers at the pace"),
}
# What is not changed, or does not show in the same way.
FIXED = ("pause", "inactive_threshold", "priorities")
NEEDS = {"pause": "2.11", "priorities": "2.12"}


def cases(*names: str) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.needs_nats(NEEDS[name])) if name in NEEDS else name for name in names]


@pytest.mark.parametrize("name", cases(*(name for name in (*UNFIT, *NEVER) if name != "subjects")))
def test_a_durable_that_does_not_fit_is_refused(workspace: Workspace, wire: Wire, bucket: str, name: str) -> None:
    config, reason = {**UNFIT, **NEVER}[name]
    wire.create_stream("JOBS", "jobs.>", **INTEREST)
    durable(wire, "mine", **config)
    with pytest.raises(OperatorError, match=f"Consumer mine of stream JOBS {reason}"):
        make(workspace, bucket, durable="mine")
    assert workspace.catalog.archives.find("jobs") is None


@pytest.mark.parametrize("name", cases(*(name for name in UNFIT if name not in FIXED)))
def test_one_that_was_changed_is_an_error_until_it_is_changed_back(
    workspace: Workspace, wire: Wire, bucket: str, name: str
) -> None:
    config, reason = UNFIT[name]
    wire.create_stream("JOBS", "jobs.>", **INTEREST)
    durable(wire, "mine")
    archive = make(workspace, bucket, durable="mine")
    wire.publish(numbers(1, 50))
    answer = wire.try_api("CONSUMER.CREATE.JOBS.mine", stream_name="JOBS", config={**info(wire), **config})
    if "error" in answer:
        pytest.skip(f"The server does not change it: {answer['error']}")
    state = open_source(workspace, archive).state
    for use in (lambda: run(workspace, archive), lambda: backlog(workspace, archive, state, time.time_ns())):
        with pytest.raises(SourceError, match=f"Consumer mine of stream JOBS {reason}") as raised:
            use()
        assert raised.value.hint
    wire.api("CONSUMER.CREATE.JOBS.mine", stream_name="JOBS", config=info(wire) | back(config))
    result = run(workspace, archive)
    # Newer servers remove from a stream with interest retention what its consumers no longer filter for.
    assert (result.messages, result.lost) in ([(25, 25), (50, 0)] if name == "subjects" else [(50, 0)])
    assert (covered(workspace, archive, 50), left(wire, "mine")) == (True, (0, 0))


def info(wire: Wire) -> dict[str, Any]:
    return wire.api("CONSUMER.INFO.JOBS.mine")["config"]


def back(config: dict[str, Any]) -> dict[str, Any]:
    """What undoes the change."""
    before = {"ack_wait": 5 * SECOND_NS, "max_ack_pending": 20_000, "max_deliver": -1, "filter_subject": ""}
    return {name: before.get(name) for name in config} | ({"ack_wait": 5 * SECOND_NS} if "backoff" in config else {})


@pytest.mark.needs_nats("2.11")
def test_a_paused_one_goes_on_when_its_pause_is_over(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("JOBS", "jobs.>", **INTEREST)
    durable(wire, "mine")
    archive = make(workspace, bucket, durable="mine")
    wire.publish(numbers(1, 50))
    wire.api("CONSUMER.PAUSE.JOBS.mine", pause_until=LATER)
    began = time.monotonic()
    with pytest.raises(SourceError, match="Consumer mine of stream JOBS is paused until") as raised:
        run(workspace, archive)
    assert "Resume it" in str(raised.value)
    assert time.monotonic() - began < 20
    wire.api("CONSUMER.PAUSE.JOBS.mine", pause_until="0001-01-01T00:00:00Z")
    assert run(workspace, archive).messages == 50


@pytest.mark.parametrize(
    "config",
    [{"max_waiting": 1}, {"max_batch": 7}, {"max_expires": SECOND_NS}, {"max_bytes": 2 << 20}],
    ids=str,
)
def test_limits_of_pull_requests_are_kept(
    workspace: Workspace, wire: Wire, bucket: str, config: dict[str, Any]
) -> None:
    wire.create_stream("JOBS", "jobs.>", **INTEREST)
    durable(wire, "mine", **config)
    archive = make(workspace, bucket, durable="mine")
    wire.publish([*numbers(1, 100), ("jobs.1", b"", b"x" * 900_000), ("jobs.1", b"", b"y" * 900_000)])
    assert run(workspace, archive).messages == 102
    (last,) = [data for seq, data in content(workspace, archive) if seq == 102]
    assert last == b"y" * 900_000
    assert (gaps(workspace, archive), left(wire, "mine")) == ([], (0, 0))
    assert wire.api("CONSUMER.INFO.JOBS.mine")["num_redelivered"] == 0


@pytest.mark.parametrize("policy", ["last", "new", "by_start_sequence"])
def test_it_begins_where_its_durable_begins(workspace: Workspace, wire: Wire, bucket: str, policy: str) -> None:
    wire.create_stream("JOBS", "jobs.>")
    wire.publish(numbers(1, 10))
    start: dict[str, Any] = {"opt_start_seq": 4} if policy == "by_start_sequence" else {}
    durable(wire, "mine", deliver_policy=policy, **start)
    archive = make(workspace, bucket, durable="mine")
    wire.publish(numbers(11, 20))
    run(workspace, archive)
    first = {"last": 10, "new": 11, "by_start_sequence": 4}[policy]
    assert [seq for seq, _ in content(workspace, archive)] == list(range(first, 21))
    assert (covered(workspace, archive, 20), gaps(workspace, archive)) == (True, [])


def test_messages_that_it_gave_up_before_are_no_silent_loss(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """max_deliver was reached while it was set: the server never delivers them again."""
    wire.create_stream("JOBS", "jobs.>", **INTEREST)
    durable(wire, "mine")
    archive = make(workspace, bucket, durable="mine")
    wire.publish(numbers(1, 3))
    durable(wire, "mine", max_deliver=1)
    wire.send(wire.next("JOBS", "mine"), b"-NAK")
    wire.try_api("CONSUMER.MSG.NEXT.JOBS.mine", batch=1, no_wait=True)
    durable(wire, "mine")
    for _ in range(2):
        with pytest.raises(SourceError, match="mine will not deliver it again: .* max_deliver"):
            run(workspace, archive)
    assert ([seq for seq, _ in content(workspace, archive)], gaps(workspace, archive)) == ([2, 3], [])

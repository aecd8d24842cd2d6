"""Archives of the mode `consumer`: what the durable's count of its deliveries says of messages that did not come."""

from collections.abc import Callable
from typing import Any

import pytest

from nats3_dagster.archive.captures.due import select_hours
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.proof.verify import find_holes
from nats3_dagster.archive.source.condition import condition
from nats3_dagster.archive.status import holdings
from nats3_dagster.archive.take.open import open_with_durable
from nats3_dagster.errors import Conflict, OperatorError, SourceError, UnknownConsumer
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.taking import (
    INTEREST,
    QUEUE,
    acknowledge,
    acknowledged_one_by_one,
    content,
    covered,
    durable,
    left,
    make,
    numbers,
    put_back,
    reasons,
    run,
)
from nats3_dagster_tests.support.wire import Wire

LIMITS = {"retention": "limits"}
RETENTIONS = [pytest.param(QUEUE, id="queue"), pytest.param(INTEREST, id="interest")]
SUBJECTS = [pytest.param((), id="all"), pytest.param(("jobs.0",), id="filtered")]


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another client can take messages of such a durable, and acknowledge some."""
    acknowledged_one_by_one(monkeypatch)


@pytest.fixture(params=["by flow", "one by one"])
def acknowledging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "one by one":
        acknowledged_one_by_one(monkeypatch)


def taken(first: int, last: int, subjects: tuple[str, ...]) -> set[int]:
    """The sequences that the archive wants: `numbers` gives the even ones to jobs.0."""
    return {n for n in range(first, last + 1) if not subjects or n % 2 == 0}


def check(workspace: Workspace, archive: Any, last: int, lost: set[int], most: int = 0) -> None:
    """Each message up to `last` is in the archive, or in `lost` and called so. `most`: how many more sequences may
    count as lost that were never the archive's."""
    subjects = archive.spec.subjects
    absent, wanted = reasons(workspace, archive), taken(1, last, subjects)
    assert {n for n, _ in content(workspace, archive)} == wanted - lost
    assert {absent[n] for n in lost} <= {"undelivered"}
    called = {n for n, reason in absent.items() if reason != "unselected"}
    assert lost <= called
    assert len(called - lost) <= most
    assert covered(workspace, archive, last)
    losses = {reason: count for reason, count in holdings(workspace, archive.name).losses.items() if count}
    assert losses == ({"undelivered": len(called)} if called else {})
    assert {why: count for why, count in find_holes(workspace, archive).losses.items() if count} == losses


@pytest.mark.usefixtures("acknowledging")
@pytest.mark.parametrize("subjects", SUBJECTS)
@pytest.mark.parametrize("how", ["by the user", "by the user, twice", "by --adopt", "by another client"])
def test_what_came_while_there_was_no_durable_is_lost(
    workspace: Workspace, wire: Wire, bucket: str, nats3: Command, how: str, subjects: tuple[str, ...]
) -> None:
    wire.create_stream("JOBS", "jobs.>", **INTEREST)
    name = "mine" if how.startswith("by the user") else "nats3-jobs"
    # One filter: servers before 2.10 know no list, and would make a durable of all subjects.
    filters: dict[str, Any] = {"filter_subject": subjects[0]} if subjects else {}
    if name == "mine":
        durable(wire, name, **filters)
        archive = make(workspace, bucket, durable=name)
    else:
        archive = make(workspace, bucket, subjects=subjects)
    config = wire.api(f"CONSUMER.INFO.JOBS.{name}")["config"]
    wire.publish(numbers(1, 100))
    run(workspace, archive)
    wire.api(f"CONSUMER.DELETE.JOBS.{name}")
    wire.publish(numbers(101, 150))
    with pytest.raises(UnknownConsumer):
        run(workspace, archive)
    if how != "by --adopt":
        for _ in range(2 if how.endswith("twice") else 1):
            wire.try_api(f"CONSUMER.DELETE.JOBS.{name}")
            wire.api(f"CONSUMER.CREATE.JOBS.{name}", stream_name="JOBS", config=config)
        wire.publish(numbers(151, 170))
    run(workspace, archive, adopt=how == "by --adopt")
    wire.publish(numbers(171, 200) if how != "by --adopt" else numbers(151, 200))
    run(workspace, archive)
    assert left(wire, name) == (0, 0)
    check(workspace, archive, 200, taken(101, 150, subjects), most=26)
    # The first message that the new durable kept is 151, and 152 under the filter: what is before it may be lost.
    (losses,) = nats3.ok("store", "get", "jobs", "-o", "json").json["losses"].items()
    assert losses[0] == "undelivered"
    assert losses[1] in (50, 51)
    assert f"{losses[1]} undelivered" in nats3("doctor").out


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("subjects", SUBJECTS)
@pytest.mark.parametrize("retention", RETENTIONS)
@pytest.mark.parametrize("at", ["first", "middle", "last", "all", "between", "before a round"])
def test_what_another_client_acknowledged_is_lost(
    workspace: Workspace, wire: Wire, bucket: str, retention: dict[str, Any], subjects: tuple[str, ...], at: str
) -> None:
    """Wherever the messages are that it took: before ours, among them, after them, or between two runs."""
    wire.create_stream("JOBS", "jobs.>", **retention)
    archive = make(workspace, bucket, subjects=subjects)
    wire.publish(numbers(1, 100))
    run(workspace, archive)
    wanted = sorted(taken(101, 160, subjects))
    if at == "before a round":  # nothing of its own comes in the run after
        wire.publish(numbers(101, 160))
        acknowledge(wire, len(wanted))
        run(workspace, archive)
        lost = set(wanted)
    else:
        wire.publish(numbers(101, 160))
        replies = [wire.next("JOBS", "nats3-jobs") for _ in wanted]
        chosen = {
            "first": wanted[:5],
            "middle": wanted[7:12],
            "last": wanted[-5:],
            "all": wanted,
            "between": wanted[::3],
        }[at]
        for seq, reply in zip(wanted, replies, strict=True):
            wire.acknowledge(reply) if seq in chosen else wire.send(reply, b"-NAK")
        run(workspace, archive)
        lost = set(chosen)
    most = 0 if not subjects else 30
    check(workspace, archive, 160, lost, most)
    wire.publish(numbers(161, 200))
    run(workspace, archive)
    check(workspace, archive, 200, lost, most)


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("retention", [*RETENTIONS, pytest.param(LIMITS, id="limits")])
def test_what_comes_again_is_no_loss(workspace: Workspace, wire: Wire, bucket: str, retention: dict[str, Any]) -> None:
    """A client pulls, and gives back; again and again. Nothing under the filter went, so nothing is called lost."""
    wire.create_stream("JOBS", "jobs.>", **retention)
    archive = make(workspace, bucket, subjects=("jobs.0",))
    for round_ in range(3):
        wire.publish(numbers(100 * round_ + 1, 100 * round_ + 100))
        for _ in range(round_):
            for reply in [wire.next("JOBS", "nats3-jobs") for _ in range(20)]:
                wire.send(reply, b"-NAK")
        run(workspace, archive)
        check(workspace, archive, 100 * round_ + 100, set())


@pytest.mark.usefixtures("one_by_one")
def test_a_crowd_of_losses_makes_no_crowd_of_chunks(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Another client takes every second message."""
    wire.create_stream("JOBS", "jobs.>", **QUEUE)
    archive = make(workspace, bucket, subjects=("jobs.0",))
    wire.publish(numbers(1, 600))
    replies = [wire.next("JOBS", "nats3-jobs") for _ in range(300)]
    for at, reply in enumerate(replies):
        wire.acknowledge(reply) if at % 2 else wire.send(reply, b"-NAK")
    run(workspace, archive)
    assert len(workspace.catalog.chunks.select(archive)) < 10
    check(workspace, archive, 600, {n for n in range(2, 601, 2) if n % 4 == 0}, most=300)


@pytest.mark.usefixtures("one_by_one")
def test_a_message_of_a_stream_that_keeps_it_is_not_called_unselected_later(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """Another client acknowledged it: the runs fail, also once the stream has removed it they do not call it so."""
    wire.create_stream("JOBS", "jobs.>", **LIMITS)
    archive = make(workspace, bucket, subjects=("jobs.0",))
    wire.publish(numbers(1, 20))
    acknowledge(wire, 3)
    for _ in range(2):
        with pytest.raises(SourceError, match="has message 2, and consumer nats3-jobs will not deliver it again"):
            run(workspace, archive)
    wire.api("STREAM.PURGE.JOBS", seq=9)
    run(workspace, archive)
    absent = reasons(workspace, archive)
    assert {absent[n] for n in (2, 4, 6)} == {"undelivered"}


@pytest.mark.usefixtures("acknowledging")
def test_a_stream_that_keeps_messages_has_what_a_durable_missed_but_for_its_limits(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    wire.create_stream("JOBS", "jobs.>", max_msgs=40, **LIMITS)
    archive = make(workspace, bucket, subjects=("jobs.0",))
    wire.publish(numbers(1, 20))
    run(workspace, archive)
    wire.api("CONSUMER.DELETE.JOBS.nats3-jobs")
    wire.publish(numbers(21, 80))
    run(workspace, archive, adopt=True)
    check(workspace, archive, 80, taken(21, 40, ("jobs.0",)), most=10)
    wire.publish(numbers(81, 100))
    run(workspace, archive)
    check(workspace, archive, 100, taken(21, 40, ("jobs.0",)), most=10)


def gone(workspace: Workspace, archive: Any) -> int:
    waiting = condition(workspace, archive).waiting
    assert waiting
    return waiting.gone


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("how", ["made again", "shared"])
def test_a_loss_under_a_filter_is_told_before_the_next_message(
    workspace: Workspace, wire: Wire, bucket: str, nats3: Command, how: str
) -> None:
    """Nothing waits in the durable, and yet the archive is not up to date."""
    wire.create_stream("JOBS", "jobs.>", **INTEREST)
    archive = make(workspace, bucket, subjects=("jobs.0",))
    wire.publish(numbers(1, 20))
    run(workspace, archive)
    assert gone(workspace, archive) == 0
    assert select_hours(workspace, "jobs") == []
    with pytest.raises(OperatorError, match="Archive jobs takes what its consumer .* has, and not a certain hour"):
        select_hours(workspace, "jobs", ["2026-11-21-07:00"])
    if how == "shared":
        wire.publish(numbers(21, 40))
        acknowledge(wire, 10)
    else:
        config = wire.api("CONSUMER.INFO.JOBS.nats3-jobs")["config"]
        wire.api("CONSUMER.DELETE.JOBS.nats3-jobs")
        wire.publish(numbers(21, 40))
        wire.api("CONSUMER.CREATE.JOBS.nats3-jobs", stream_name="JOBS", config=config)
    assert gone(workspace, archive) == 20
    assert len(select_hours(workspace, "jobs")) == 1
    open_with_durable(workspace, archive)  # and died
    assert gone(workspace, archive) == 20
    assert len(select_hours(workspace, "jobs")) == 1
    run(workspace, archive)
    check(workspace, archive, 40, taken(21, 40, ("jobs.0",)), most=10)
    assert gone(workspace, archive) == 0
    assert select_hours(workspace, "jobs") == []


@pytest.mark.usefixtures("acknowledging")
@pytest.mark.parametrize("subjects", SUBJECTS)
@pytest.mark.parametrize("retention", [*RETENTIONS, pytest.param(LIMITS, id="limits")])
def test_a_catalog_put_back_finds_what_was_acknowledged_in_the_bucket(
    workspace: Workspace, wire: Wire, bucket: str, retention: dict[str, Any], subjects: tuple[str, ...]
) -> None:
    """The stream has none of it any more: the bucket has the only copy."""
    wire.create_stream("JOBS", "jobs.>", **retention)
    archive = make(workspace, bucket, subjects=subjects)
    wire.publish(numbers(1, 100))
    run(workspace, archive)
    with put_back(workspace) as restore:
        for first in (101, 201, 301):
            wire.publish(numbers(first, first + 99))
            run(workspace, archive)
        restore()
        wire.publish(numbers(401, 450))
        run(workspace, archive)
        check(workspace, archive, 450, set())


@pytest.mark.usefixtures("acknowledging")
@pytest.mark.parametrize("subjects", SUBJECTS)
def test_a_catalog_put_back_says_what_the_bucket_lacks(
    workspace: Workspace, wire: Wire, bucket: str, s3_client: Any, subjects: tuple[str, ...]
) -> None:
    wire.create_stream("JOBS", "jobs.>", **QUEUE)
    archive = make(workspace, bucket, subjects=subjects)
    wire.publish(numbers(1, 100))
    run(workspace, archive)
    with put_back(workspace) as restore:
        wire.publish(numbers(101, 200))
        (chunk,) = run(workspace, archive).chunks
        wire.publish(numbers(201, 300))
        run(workspace, archive)
        s3_client.delete_object(Bucket=bucket, Key=chunk.key)
        restore()
        assert gone(workspace, archive) == 200
        run(workspace, archive)
        check(workspace, archive, 300, taken(101, 200, subjects), most=51)


def test_a_durable_belongs_to_one_archive(workspace: Workspace, wire: Wire, bucket: str, nats3: Command) -> None:
    wire.create_stream("JOBS", "jobs.>", **INTEREST)
    durable(wire, "mine")
    make(workspace, bucket, durable="mine")
    make(workspace, bucket, "own")
    for taken_name, owner in (("mine", "jobs"), ("nats3-own", "own")):
        with pytest.raises(Conflict, match=f"Consumer {taken_name} of stream JOBS belongs to archive {owner}"):
            make(workspace, bucket, "second", durable=taken_name)
    assert [a.name for a in workspace.catalog.archives.all()] == ["jobs", "own"]
    # Another stream may have a consumer of the same name, and an archive that is deleted has none.
    wire.create_stream("OTHER", "other.>", **INTEREST)
    durable(wire, "mine", "OTHER")
    make(workspace, bucket, "other", "OTHER", durable="mine")
    delete(workspace, "jobs")
    make(workspace, bucket, "second", durable="mine")


def test_two_that_are_made_at_once_do_not_share_it(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both saw it free: the catalog refuses the second."""
    wire.create_stream("JOBS", "jobs.>", **INTEREST)
    durable(wire, "mine")
    create: Callable[..., Any] = workspace.catalog.archives.create
    others = iter(["first"])

    def while_another(*args: Any, **kwargs: Any) -> Any:
        for name in others:
            make(workspace, bucket, name, durable="mine")
        return create(*args, **kwargs)

    monkeypatch.setattr(workspace.catalog.archives, "create", while_another)
    with pytest.raises(Conflict, match="Consumer mine of stream JOBS belongs to another archive"):
        make(workspace, bucket, "second", durable="mine")
    assert [a.name for a in workspace.catalog.archives.all()] == ["first"]

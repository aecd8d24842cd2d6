"""Absent sequences: `deleted` only where nothing else can have removed them; and how near a stream is to a loss."""

from typing import Any, cast

import pytest

from nats3_dagster.archive.source.absence import Absences, absence_reason, early_removal, lost_by_reason
from nats3_dagster.archive.source.backlog import Backlog
from nats3_dagster.archive.source.loss import Loss, time_to_loss
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import Coverage, SeqRange, StreamState
from nats3_dagster_tests.support.catalog import LOGS, ranges

AGE, COUNT = {"max_age": 1}, {"max_msgs": 9}
PER_SUBJECT, TTL, MARKERS = {"max_msgs_per_subject": 1}, {"allow_msg_ttl": True}, {"subject_delete_marker_ttl": 1}
QUEUE, MIRROR = {"retention": "workqueue"}, {"mirror": {"name": "O"}}
FILTERED = {"mirror": {"name": "O", "filter_subject": "a.>"}}
MOVED = {"mirror": {"name": "O", "subject_transforms": [{"src": "a.>", "dest": "b.>"}]}}


@pytest.mark.parametrize(
    ("configs", "below", "above"),
    [
        # Below the stream's first message its limits may have removed it; above, only a request to delete.
        ([{}], "expired", "deleted"),
        ([AGE], "expired", "deleted"),
        ([COUNT], "expired", "deleted"),
        ([PER_SUBJECT], "superseded", "superseded"),
        ([PER_SUBJECT | AGE], "expired", "superseded"),
        ([TTL], "expired", "ttl"),
        ([MARKERS], "expired", "ttl"),
        ([TTL | PER_SUBJECT], "expired", "superseded_or_ttl"),
        ([QUEUE], "expired", "expired"),
        ([QUEUE | PER_SUBJECT], "expired", "expired"),
        ([MIRROR], "expired", "expired"),
        ([MIRROR | PER_SUBJECT], "expired", "expired"),
        ([FILTERED], "expired", "unselected"),
        ([MOVED], "expired", "unselected"),
        ([FILTERED | PER_SUBJECT | TTL], "expired", "unselected"),
        # Any configuration that the stream had counts.
        ([{}, PER_SUBJECT], "superseded", "superseded"),
        ([PER_SUBJECT, {}], "superseded", "superseded"),
        ([TTL, PER_SUBJECT], "expired", "superseded_or_ttl"),
        ([{}, QUEUE], "expired", "expired"),
        ([MIRROR, FILTERED], "expired", "unselected"),
        ([], "expired", "deleted"),
    ],
)
def test_the_reason_of_an_absence(configs: list[dict[str, Any]], below: str, above: str) -> None:
    assert absence_reason(configs, below_head=True) == below
    assert absence_reason(configs, below_head=False) == above


def state(first: int = 1, last: int = 20, damaged: tuple[SeqRange, ...] = (), **config: Any) -> StreamState:
    messages = last - first + 1
    return StreamState(LOGS, first, last, 0, 0, messages, messages * 10, config, damaged)


def gaps(now: StreamState, first: int, last: int) -> list[tuple[Any, ...]]:
    absences = Absences(state(), {}, filtered=False)
    absences.look(now)
    return [(*part, reason) for part, reason in absences.gaps(SeqRange(first, last))]


def test_a_gap_is_what_lies_below_the_head_and_what_was_damaged() -> None:
    assert gaps(state(5), 5, 9) == []
    assert gaps(state(5), 4, 9) == [(4, 4, "expired")]
    assert gaps(state(5), 1, 3) == [(1, 3, "expired")]
    assert gaps(state(5), 1, 4) == [(1, 4, "expired")]
    assert gaps(state(5), 1, 5) == [(1, 4, "expired")]
    damaged = ranges((3, 6), (8, 8), (12, 20))
    assert gaps(state(5, damaged=damaged), 2, 12) == [
        (2, 4, "expired"),
        (5, 6, "damaged"),
        (8, 8, "damaged"),
        (12, 12, "damaged"),
    ]
    assert gaps(state(5, damaged=damaged), 6, 7) == [(6, 6, "damaged")]
    assert gaps(state(5, damaged=damaged), 7, 7) == []


def test_the_reason_inside_a_chunk() -> None:
    def inside(**fields: Any) -> str:
        given: dict[str, Any] = {"removing": {}, "filtered": False, **fields}
        return Absences(state(), **given).inside

    assert inside() == "deleted"
    assert inside(removing=PER_SUBJECT) == "superseded"
    assert inside(filtered=True) == inside(filtered=True, removing=PER_SUBJECT) == "unselected"
    assert inside(given_up=True) == inside(given_up=True, filtered=True) == "damaged"
    changing = Absences(state(), {}, filtered=False)
    changing.look(state(allow_msg_ttl=True))
    assert changing.inside == "ttl"
    changing.look(state())
    assert changing.inside == "deleted"
    # What removed messages at any time is remembered.
    remembered = Absences(state(), PER_SUBJECT, filtered=False)
    remembered.look(state())
    assert remembered.inside == "superseded"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, ""),
        (AGE, ""),
        (PER_SUBJECT, "its limit of 1 message per subject"),
        ({"max_msgs_per_subject": 2}, "its limit of 2 messages per subject"),
        (TTL, "the time to live of single messages"),
        (MARKERS | PER_SUBJECT, "its limit of 1 message per subject and the time to live of single messages"),
    ],
)
def test_what_is_removed_before_a_capture(config: dict[str, Any], says: str) -> None:
    text = f"The stream removes messages before a capture may see them, by {says}"
    assert early_removal(config) == (text if says else "")


def test_losses_in_gaps_and_in_chunks_are_added() -> None:
    def coverage(**lost: Any) -> Coverage:
        return Coverage(LOGS, 1, 9, 9, 1, 9, 0, 0, 0, None, None, cast("Any", lost))

    assert lost_by_reason({}, []) == {}
    assert lost_by_reason({"expired": 2, "deleted": 5, "erased": 3, "unselected": 1}, []) == {"expired": 2}
    assert lost_by_reason({"expired": 2, "damaged": 1}, [coverage(expired=3), coverage(ttl=4), coverage()]) == {
        "expired": 5,
        "damaged": 1,
        "ttl": 4,
    }


# How near a loss is


def waiting(first: int | None, *, behind_s: float = 0, gone: int = 0, ahead: int = 0, **config: Any) -> Backlog:
    return Backlog(state(11, 20, **config), first_seq=first, behind_s=behind_s, gone=gone, ahead=ahead)


@pytest.mark.parametrize(
    ("first", "behind_s", "config", "used", "limit"),
    [
        (None, 0, {}, 0.0, ""),
        (11, 50, {}, 0.0, ""),
        (None, 0, {"max_msgs": 10}, 0.0, "max_msgs"),
        # The oldest of ten messages is at the end of its way, the newest at a tenth of it.
        (11, 0, {"max_msgs": 10}, 1.0, "max_msgs"),
        (20, 0, {"max_msgs": 10}, 0.1, "max_msgs"),
        (16, 0, {"max_msgs": 20}, 0.25, "max_msgs"),
        (11, 0, {"max_bytes": 200}, 0.5, "max_bytes"),
        (20, 0, {"max_bytes": 100}, 0.1, "max_bytes"),
        (11, 30, {"max_age": 60 * SECOND_NS}, 0.5, "max_age"),
        # The nearest limit counts.
        (11, 30, {"max_age": 60 * SECOND_NS, "max_msgs": 100}, 0.5, "max_age"),
        (11, 30, {"max_age": 60 * SECOND_NS, "max_msgs": 10}, 1.0, "max_msgs"),
        (11, 0, {"max_msgs": 0, "max_bytes": -1, "max_age": 0}, 0.0, ""),
        # A stream that refuses new messages deletes none for being full.
        (11, 30, {"max_msgs": 10, "max_bytes": 1, "discard": "new"}, 0.0, ""),
        (11, 30, {"max_msgs": 10, "discard": "new", "max_age": 60 * SECOND_NS}, 0.5, "max_age"),
    ],
)
def test_the_share_of_the_way_to_a_loss(
    first: int | None, behind_s: float, config: dict[str, Any], used: float, limit: str
) -> None:
    loss = time_to_loss(waiting(first, behind_s=behind_s, **config))
    assert (loss.used, loss.limit) == (pytest.approx(used), limit)


@pytest.mark.parametrize(
    ("loss", "level"),
    [
        (Loss(), "ok"),
        (Loss(used=0.49), "ok"),
        (Loss(used=0.5), "warn"),
        (Loss(used=0.89), "warn"),
        (Loss(used=0.9), "error"),
        (Loss(gone=1), "error"),
        (Loss(paused=True), "paused"),
        (Loss(paused=True, used=0.5), "paused"),
        (Loss(paused=True, used=0.9), "error"),
        (Loss(ahead="The clock is ahead"), "warn"),
    ],
)
def test_the_level_of_a_loss(loss: Loss, level: str) -> None:
    assert loss.level == level


def test_a_stream_of_one_message() -> None:
    one = Backlog(state(20, 20, max_msgs=1), first_seq=20)
    assert (time_to_loss(one).used, time_to_loss(one).limit) == (1.0, "max_msgs")


def test_an_archive_that_is_late() -> None:
    assert time_to_loss(waiting(11, behind_s=25_200)).waits_s == 0
    late = time_to_loss(waiting(11, behind_s=90_000), max_age_s=60)
    assert (late.waits_s, late.level) == (90_000, "warn")
    assert "It waits for 25.0 hours, and a capture is due after 60 s" in late.text

    # An hour and a quarter later than its threshold is late, a day more is an error.
    for waits_s, level in ((0, "ok"), (4560, "ok"), (4561, "warn"), (90_960, "warn"), (90_961, "error")):
        late = time_to_loss(waiting(11, behind_s=waits_s), max_age_s=60)
        assert (late.level, "It waits for" in late.text) == (level, waits_s > 4560)


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (Loss(), "No limit of the stream deletes messages"),
        (
            Loss(used=0.5, limit="max_age"),
            "The oldest uncaptured message has gone 50% of its way to deletion by max_age",
        ),
        (Loss(gone=2, early="Early"), "The stream has deleted 2 sequences that were not captured"),
        (Loss(early="Early"), "Early"),
        (Loss(paused=True), "Paused: nothing is captured. No limit of the stream deletes messages"),
        (Loss(ahead="Ahead"), "No limit of the stream deletes messages. Ahead"),
    ],
)
def test_the_text_of_a_loss(loss: Loss, text: str) -> None:
    assert loss.text == text

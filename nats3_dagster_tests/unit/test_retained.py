"""How long a stream keeps a message, and what a new archive of it is told."""

from dataclasses import replace
from typing import Any

import pytest

from nats3_dagster.archive.source.requirements import has_all_consumers
from nats3_dagster.archive.source.retained import retained, too_short
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import Incarnation, StreamState

MINUTE = 60 * SECOND_NS


def stream(count: int, span_ns: int, size: int = 100, consumers: int = 0, **config: Any) -> StreamState:
    """A stream that got so many messages in this time, and has them all."""
    state = StreamState(Incarnation("EV", 1), 1, count, 1, 1 + span_ns, count, count * size, config)
    return replace(state, consumers=consumers)


@pytest.mark.parametrize(
    ("state", "seconds", "limit"),
    [
        (stream(1000, MINUTE), None, None),
        (stream(1000, MINUTE, max_age=30 * SECOND_NS), 30, "max_age"),
        # 1,000 a minute: 500 are of half a minute.
        (stream(1001, MINUTE, max_msgs=500), 30, "max_msgs"),
        (stream(1001, MINUTE, max_bytes=50_000), 30, "max_bytes"),
        (stream(1001, MINUTE, max_msgs=2000, max_bytes=50_000, max_age=SECOND_NS * 300), 30, "max_bytes"),
        # A stream that refuses new messages removes none for being full.
        (stream(1001, MINUTE, max_msgs=500, discard="new"), None, None),
        # A short burst is no rate, unless it has filled the stream.
        (stream(100, SECOND_NS, max_msgs=1000), None, None),
        (stream(30, SECOND_NS, max_msgs=30), 1, "max_msgs"),
        (stream(3, MINUTE, max_msgs=1000), None, None),
        (stream(0, 0, max_msgs=30, max_bytes=10), None, None),
    ],
)
def test_a_message_stays_as_long_as_the_nearest_limit_lets_it(
    state: StreamState, seconds: float | None, limit: str | None
) -> None:
    kept = retained(state)
    assert (kept and kept.limit) == limit
    if kept and seconds:
        assert kept.seconds == pytest.approx(seconds, rel=0.01)


def test_less_than_three_captures_is_told_with_what_to_set() -> None:
    state = stream(1001, MINUTE, max_msgs=500)
    text = too_short(state, 30)
    assert "keeps a message for 30 s by max_msgs at its rate of 16.7 messages a second" in text
    assert text.endswith("let the stream keep 3 times that, or give the archive a max_age of 9 s")
    assert too_short(state, 10)
    assert too_short(state, 9) == ""
    assert too_short(stream(1001, MINUTE), 10_000) == ""


@pytest.mark.parametrize(
    ("most", "consumers", "is_crowded"), [(-1, 5, False), (0, 5, False), (5, 4, False), (5, 5, True), (5, 6, True)]
)
def test_a_stream_may_have_all_its_consumers(most: int, consumers: int, is_crowded: bool) -> None:
    assert has_all_consumers(stream(1, 1, consumers=consumers, max_consumers=most)) == is_crowded


def test_a_stream_without_a_word_of_consumers_has_room() -> None:
    assert not has_all_consumers(stream(1, 1, consumers=9))

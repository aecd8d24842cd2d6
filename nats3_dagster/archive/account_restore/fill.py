"""Streams that the server fills from others, which are there: they are looked at until they have what those have."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from nats3_dagster.archive.account_restore.spec import StreamRestore
from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.api import request
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import find_stream, stream_state

# Seconds without a new message after which a stream counts as stuck, and between two looks.
_STUCK_S, _AGAIN_S = 15.0, 0.2


def check_filled(link: Link, one: StreamRestore, check_stop: Callable[[], object]) -> int:
    """Wait until a stream has what its origins have now; the number of its messages. Raises SourceError if it stays
    without them."""
    until, last, since = _mirrored_up_to(link, one), -1, time.monotonic()
    while True:
        check_stop()
        state = stream_state(link, one.stream)
        lag = max(_lag(link, one), until - state.last_seq)
        if lag <= 0:
            return state.messages
        if state.last_seq != last:
            last, since = state.last_seq, time.monotonic()
        if time.monotonic() - since > _STUCK_S:
            raise SourceError(
                f"Stream {one.stream} is {lag} messages short of what it is filled from, and gets none",
                "See the server's log; the stream stays, and the server goes on with it",
            )
        time.sleep(_AGAIN_S)


def _mirrored_up_to(link: Link, one: StreamRestore) -> int:
    """The sequence that a mirror of all messages has to get to; 0 for another stream."""
    mirror: Mapping[str, Any] = one.wanted.get("mirror") or {}
    if not one.origins or not mirror or mirror.get("filter_subject") or mirror.get("subject_transforms"):
        return 0
    origin = find_stream(link, one.origins[0])
    return origin.last_seq if origin else 0


def _lag(link: Link, one: StreamRestore) -> int:
    """The number of messages that the origins in this account have and the stream has not, as the server says it; 1 for
    each origin that it has not heard of yet."""
    info: dict[str, Any] = link.call(request, f"STREAM.INFO.{one.stream}")
    every: list[dict[str, Any]] = [*([info["mirror"]] if info.get("mirror") else []), *(info.get("sources") or ())]
    own = [each for each in every if each["name"] in one.origins]
    return sum(int(each.get("lag") or 0) if int(each.get("active", -1)) >= 0 else 1 for each in own)

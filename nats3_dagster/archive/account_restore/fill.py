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
    """Wait until a stream has what its origins have; the number of its messages. Raises SourceError if it stays without
    them."""
    last, since = -1, time.monotonic()
    while True:
        check_stop()
        state = stream_state(link, one.stream)
        lag = _lag(link, one)
        if lag == 0:
            break
        if state.last_seq != last:
            last, since = state.last_seq, time.monotonic()
        if time.monotonic() - since > _STUCK_S:
            raise SourceError(
                f"Stream {one.stream} is {lag} messages short of what it is filled from, and gets none",
                "See the server's log; the stream stays, and the server goes on with it",
            )
        time.sleep(_AGAIN_S)
    return state.messages


def _lag(link: Link, one: StreamRestore) -> int:
    """The number of messages that the origins in this account have and the stream has not."""
    state = stream_state(link, one.stream)
    mirror: Mapping[str, Any] = one.wanted.get("mirror") or {}
    if mirror and one.origins:
        origin = find_stream(link, one.origins[0])
        return max(0, origin.last_seq - state.last_seq) if origin else 0
    sources = [source for source in _sources(link, one.stream) if source["name"] in one.origins]
    return sum(int(source.get("lag") or 0) if _is_known(source) else 1 for source in sources)


def _is_known(source: Mapping[str, Any]) -> bool:
    """True if the server has heard of the source since it goes on with it."""
    return int(source.get("active", -1)) >= 0


def _sources(link: Link, stream: str) -> list[dict[str, Any]]:
    info: dict[str, Any] = link.call(request, f"STREAM.INFO.{stream}")
    return list(info.get("sources") or ())

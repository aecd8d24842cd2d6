"""Administration: what servers and streams are, and where in a stream a time is.

The rule kept here: synchronous functions over a Link, each safe to call again; times and sequences come from the server
and are exact.
"""

import difflib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats3_dagster.errors import OperatorError, SourceError, StreamChanged
from nats3_dagster.hours import SECOND_NS, format_time, parse_time
from nats3_dagster.jetstream.api import Refused, pages, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.connection import Link
from nats3_dagster.jetstream.settle import subject_of_both, until_stored
from nats3_dagster.model import Incarnation, StreamState
from nats3_dagster.subjects import overlap

_STREAM_NOT_FOUND, _NAME_IN_USE, _MESSAGE_NOT_FOUND = 10059, 10058, 10037
# Stream settings by the server version that knows them: an older one would drop them in silence or refuse them.
_SINCE: Mapping[str, tuple[int, int]] = {
    "compression": (2, 10), "metadata": (2, 10), "first_seq": (2, 10), "subject_transform": (2, 10),
    "consumer_limits": (2, 10), "allow_msg_ttl": (2, 11), "subject_delete_marker_ttl": (2, 11), "allow_atomic": (2, 12),
    "allow_msg_counter": (2, 12), "allow_msg_schedules": (2, 12), "persist_mode": (2, 12), "allow_batched": (2, 14),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the server says of itself. `max_payload` is in bytes and counts header block and payload together."""

    version: tuple[int, int, int]
    name: str
    address: str
    max_payload: int
    jetstream: bool


def server_info(link: Link) -> ServerInfo:
    """The server that this link is connected to."""
    info = link.client.info
    return ServerInfo(
        version_of(info), str(info.get("server_name", "")), link.client.address, int(info["max_payload"]),
        bool(info.get("jetstream")),
    )  # fmt: skip


def version_of(info: Mapping[str, Any]) -> tuple[int, int, int]:
    """The version in a server's INFO; pre-releases count as the release."""
    parts = str(info.get("version", "")).partition("-")[0].split(".")
    numbers = [int(p) if p.isdigit() else 0 for p in (*parts, "0", "0", "0")[:3]]
    return numbers[0], numbers[1], numbers[2]


def stream_state(link: Link, stream: str) -> StreamState:
    """Identity, bounds and configuration. Raises OperatorError for an unknown stream."""
    return link.call(stream_info, stream)


def same_stream(link: Link, incarnation: Incarnation) -> StreamState:
    """`stream_state` of this very incarnation. Raises StreamChanged when the stream was deleted or made again."""
    return link.call(same_stream_info, incarnation)


def stream_names(link: Link, subject: str | None = None) -> list[str]:
    """The streams of the account, or those that capture something of `subject`; sorted."""
    return link.call(_names, subject)


def streams_listening(link: Link, subject: str) -> list[StreamState]:
    """The streams that capture something of `subject`, which may hold wildcards; sorted by name."""

    async def work(client: Connection) -> list[StreamState]:
        return [_state(info) async for info in pages(client, "STREAM.LIST", "streams", {"subject": subject})]

    return sorted(link.call(work), key=lambda state: state.name)


def first_seq_at(link: Link, stream: str, time_ns: int) -> int:
    """The first sequence stored at `time_ns` or later; the last one plus 1 when there is none."""
    return link.call(_first_seq_at, stream, time_ns)


def message_time(link: Link, stream: str, seq: int) -> int | None:
    """Store time of a message in nanoseconds, or None when the stream does not hold it (any more)."""

    async def work(client: Connection) -> int | None:
        try:
            answer = await request(client, f"STREAM.MSG.GET.{stream}", {"seq": seq})
        except Refused as error:
            if error.code == _MESSAGE_NOT_FOUND:
                return None
            raise
        return parse_time(answer["message"]["time"])

    return link.call(work)


def message_from(link: Link, stream: str, seq: int) -> tuple[int, int] | None:
    """Sequence and store time of the first message at `seq` or later; None when the stream holds none."""
    return link.call(next_message, stream, seq)


def create_stream(link: Link, config: Mapping[str, Any]) -> StreamState:
    """Make a stream, or find it with this very configuration; settings the server is too old for are left out.

    Raises OperatorError when the name is taken by another configuration, Refused for one that the server will not
    have."""

    async def work(client: Connection) -> StreamState:
        version = version_of(client.info)
        known = {key: value for key, value in config.items() if version >= _SINCE.get(key, (0, 0))}
        try:
            return _state(await request(client, f"STREAM.CREATE.{config['name']}", known))
        except Refused as error:
            if error.code == _NAME_IN_USE:
                raise OperatorError(
                    f"Stream {config['name']} exists with another configuration", "Use it as it is, or another name"
                ) from error
            raise

    return link.call(work)


def settle(link: Link, stream: str, pattern: str = ">", timeout_s: float = 10.0) -> None:
    """Return when the stream has stored every message that reached it before, so that who reads it misses none of
    them. Only subjects that `pattern` takes are published to. Raises Interrupted when that takes longer."""

    async def work(client: Connection) -> None:
        listened = (await stream_info(client, stream)).subjects
        subject = next((subject_of_both(s, pattern) for s in listened if overlap(s, pattern)), None)
        if subject:
            await until_stored(client, subject, time.monotonic() + timeout_s)

    link.call(work)


def delete_stream(link: Link, stream: str) -> None:
    """Delete a stream and all its messages. Raises OperatorError for an unknown one."""

    async def work(client: Connection) -> None:
        try:
            await request(client, f"STREAM.DELETE.{stream}")
        except Refused as error:
            raise (await _unknown(client, stream) if error.code == _STREAM_NOT_FOUND else error) from error

    link.call(work)


async def stream_info(client: Connection, stream: str) -> StreamState:
    """`stream_state` for callers in the loop."""
    try:
        return _state(await request(client, f"STREAM.INFO.{stream}"))
    except Refused as error:
        raise (await _unknown(client, stream) if error.code == _STREAM_NOT_FOUND else error) from error


async def same_stream_info(client: Connection, incarnation: Incarnation) -> StreamState:
    """`same_stream` for callers in the loop."""
    try:
        state = _state(await request(client, f"STREAM.INFO.{incarnation.stream}"))
    except Refused as error:
        if error.code == _STREAM_NOT_FOUND:
            raise stream_changed(incarnation, "deleted") from error
        raise
    if state.incarnation != incarnation:
        raise stream_changed(incarnation, f"made again at {format_time(state.incarnation.created_ns)}")
    return state


def stream_changed(incarnation: Incarnation, what: str) -> StreamChanged:
    """The error for a stream that is not the planned one any more; `what` was done to it."""
    return StreamChanged(
        f"Stream {incarnation.stream} was {what} since this was planned",
        "Plan again; sequences of the old stream that were not captured are lost",
    )


async def next_message(client: Connection, stream: str, seq: int, subject: str = ">") -> tuple[int, int] | None:
    """Sequence and store time of the first message at `seq` or later whose subject the filter `subject` takes; None
    when the stream holds none. The stream's leader answers, never another replica."""
    try:
        answer = await request(client, f"STREAM.MSG.GET.{stream}", {"seq": seq, "next_by_subj": subject})
    except Refused as error:
        if error.code == _MESSAGE_NOT_FOUND:
            return None
        raise
    return int(answer["message"]["seq"]), parse_time(answer["message"]["time"])


async def delete_consumer(client: Connection, stream: str, name: str) -> None:
    """Delete a consumer of ours if it is still there and the server answers."""
    try:
        await request(client, f"CONSUMER.DELETE.{stream}.{name}", patience_s=0)
    except SourceError:
        return


async def _names(client: Connection, subject: str | None) -> list[str]:
    body = {"subject": subject} if subject else {}
    return sorted([str(name) async for name in pages(client, "STREAM.NAMES", "streams", body)])


async def _unknown(client: Connection, stream: str) -> OperatorError:
    names = await _names(client, None)
    near = difflib.get_close_matches(stream, names, n=3, cutoff=0.5) or names[:5]
    hint = f"There is {', '.join(near)}" if near else "The account has no streams at all"
    return OperatorError(f"There is no stream {stream} at NATS {client.address}", hint)


async def _first_seq_at(client: Connection, stream: str, time_ns: int) -> int:
    name = f"nats3-{secrets.token_hex(8)}"
    config = {
        "name": name, "ack_policy": "none", "deliver_policy": "by_start_time", "opt_start_time": format_time(time_ns),
        "mem_storage": True, "num_replicas": 1, "inactive_threshold": 10 * SECOND_NS,
    }  # fmt: skip
    try:
        made = await request(client, f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})
    except Refused as error:
        raise (await _unknown(client, stream) if error.code == _STREAM_NOT_FOUND else error) from error
    await request(client, f"CONSUMER.DELETE.{stream}.{name}")
    # A new consumer counts as delivered what lies before its start.
    first = int(made["delivered"]["stream_seq"]) + 1
    # Where messages were deleted, 2.9 may name one that is too early, the one before the deleted ones: then look.
    found = await next_message(client, stream, first)
    if found is None or found[1] >= time_ns:
        return first
    first, end = found[0] + 1, (await stream_info(client, stream)).last_seq + 1
    while first < end:
        middle = (first + end) // 2
        found = await next_message(client, stream, middle)
        if found is None or found[1] >= time_ns:
            end = middle
        else:
            first = found[0] + 1
    found = await next_message(client, stream, end)
    return found[0] if found else (await stream_info(client, stream)).last_seq + 1


def _state(info: Mapping[str, Any]) -> StreamState:
    state, config = info["state"], info["config"]
    return StreamState(
        Incarnation(config["name"], parse_time(info["created"])),
        first_seq=state["first_seq"], last_seq=state["last_seq"], first_ns=_time(state["first_ts"]),
        last_ns=_time(state["last_ts"]), messages=state["messages"], bytes=state["bytes"], config=config,
    )  # fmt: skip


def _time(text: str) -> int:
    """Nanoseconds of a stream's first or last time, which is the year 1 while it never had a message."""
    return max(0, parse_time(text))

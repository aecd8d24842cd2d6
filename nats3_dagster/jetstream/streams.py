"""Streams: what a server and its streams are, and where in a stream a time is.

Synchronous functions over a Link, each safe to call again. Times and sequences come from the server and are exact.
"""

import asyncio
import base64
import difflib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nats3_dagster.errors import OperatorError, SourceError, StreamChanged, UnknownStream
from nats3_dagster.hours import SECOND_NS, format_time, parse_time
from nats3_dagster.jetstream.api import Refused, pages, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode, known_settings, version_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import Incarnation, SeqRange, StreamState
from nats3_dagster.model.stream import ranges_of

# Requests under way at a time where many are asked.
ASKED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the server says of itself."""

    version: tuple[int, int, int]
    id: str  # another one at each start
    address: str  # host:port
    max_payload: int  # bytes of header block and payload of a message together
    jetstream: bool  # whether it has JetStream
    clustered: bool = False  # whether it is one of a cluster


def server_info(link: Link) -> ServerInfo:
    """The server that this link is connected to."""
    info = link.client.info
    return ServerInfo(
        version_of(info), str(info.get("server_id", "")), link.client.address, int(info["max_payload"]),
        bool(info.get("jetstream")), bool(info.get("cluster")),
    )  # fmt: skip


def stream_state(link: Link, stream: str) -> StreamState:
    """Identity, bounds and configuration. Raises UnknownStream if there is none of this name."""
    return link.call(stream_info, stream)


def stream_states(
    link: Link, streams: Iterable[str], patience_s: float
) -> dict[str, StreamState | SourceError | UnknownStream]:
    """`stream_state` of each, asked all at once; UnknownStream for one that is not there, SourceError where no answer
    comes within `patience_s`."""

    async def one(client: Connection, stream: str) -> StreamState | SourceError | UnknownStream:
        try:
            return await asyncio.wait_for(stream_info(client, stream), patience_s)
        except TimeoutError:
            return SourceError(f"Stream {stream} did not answer within {patience_s:g} s", "Has it a leader?")
        except (SourceError, UnknownStream) as error:
            return error

    async def every(client: Connection) -> dict[str, StreamState | SourceError | UnknownStream]:
        names = sorted(set(streams))
        return dict(zip(names, await asyncio.gather(*(one(client, name) for name in names)), strict=True))

    return link.call(every)


def find_stream(link: Link, stream: str) -> StreamState | None:
    """`stream_state`; None for an unknown stream."""

    async def work(client: Connection) -> StreamState | None:
        try:
            return _state(await request(client, f"STREAM.INFO.{stream}"))
        except Refused as error:
            if error.code == ErrCode.STREAM_NOT_FOUND:
                return None
            raise

    return link.call(work)


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


def message_from(link: Link, stream: str, seq: int) -> tuple[int, int] | None:
    """Sequence and store time of the first message at `seq` or later; None when the stream holds none."""
    return link.call(next_message, stream, seq)


def last_payload(link: Link, stream: str, subject: str) -> bytes | None:
    """The payload of the newest message of this one subject; None when the stream holds none."""

    async def work(client: Connection) -> bytes | None:
        try:
            answer = await request(client, f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})
        except Refused as error:
            if error.code == ErrCode.MESSAGE_NOT_FOUND:
                return None
            raise
        return base64.b64decode(answer["message"].get("data", ""))

    return link.call(work)


def message_times(link: Link, messages: Iterable[tuple[str, int]], patience_s: float) -> dict[tuple[str, int], int]:
    """Store times of messages by stream and sequence, asked all at once. A message that is not there is left out, and
    one of which no answer comes within `patience_s`."""

    async def one(client: Connection, stream: str, seq: int) -> int | None:
        try:
            message = await asyncio.wait_for(next_message(client, stream, seq), patience_s)
        except (TimeoutError, SourceError):
            return None
        return message[1] if message and message[0] == seq else None

    async def every(client: Connection) -> dict[tuple[str, int], int]:
        wanted = sorted(set(messages))
        times = await asyncio.gather(*(one(client, stream, seq) for stream, seq in wanted))
        return {message: time_ns for message, time_ns in zip(wanted, times, strict=True) if time_ns is not None}

    return link.call(every)


def create_stream(link: Link, config: Mapping[str, Any]) -> StreamState:
    """Make a stream, or find it with this very configuration; settings the server is too old for are left out.

    Raises OperatorError if the name is taken by another configuration, Refused if the server refuses this one."""

    async def work(client: Connection) -> StreamState:
        settings = known_settings(config, version_of(client.info))
        try:
            return _state(await request(client, f"STREAM.CREATE.{config['name']}", settings))
        except Refused as error:
            if error.code == ErrCode.STREAM_NAME_IN_USE:
                raise stream_name_taken(config["name"]) from error
            raise

    return link.call(work)


def stream_name_taken(stream: str) -> OperatorError:
    """The error for a stream to be created under the name of one that is another."""
    return OperatorError(f"Stream {stream} exists with another configuration", "Use it as it is, or another name")


def delete_stream(link: Link, stream: str) -> None:
    """Delete a stream and all its messages. Raises UnknownStream if there is none of this name."""
    link.call(_ask, stream, f"STREAM.DELETE.{stream}")


async def stream_info(client: Connection, stream: str) -> StreamState:
    """`stream_state` for callers in the loop."""
    return _state(await _ask(client, stream, f"STREAM.INFO.{stream}"))


async def same_stream_info(client: Connection, incarnation: Incarnation) -> StreamState:
    """`same_stream` for callers in the loop."""
    try:
        state = _state(await request(client, f"STREAM.INFO.{incarnation.stream}"))
    except Refused as error:
        if error.code == ErrCode.STREAM_NOT_FOUND:
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
        if error.code == ErrCode.MESSAGE_NOT_FOUND:
            return None
        raise
    return int(answer["message"]["seq"]), parse_time(answer["message"]["time"])


async def first_held(
    client: Connection, incarnation: Incarnation, seqs: SeqRange, filters: Sequence[str]
) -> int | None:
    """The first sequence of the range that the leader holds and a filter takes (no filters: any), by the first filter
    that takes one. None proves that the leader held none. One request a filter, and one more for None.

    It is the leader's word, because a consumer's is no proof: it lives on any replica, also on one that lags, and its
    server may count too few messages as pending while others are stored and removed at once. Raises StreamChanged."""
    for subject in filters or (">",):
        message = await next_message(client, incarnation.stream, seqs.first, subject)
        if message and message[0] <= seqs.last:
            return message[0]
    # Asked last: a stream that was made again meanwhile answered for the one that was asked for.
    await same_stream_info(client, incarnation)
    return None


def held_ranges(
    link: Link, incarnation: Incarnation, ranges: Sequence[SeqRange], filters: Sequence[str]
) -> list[int | None]:
    """For each range the first sequence that the leader holds and a filter takes (no filters: any); None proves that it
    held none when it was asked. Raises StreamChanged."""

    async def one(client: Connection, seqs: SeqRange, turn: asyncio.Semaphore) -> int | None:
        for subject in filters or (">",):
            async with turn:
                message = await next_message(client, incarnation.stream, seqs.first, subject)
            if message and message[0] <= seqs.last:
                return message[0]
        return None

    async def every(client: Connection) -> list[int | None]:
        turn = asyncio.Semaphore(ASKED_AT_ONCE)
        held = await asyncio.gather(*(one(client, seqs, turn) for seqs in ranges))
        # Asked last: a stream that was made again meanwhile answered for the one that was asked for.
        await same_stream_info(client, incarnation)
        return held

    return link.call(every) if ranges else []


def first_held_at(link: Link, stream: str, time_ns: int) -> int:
    """The first sequence that the stream holds and that was stored at `time_ns` or later; the last one plus 1 when
    there is none. Unlike `first_seq_at` it makes no consumer, which a work queue would refuse: about 20 requests."""
    return link.call(_first_held_at, stream, time_ns, 1)


async def delete_consumer(client: Connection, stream: str, name: str) -> None:
    """Delete a consumer of ours if it is still there and the server answers."""
    try:
        await request(client, f"CONSUMER.DELETE.{stream}.{name}", patience_s=0)
    except SourceError:
        return


async def _names(client: Connection, subject: str | None) -> list[str]:
    body = {"subject": subject} if subject else {}
    return sorted([str(name) async for name in pages(client, "STREAM.NAMES", "streams", body)])


async def _ask(client: Connection, stream: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A request about a stream. Raises UnknownStream if there is none of this name."""
    try:
        return await request(client, path, body)
    except Refused as error:
        raise (await _unknown(client, stream) if error.code == ErrCode.STREAM_NOT_FOUND else error) from error


async def _unknown(client: Connection, stream: str) -> UnknownStream:
    names = await _names(client, None)
    shown = difflib.get_close_matches(stream, names, n=3, cutoff=0.5) or names[:5]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    hint = f"There is {', '.join(shown)}{more}" if names else "The account has no streams at all"
    return UnknownStream(f"There is no stream {stream} at NATS {client.address}", hint)


async def _first_seq_at(client: Connection, stream: str, time_ns: int) -> int:
    name = f"nats3-{secrets.token_hex(8)}"
    config = {
        "name": name, "ack_policy": "none", "deliver_policy": "by_start_time", "opt_start_time": format_time(time_ns),
        "mem_storage": True, "num_replicas": 1, "inactive_threshold": 10 * SECOND_NS,
    }  # fmt: skip
    body = {"stream_name": stream, "config": config}
    created = await _ask(client, stream, f"CONSUMER.CREATE.{stream}.{name}", body)
    try:
        await request(client, f"CONSUMER.DELETE.{stream}.{name}")
    except Refused as error:
        if error.code != ErrCode.CONSUMER_NOT_FOUND:  # the first of two requests, whose answer was lost
            raise
    # A new consumer counts as delivered what lies before its start.
    first = int(created["delivered"]["stream_seq"]) + 1
    # Where messages were deleted, 2.9 may name one that is too early, the one before the deleted ones: then look.
    message = await next_message(client, stream, first)
    if message is None or message[1] >= time_ns:
        return first
    return await _first_held_at(client, stream, time_ns, message[0] + 1)


async def _first_held_at(client: Connection, stream: str, time_ns: int, first: int) -> int:
    """By halves, from `first` on."""
    end = (await stream_info(client, stream)).last_seq + 1
    while first < end:
        middle = (first + end) // 2
        message = await next_message(client, stream, middle)
        if message is None or message[1] >= time_ns:
            end = middle
        else:
            first = message[0] + 1
    message = await next_message(client, stream, end)
    return message[0] if message else (await stream_info(client, stream)).last_seq + 1


def _state(info: Mapping[str, Any]) -> StreamState:
    state, config = info["state"], info["config"]
    damaged: dict[str, Any] = state.get("lost") or {}
    return StreamState(
        Incarnation(config["name"], parse_time(info["created"])),
        first_seq=state["first_seq"], last_seq=state["last_seq"], first_ns=_time(state["first_ts"]),
        last_ns=_time(state["last_ts"]), messages=state["messages"], bytes=state["bytes"], config=config,
        damaged=ranges_of(damaged.get("msgs") or ()),
        consumers=state.get("consumer_count", 0), leader=str((info.get("cluster") or {}).get("leader") or ""),
    )  # fmt: skip


def _time(text: str) -> int:
    """Nanoseconds of a stream's first or last time, which is the year 1 while it never had a message."""
    return max(0, parse_time(text))

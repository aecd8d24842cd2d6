"""Streams: what the streams of an account are, and making and deleting them.

Synchronous functions over a Link, each safe to call again.
"""

import asyncio
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from nats3_dagster.errors import OperatorError, SourceError, StreamChanged, UnknownStream
from nats3_dagster.hours import format_time, parse_time
from nats3_dagster.jetstream.api import Refused, leader_of, pages, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode, supported_settings, version_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import Incarnation, StreamState
from nats3_dagster.model.stream import ranges_of, through_buffer


def stream_state(link: Link, stream: str) -> StreamState:
    """Identity, bounds and configuration. Raises UnknownStream if there is none of this name."""
    return link.call(stream_info, stream)


def no_answer(client: Connection, stream: str, patience_s: float) -> SourceError:
    """The error for a stream that did not answer: that of the login, where the server refuses it meanwhile."""
    late = SourceError(f"Stream {stream} did not answer within {patience_s:g} s", "Has it a leader?")
    return client.login_error or late


def stream_states(
    link: Link, streams: Iterable[str], patience_s: float
) -> dict[str, StreamState | SourceError | UnknownStream]:
    """`stream_state` of each, asked all at once; UnknownStream for one that is not there, SourceError where no answer
    comes within `patience_s`."""

    async def one(client: Connection, stream: str) -> StreamState | SourceError | UnknownStream:
        try:
            return await asyncio.wait_for(stream_info(client, stream), patience_s)
        except TimeoutError:
            return no_answer(client, stream, patience_s)
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


def confirm_origin(link: Link, incarnation: Incarnation) -> None:
    """Raises StreamChanged unless what was read of the incarnation through a buffer is of it. A mirror goes on with
    whichever stream has the name of its origin: only the origin, asked after the last message was read, says whose
    messages these are. Of a stream that was read itself nothing is asked."""
    if incarnation.buffer:
        same_stream(link, incarnation)


def stream_names(link: Link, subject: str | None = None) -> list[str]:
    """The streams of the account, or those that capture something of `subject`; sorted."""
    return link.call(_names, subject)


def streams_listening(link: Link, subject: str) -> list[StreamState]:
    """The streams that capture something of `subject`, which may hold wildcards; sorted by name. Mirrors are none of
    them, nor are streams that only have sources."""
    return link.call(_listed, {"subject": subject})


def all_streams(link: Link) -> list[StreamState]:
    """All streams of the account, sorted by name; a request for each 256 of them."""
    return link.call(_listed, {})


def subject_counts(link: Link, stream: str, filter_: str = ">") -> dict[str, int]:
    """Returns the number of messages that the stream has of each subject that the filter takes. Raises UnknownStream if
    there is none of this name. A server gives 100,000 subjects a page."""

    async def work(client: Connection) -> dict[str, int]:
        counts: dict[str, int] = {}
        while True:
            body = {"subjects_filter": filter_, "offset": len(counts)}
            answer = await request_of_stream(client, stream, f"STREAM.INFO.{stream}", body)
            page: dict[str, int] = answer["state"].get("subjects") or {}
            counts |= page
            if not page or len(counts) >= answer.get("total", 0):
                return counts

    return link.call(work)


def create_stream(link: Link, config: Mapping[str, Any]) -> StreamState:
    """Make a stream, or find it with this very configuration; settings the server is too old for are left out.

    Raises OperatorError if the name is taken by another configuration, Refused if the server refuses this one."""

    async def work(client: Connection) -> StreamState:
        settings = supported_settings(config, version_of(client.info))
        try:
            return _state(await request(client, f"STREAM.CREATE.{config['name']}", settings))
        except Refused as error:
            if error.code == ErrCode.STREAM_NAME_IN_USE:
                raise stream_name_taken(config["name"]) from error
            raise

    return link.call(work)


def update_stream(link: Link, config: Mapping[str, Any]) -> StreamState:
    """Gives a stream this configuration. Raises UnknownStream if there is none of this name, Refused if the server
    refuses the change."""

    async def work(client: Connection) -> StreamState:
        return _state(await request_of_stream(client, config["name"], f"STREAM.UPDATE.{config['name']}", config))

    return link.call(work)


def stream_name_taken(stream: str) -> OperatorError:
    """The error for a stream to be created under the name of one that is another."""
    return OperatorError(f"Stream {stream} exists with another configuration", "Use it as it is, or another name")


def delete_stream(link: Link, stream: str) -> None:
    """Delete a stream and all its messages. Raises UnknownStream if there is none of this name."""
    link.call(request_of_stream, stream, f"STREAM.DELETE.{stream}")


async def stream_info(client: Connection, stream: str) -> StreamState:
    """`stream_state` for callers in the loop."""
    return _state(await request_of_stream(client, stream, f"STREAM.INFO.{stream}"))


async def same_stream_info(client: Connection, incarnation: Incarnation) -> StreamState:
    """`same_stream` for callers in the loop. Of a stream that is read from a buffer the buffer is asked first: the
    stream's answer after it proves that what the buffer has came from this incarnation."""
    buffer = incarnation.buffer
    held = await _life(client, incarnation, buffer.stream, buffer.created_ns) if buffer else None
    state = await _life(client, incarnation, incarnation.stream, incarnation.server_created_ns)
    state = replace(state, incarnation=replace(incarnation, buffer=None))
    return through_buffer(state, held) if held else replace(state, incarnation=incarnation)


async def _life(client: Connection, incarnation: Incarnation, stream: str, created_ns: int) -> StreamState:
    """The state of the stream, or of the buffer, of this name. Raises StreamChanged if it was not created then."""
    try:
        state = _state(await request(client, f"STREAM.INFO.{stream}"))
    except Refused as error:
        if error.code == ErrCode.STREAM_NOT_FOUND:
            raise stream_changed(incarnation, "deleted", stream) from error
        raise
    if state.incarnation.created_ns != created_ns:
        raise stream_changed(incarnation, f"made again at {format_time(state.incarnation.created_ns)}", stream)
    return state


def stream_changed(incarnation: Incarnation, what: str, stream: str = "") -> StreamChanged:
    """The error for a stream that is not the planned one any more, or whose buffer `stream` is not; `what` was done to
    it."""
    return StreamChanged(
        f"Stream {stream or incarnation.stream} was {what} since this was planned",
        "Plan again; sequences of the old stream that were not captured are lost",
    )


async def _listed(client: Connection, body: Mapping[str, Any]) -> list[StreamState]:
    states = [_state(info) async for info in pages(client, "STREAM.LIST", "streams", body)]
    # A stream that is made between two pages moves those after it into the next one.
    return sorted({state.name: state for state in states}.values(), key=lambda state: state.name)


async def _names(client: Connection, subject: str | None) -> list[str]:
    body = {"subject": subject} if subject else {}
    return sorted([str(name) async for name in pages(client, "STREAM.NAMES", "streams", body)])


async def request_of_stream(
    client: Connection, stream: str, path: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
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


def _state(info: Mapping[str, Any]) -> StreamState:
    state, config = info["state"], info["config"]
    damaged: dict[str, Any] = state.get("lost") or {}
    return StreamState(
        Incarnation(config["name"], parse_time(info["created"])),
        first_seq=state["first_seq"],
        last_seq=state["last_seq"],
        first_ns=_time(state["first_ts"]),
        last_ns=_time(state["last_ts"]),
        messages=state["messages"],
        bytes=state["bytes"],
        config=config,
        damaged=ranges_of(damaged.get("msgs") or ()),
        consumers=state.get("consumer_count", 0),
        leader=leader_of(info),
        answered_ns=parse_time(info["ts"]) if info.get("ts") else None,
    )


def _time(text: str) -> int:
    """Nanoseconds of a stream's first or last time, which is the year 1 while it never had a message."""
    return max(0, parse_time(text))

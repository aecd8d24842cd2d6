"""Targets: the streams that take what a replay publishes, what they do with messages, and whether they still are what
they were."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from nats3_dagster.errors import StreamChanged, TargetError
from nats3_dagster.jetstream.codes import REFUSED_ID_IS_FATAL
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.server import ServerInfo, check_version, server_info
from nats3_dagster.jetstream.streams import stream_state, streams_listening
from nats3_dagster.model import ReplaySpec, ReplayTarget, StreamState
from nats3_dagster.model.stream import removing_settings

# How messages go out: fast-ingest batches; atomic batches; a chain of expected ids; each after the answer to the one
# before; a window of messages that do not depend on each other.
Way = Literal["batch", "atomic", "chain", "single", "window"]
# How long a new leader of a stream may take to have all that the one before acknowledged.
CATCH_UP_S = 5.0


def listening(link: Link, patterns: Iterable[str]) -> list[StreamState]:
    """The streams that take some of the subjects of these filters, by name."""
    states = {state.name: state for pattern in patterns for state in streams_listening(link, pattern)}
    return [states[name] for name in sorted(states)]


def supports_batches(streams: Sequence[StreamState], server: ServerInfo) -> bool:
    """True if there is one target, and it takes fast-ingest batches."""
    return server.supports_batches and len(streams) == 1 and bool(streams[0].config.get("allow_batched"))


def supports_chain(state: StreamState, server: ServerInfo) -> bool:
    """True if a chain of expected ids that breaks, by a lost message or another publisher's, harms the stream no
    further. Replicas of newer servers stop at the first refusal, and nothing starts them again."""
    return server.version < REFUSED_ID_IS_FATAL or state.config.get("num_replicas", 1) == 1


def takes_atomic(spec: ReplaySpec, state: StreamState) -> bool:
    """True if the stream takes the replay in atomic batches. A live one may have rollups: a batch with one for a
    subject that the batch has before is refused."""
    return not spec.live and bool(state.config.get("allow_atomic"))


def way_out(spec: ReplaySpec, streams: Sequence[StreamState], server: ServerInfo, *, batched: bool) -> Way:
    """The way in which the messages of a replay are published.

    Where the order is that of the stream, one target gets them so that it always holds a beginning of them. No message
    expects a sequence (`Nats-Expected-Last-Sequence`) for that: if another client publishes in between, the next
    message is refused and the one after it fits again."""
    if batched:
        return "batch"
    if not spec.marks or len(streams) != 1:
        return "window"
    if supports_chain(streams[0], server):
        return "chain"
    if spec.order != "stream":
        return "window"
    return "atomic" if takes_atomic(spec, streams[0]) else "single"


def removes(state: StreamState) -> bool:
    """True if the stream is designed to remove messages that are not its oldest: by a limit per subject, or because its
    consumers have acknowledged them."""
    config = state.config
    return config.get("retention", "limits") != "limits" or config.get("max_msgs_per_subject", -1) > 0


def stores_nothing(state: StreamState) -> bool:
    """True if the stream acknowledges messages and stores none: it keeps them for consumers, and has none."""
    return state.config.get("retention") == "interest" and not state.consumers


def blind_settings(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the settings that let a stream remove its own messages and then have fewer than they allow: a purge
    cannot be told from that. With max_msgs alone it can: the stream then is full."""
    if config.get("retention", "limits") != "limits":
        return ("retention",)
    return tuple(name for name in removing_settings(config) if name != "max_msgs")


def target_state(link: Link, target: ReplayTarget) -> StreamState:
    """The target as it is now. Raises StreamChanged if it is another stream than when the replay began: what the replay
    published there is gone with it."""
    state = stream_state(link, target.incarnation.stream)
    if state.incarnation != target.incarnation:
        raise StreamChanged(
            f"Stream {state.name} was deleted and made again after this replay began",
            "What was published is gone with it: create a new replay",
        )
    return state


def check_resumable(link: Link, targets: Sequence[ReplayTarget]) -> bool:
    """Check that the targets are the streams they were when the replay began; whether batches can be used. Raises
    StreamChanged, OperatorError for a server that is too old."""
    server = server_info(link)
    check_version(server)
    streams = [target_state(link, target) for target in targets]
    return supports_batches(streams, server)


def check_kept(link: Link, targets: Sequence[ReplayTarget], stored: Mapping[str, int], *, live: bool = False) -> None:
    """Check that the targets are the streams they were when the replay began, store what they acknowledge, and have not
    lost what they acknowledged up to these stream sequences. `live`: what is published may remove messages. Raises
    StreamChanged, TargetError."""
    for target in targets:
        until, seq = time.monotonic() + CATCH_UP_S, stored.get(target.incarnation.stream, 0)
        while (state := target_state(link, target)).last_seq < seq:
            if time.monotonic() > until:
                raise TargetError(
                    f"Stream {state.name} acknowledged sequence {seq} and ends at {state.last_seq}: it lost what it "
                    "had stored",
                    "Create a new replay, and delete what this one left",
                )
            time.sleep(0.1)
        if stores_nothing(state):
            raise TargetError(
                f"Stream {state.name} has interest retention and lost its last consumer: it acknowledges messages and "
                "stores none",
                "Create its consumers, and then a new replay; delete what this one left",
            )
        if live or removes(state) or blind_settings(state.config) or state.first_seq <= target.since_seq:
            continue
        limit, why = removing_settings(state.config).get("max_msgs"), "what it published was purged"
        if limit:
            if state.messages >= limit:
                continue  # it removed no more than it had to
            why = f"it has {state.messages} messages of {limit} (max_msgs), so it was purged, or its limit was raised"
        raise TargetError(
            f"Stream {state.name} begins at sequence {state.first_seq}, and this replay began at "
            f"{target.since_seq}: {why}",
            "Create a new replay, and delete what this one left",
        )

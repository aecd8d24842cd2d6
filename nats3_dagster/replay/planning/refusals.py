"""Refusals: what a target will not take, or not keep, by its configuration."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nats3_dagster.errors import TargetError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import subject_counts
from nats3_dagster.model import ReplaySpec, StreamState
from nats3_dagster.replay.messages.headers import MAX_BLOCK
from nats3_dagster.replay.planning.content import Content
from nats3_dagster.replay.planning.forgotten import SAMPLE
from nats3_dagster.replay.planning.measured import measured
from nats3_dagster.replay.planning.topology import Topology
from nats3_dagster.replay.targets import blind_settings, stores_nothing
from nats3_dagster.steps import Next
from nats3_dagster.subjects import readable

# Settings without which a stream refuses a header, and what messages with it do.
_HEADERS = {
    "allow_msg_counter": "increments",
    "allow_msg_ttl": "messages with a time to live",
    "allow_rollup_hdrs": "rollups",
    "allow_msg_schedules": "schedules",
}
# Bytes of a message in a stream that stores in files: a record has at most 32 MiB, with 34 and the subject beside it.
# Older servers store larger ones, and cannot read them again (nats-server issue 6797).
_MOST_IN_FILE = (32 << 20) - 35


@dataclass(frozen=True, slots=True)
class Load:
    """The load that a replay puts on a target."""

    # The number if `is_exact`, else an upper bound.
    messages: int
    is_exact: bool
    # Of subject, header block and payload, before anything is added: the bytes if `is_size_exact`, else an upper bound.
    payload_bytes: int
    is_size_exact: bool
    # The messages that subjects of the target get at least, as far as the catalog knows.
    subjects: Mapping[str, int]
    # Bytes, as replayed: the largest header block, and the largest header block and payload together.
    largest_block: int
    largest_message: int
    # True if messages for a counter have the sums of its sources.
    has_counter_sources: bool = False


def checked_load(content: Content, topology: Topology) -> Load:
    """Returns the load that the takers get. Raises TargetError if the server or one of them will not take it;
    StoreError, ChunkError."""
    load = _load(content, topology)
    _check_load(load, topology.server.max_payload)
    for taker in topology.takers:
        _check_takes(content, topology.source, taker, load)
    return load


def _load(content: Content, topology: Topology) -> Load:
    """Returns the load of the content. Sizes are exact where they may exceed a limit of the server or of a taker."""
    takers, extent = topology.takers, content.chosen.extent
    limits = (taker.config.get("max_msg_size", -1) for taker in takers)
    in_files = [_MOST_IN_FILE] if any(_is_in_files(taker.config) for taker in takers) else []
    limit = min([topology.server.max_payload, *in_files, *(size for size in limits if size >= 0)])
    for_counter = content.spec.live and any(taker.config.get("allow_msg_counter") for taker in takers)
    sizes = measured(content, limit, with_ids=not topology.batched, for_counter=for_counter)
    is_alone = len(takers) == 1
    return Load(
        extent.messages,
        extent.is_exact and is_alone,
        extent.payload_bytes,
        extent.is_size_exact and is_alone,
        content.counts() if extent.is_uncut and is_alone else {},
        sizes.block,
        sizes.message,
        sizes.has_counter_sources,
    )


def _check_load(load: Load, max_payload: int) -> None:
    """Raises TargetError if no stream of the server takes a header block or a message of this size. `max_payload`: the
    server's, in bytes."""
    if load.largest_block > MAX_BLOCK:
        raise TargetError(
            f"The largest header block has {load.largest_block} bytes with what a replay adds; a stream takes "
            f"{MAX_BLOCK} at most",
            Next.LEAVE_OUT_MARKS(),
        )
    if load.largest_message > max_payload:
        raise TargetError(
            f"The largest message takes {load.largest_message} bytes with its headers when replayed; the server's "
            f"max_payload is {max_payload}",
            f"Set max_payload of the target server to at least {load.largest_message}",
        )


def _check_takes(content: Content, source: Mapping[str, Any], target: StreamState, load: Load) -> None:
    """Raises TargetError if the target will refuse messages, or acknowledge what it does not store. `source` is the
    configuration of the archived stream."""
    for what, hint in _refusals(content.spec, source, target, load):
        raise TargetError(what, hint)
    for what, hint in () if content.spec.live else _too_full(content.workspace.link, target, load):
        raise TargetError(what, hint)


def _refusals(
    spec: ReplaySpec, source: Mapping[str, Any], target: StreamState, load: Load
) -> Iterator[tuple[str, Any]]:
    config, name = target.config, f"Stream {target.name}"
    if config.get("sealed"):
        yield f"{name} is sealed: it takes no message", "Choose another target: a stream stays sealed"
    if config.get("no_ack"):
        yield (
            f"{name} does not acknowledge messages (no_ack): what it stores could not be known",
            f"Set no_ack of stream {target.name} to false",
        )
    if stores_nothing(target):
        yield (
            f"{name} has interest retention and no consumer: it would acknowledge messages and store none",
            "Create its consumers first",
        )
    if config.get("allow_msg_counter") and not spec.live:
        yield f"{name} is for counters (allow_msg_counter), and takes nothing but increments", Next.MAKE_LIVE()
    if config.get("allow_msg_counter") and not source.get("allow_msg_counter"):
        yield (
            f"{name} is for counters (allow_msg_counter), and the archived stream {source['name']} is not",
            "Choose another target",
        )
    if load.has_counter_sources and config.get("allow_msg_counter") and config.get("sources"):
        what = (
            f"{name} has sources, and messages that come have the sums of theirs (Nats-Counter-Sources): it carries "
            "on the first of each subject, and would add up the same increments twice"
        )
        yield what, "Choose a target without sources"
    for setting, what in _HEADERS.items():
        if spec.live and source.get(setting) and not config.get(setting):
            yield (
                f"{name} refuses {what} ({setting} is not set), and the archived stream {source['name']} has them",
                f"Set {setting} of stream {target.name}, or replay without acting headers",
            )
    largest, limit = load.largest_message, config.get("max_msg_size", -1)
    if 0 <= limit < largest:
        yield (
            f"The largest message takes {largest} bytes with its headers when replayed; {name} takes up to {limit}",
            f"Set max_msg_size of stream {target.name} to at least {largest}",
        )
    if largest > _MOST_IN_FILE and _is_in_files(config):
        what = f"The largest message takes {largest} bytes with its headers when replayed; {name} stores in files"
        yield f"{what}, where a server takes up to {_MOST_IN_FILE}", "Choose a target with storage in memory"


def _is_in_files(config: Mapping[str, Any]) -> bool:
    return config.get("storage", "file") == "file"


def _too_full(link: Link, target: StreamState, load: Load) -> Iterator[tuple[str, str]]:
    """Yields the refusals of a stream that is full. By what surely comes only: what may be less may fit."""
    config = target.config
    if config.get("discard") != "new":
        return
    per = config.get("max_msgs_per_subject", -1)
    if config.get("discard_new_per_subject"):
        held = subject_counts(link, target.name) if per > 0 and load.subjects and target.messages else {}
        for subject, come in load.subjects.items():
            has = held.get(subject, 0)
            if 0 < per < has + come:
                what = f"Stream {target.name} takes up to {per} messages of {readable(subject)} (discard new)"
                yield (
                    f"{what}: it has {has}, and {come} come",
                    f"Set max_msgs_per_subject of stream {target.name} to at least {has + come}",
                )
    elif per > 0:
        return  # older messages of a subject make room
    for setting, has, more, is_exact in (
        ("max_msgs", target.messages, load.messages, load.is_exact),
        ("max_bytes", target.bytes, load.payload_bytes, load.is_size_exact),
    ):
        limit = config.get(setting, -1)
        if is_exact and 0 < limit < has + more:
            least = "" if setting == "max_msgs" else "more than "
            yield (
                f"Stream {target.name} takes up to {limit} ({setting}, discard new): it has {has}, and {more} come",
                f"Set {setting} of stream {target.name} to at least {least}{has + more}",
            )


def notes(targets: Iterable[StreamState], load: Load, *, marks: bool, alone: bool, live: bool) -> Iterator[str]:
    """Yields the messages that the targets will not keep, and other notes for the decision about a replay. `alone`:
    messages go one at a time. `live`: headers act (ReplaySpec)."""
    for target in targets:
        config, name = target.config, f"Stream {target.name}"
        if alone:
            unset = [name for name in ("allow_batched", "allow_atomic")[: 1 if live else 2] if not config.get(name)]
            advice = f". With {' or '.join(unset)} set it would take a thousand at once" if unset else ""
            yield (
                f"{name} has {config.get('num_replicas')} replicas and is sent no batches: each message waits for the "
                f"answer to the one before, about 1,000 a second{advice}"
            )
        if load.has_counter_sources and config.get("allow_msg_counter"):
            yield (
                f"{name} gets the counters with their totals, and not the sums of their sources (Nats-Counter-Sources):"
                " a server carries on those of the first message of each subject. So attach no sources to it: it would "
                "add up the same increments twice"
            )
        if config.get("retention", "limits") != "limits":
            yield f"{name} has {config['retention']} retention: its consumers take messages away"
        if (age := config.get("max_age", 0)) > 0:
            yield f"{name} removes messages {age / SECOND_NS:g} s after they are replayed (max_age)"
        if (per := config.get("max_msgs_per_subject", -1)) > 0 and not config.get("discard_new_per_subject"):
            yield f"{name} keeps the newest {per} of each subject (max_msgs_per_subject)"
        keeps, discards = "keeps the newest", ""
        if config.get("discard") == "new":
            keeps, discards = "takes up to", ", discard new"
        if 0 < (most := config.get("max_msgs", -1)) < target.messages + load.messages:
            yield f"{name} {keeps} {most} messages (max_msgs{discards}), and up to {load.messages} come"
        if 0 < (size := config.get("max_bytes", -1)) < target.bytes + load.payload_bytes:
            yield f"{name} {keeps} {size} bytes (max_bytes{discards}), and up to {load.payload_bytes} come"
        if target.messages > SAMPLE:
            yield (
                f"Messages of a replay that the catalog has forgotten are looked for in {SAMPLE} of the "
                f"{target.messages} messages of stream {target.name}"
            )
        if blind := blind_settings(config):
            yield f"A purge of stream {target.name} is not noticed: it removes messages itself ({', '.join(blind)})"
    if not marks:
        yield "Without marks, a replay that breaks off after its first message cannot be resumed"

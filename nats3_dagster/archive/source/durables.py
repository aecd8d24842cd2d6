"""The durable consumer through which an archive of the mode `consumer` takes its messages.

Invariant: only archives whose durable delivers each message until it is acknowledged, and to them alone, are made.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from nats3_dagster.archive.source.observe import Source
from nats3_dagster.archive.source.requirements import has_all_consumers
from nats3_dagster.catalog.archives.archives import durable_taken
from nats3_dagster.errors import Conflict, OperatorError, SourceError, UnknownConsumer
from nats3_dagster.jetstream.take.durable import (
    Durable,
    consumers_of,
    delete_durable,
    find_durable,
    make_durable,
    own_jetstream_has,
)
from nats3_dagster.model import Archive, ArchiveSpec, Deliveries, StreamState
from nats3_dagster.steps import Next
from nats3_dagster.subjects import covers, overlap
from nats3_dagster.workspace import Workspace

# Messages that a claim of the durable may have outstanding at least: with fewer a run spends its time on rounds.
LEAST_OUTSTANDING = 10_000
# Pulls that our own durable allows at a time: tasks that share it, if each pulls a whole chunk.
CLAIMS = 8
# How long the server waits for an acknowledgement, and more for a larger chunk. What a process that died has pulled
# comes again only after this time.
ACK_WAIT_S, ACK_BYTES_PER_S, MOST_ACK_WAIT_S = 30, 4 << 20, 300
# The least that a durable of the user may have: the server hears +WPI three times in it.
LEAST_ACK_WAIT_S = 5
# What a message has beside its payload and headers when it is delivered: the subjects.
FRAME_BYTES = 64 << 10


def open_durable(workspace: Workspace, spec: ArchiveSpec, state: StreamState) -> tuple[ArchiveSpec, Durable]:
    """The durable of a new archive, made unless the user names one; and the archive with its name and subjects.

    Raises OperatorError with the reason when the messages cannot be taken through it, Conflict when the name is
    taken."""
    durable = check_new_durable(workspace, spec, state)
    if durable is None:
        spec = replace(spec, durable=spec.own_durable)
        durable = _make(workspace, spec, None)
    return replace(spec, subjects=durable.filters), durable


def check_new_durable(workspace: Workspace, spec: ArchiveSpec, state: StreamState) -> Durable | None:
    """The durable that the user names for a new archive; None for one that the archive is to make. Raises as
    `open_durable` does."""
    check_others(workspace, spec, state)
    _check_acknowledgements(workspace, spec.stream, spec.durable or spec.own_durable)
    for archive in workspace.catalog.archives.all():
        if spec.durable and (archive.spec.stream, archive.spec.durable) == (spec.stream, spec.durable):
            raise durable_taken(spec, archive.name)
    if spec.durable is None:
        if find_durable(workspace.link, spec.stream, spec.own_durable):
            raise Conflict(
                f"Stream {spec.stream} has a consumer {spec.own_durable} already: another archive of this name takes "
                "its messages, or one has left it",
                Next.CONSUMER_TAKEN(consumer=spec.own_durable, stream=spec.stream),
            )
        _check_limits(spec, state)
        return None
    durable = find_durable(workspace.link, spec.stream, spec.durable)
    if durable is None:
        names = [c.name for c in consumers_of(workspace.link, spec.stream) if c.config.get("durable_name")]
        raise OperatorError(
            f"Stream {spec.stream} has no consumer {spec.durable}",
            f"It has {', '.join(names[:5])}" if names else Next.OWN_CONSUMER(),
            field="durable",
        )
    if reason := next(chain(_unfit(durable, spec), _too_small(workspace, durable)), None):
        raise OperatorError(f"Consumer {durable.name} of stream {spec.stream} {reason}", Next.OWN_CONSUMER())
    return durable


def _check_limits(spec: ArchiveSpec, state: StreamState) -> None:
    """Raises OperatorError if the stream's limits leave no room for the archive's own durable, or would spoil it."""
    limits: dict[str, Any] = state.config.get("consumer_limits") or {}
    if has_all_consumers(state):
        raise OperatorError(
            f"Stream {state.name} has all {state.consumers} consumers that it may have (max_consumers)",
            f"Raise max_consumers of the stream to at least {state.consumers + 1}, or delete an unused consumer",
        )
    if int(limits.get("inactive_threshold") or 0):
        raise OperatorError(
            f"Stream {state.name} gives each consumer an inactive_threshold (consumer_limits): one of an archive "
            "is deleted without pull requests for a while, and then nothing keeps messages for it",
            "Remove inactive_threshold from the stream's consumer_limits",
        )
    least = min(spec.max_messages, LEAST_OUTSTANDING)
    if 0 < (pending := int(limits.get("max_ack_pending") or 0)) < least:
        raise OperatorError(
            f"Stream {state.name} allows {pending:,} unacknowledged messages of a consumer (consumer_limits), and a "
            f"chunk has up to {spec.max_messages:,}: {least:,} at least",
            "Raise max_ack_pending of the stream's consumer_limits, or choose smaller chunks (max_messages)",
        )


def durable_of(workspace: Workspace, archive: Archive) -> Durable:
    """The archive's durable as it is now, checked. Raises UnknownConsumer if it is gone, SourceError if it was changed
    into one that does not fit."""
    spec = archive.spec
    assert spec.durable
    _check_acknowledgements(workspace, spec.stream, spec.durable)
    durable = observe_durable(workspace, archive)
    if reason := next(chain(_unfit(durable, spec, fresh=False), _too_small(workspace, durable)), None):
        raise SourceError(f"Consumer {durable.name} of stream {spec.stream} {reason}", "Change it back")
    return durable


def observe_durable(workspace: Workspace, archive: Archive) -> Durable:
    """The archive's durable as it is now, also one that no longer fits. Raises UnknownConsumer if it is gone."""
    durable = find_durable(workspace.link, archive.spec.stream, archive.spec.durable or "")
    if durable is None:
        raise consumer_missing_error(archive)
    return durable


def check_durable(workspace: Workspace, spec: ArchiveSpec) -> None:
    """Raises OperatorError if the durable of an archive does not fit it with these settings, SourceError."""
    durable = find_durable(workspace.link, spec.stream, spec.durable or spec.own_durable)
    if durable and (reason := next(_unfit(durable, spec, fresh=False), None)):
        raise OperatorError(
            f"Consumer {durable.name} of stream {spec.stream} {reason}",
            "Change the consumer first, or choose a smaller value",
        )


def may_have_lost(deliveries: Deliveries | None, durable: Durable) -> bool:
    """True if the durable may have lost messages of its archive: it was created again, it had a session that the
    archive does not know, or it delivered messages which the archive does not have, and which do not come again.
    `deliveries`: those that the archive accounts for."""
    if deliveries is None or (deliveries.created_ns, deliveries.session) != (durable.created_ns, durable.session):
        return True
    # What comes again was delivered once at least.
    return (
        durable.consumer_seq < deliveries.consumer_seq
        or deliveries.unaccounted(durable.consumer_seq) > durable.outstanding
    )


def consumer_missing_error(archive: Archive) -> UnknownConsumer:
    """Returns the error for a durable that was deleted."""
    spec = archive.spec
    what = f"Consumer {spec.durable} of stream {spec.stream} was deleted: nothing keeps messages for {spec.name}"
    step = Next.ADOPT_CONSUMER if spec.owns_durable else Next.MAKE_CONSUMER
    return UnknownConsumer(what, step(archive=spec.name, consumer=spec.durable))


def make_again(workspace: Workspace, source: Source) -> Durable:
    """The archive's own durable, which was deleted, made again. Raises UnknownConsumer for one of the user's."""
    spec, state = source.archive.spec, source.state
    if not spec.owns_durable:
        raise consumer_missing_error(source.archive)
    check_others(workspace, spec, state)
    coverage = workspace.catalog.coverage.of(source.archive, state.incarnation)
    limits = state.config.get("retention", "limits") == "limits"
    # Only a stream that keeps what is acknowledged delivers from there on: from the others all comes that is left.
    return _make(workspace, spec, coverage.frontier + 1 if limits else None)


def drop(workspace: Workspace, spec: ArchiveSpec) -> bool:
    """Delete the archive's own durable; whether there was one. Raises SourceError."""
    return spec.owns_durable and delete_durable(workspace.link, spec.stream, spec.own_durable)


def check_others(workspace: Workspace, spec: ArchiveSpec, state: StreamState) -> None:
    """Raises OperatorError when another consumer takes messages of a work queue that the archive is to have: the
    server gives each of them to one consumer only."""
    if state.config.get("retention") != "workqueue":
        return
    for consumer in consumers_of(workspace.link, spec.stream):
        if consumer.name not in (spec.durable, spec.own_durable) and _overlap(consumer.filters, spec.subjects):
            subjects = ", ".join(consumer.filters) or "all subjects"
            raise OperatorError(
                f"Consumer {consumer.name} takes {subjects} of work queue {spec.stream}, and a work queue gives each "
                "message to one consumer only",
                Next.SOURCE_QUEUE(),
            )


def _check_acknowledgements(workspace: Workspace, stream: str, consumer: str) -> None:
    """Raises OperatorError where an acknowledgement would count for a consumer of another domain or account as well."""
    link = workspace.link
    if not link.client.is_own_jetstream and own_jetstream_has(link, stream, consumer):
        raise OperatorError(
            f"The connection's own JetStream has a consumer {consumer} of a stream {stream} too, beside the one at "
            f"{link.client.api}: an acknowledgement names no domain, and would count for both",
            "Connect to a server of the stream's domain; or use a consumer, or an archive, of another name",
        )


def _filters(spec: ArchiveSpec) -> list[str]:
    """The subjects of the archive without those that another one takes: a server refuses filters that overlap."""
    distinct = list(dict.fromkeys(spec.subjects))
    return [s for s in distinct if not any(covers(o, s) for o in distinct if o != s)]


def _make(workspace: Workspace, spec: ArchiveSpec, first_seq: int | None) -> Durable:
    # It imports pyarrow, which a command's --help does without.
    from nats3_dagster.chunks.columns import CHUNK_MESSAGES

    filters = _filters(spec)
    durable = make_durable(
        workspace.link,
        spec.stream,
        spec.own_durable,
        filters=filters,
        max_ack_pending=CLAIMS * min(max(spec.max_messages, LEAST_OUTSTANDING), CHUNK_MESSAGES),
        ack_wait_s=min(ACK_WAIT_S + spec.max_bytes // ACK_BYTES_PER_S, MOST_ACK_WAIT_S),
        first_seq=first_seq,
        description=f"nats3 archive {spec.name}",
    )
    # By limits of the server or of the account.
    if reason := next(_unfit(durable, spec, fresh=False), None):
        delete_durable(workspace.link, spec.stream, durable.name)
        raise OperatorError(
            f"Stream {spec.stream} gives the archive a consumer that {reason}", "Raise this limit of the account"
        )
    return durable


def _unfit(durable: Durable, spec: ArchiveSpec, *, fresh: bool = True) -> Iterator[str]:
    """Yields the reasons why an archive cannot take its messages through the durable. `fresh`: it is for a new
    archive."""
    config = durable.config
    if not config.get("durable_name"):
        yield "is ephemeral: it would be gone with the connection"
    by_flow = durable.acks_by_flow and spec.owns_durable
    if config.get("deliver_subject") and not by_flow:
        yield "is a push consumer; only a pull consumer waits for its reader"
    if config.get("ack_policy") != "explicit" and not by_flow:
        yield f"has the ack policy {config.get('ack_policy')}: each message must be acknowledged by itself (explicit)"
    if config.get("headers_only"):
        yield "delivers headers only"
    if config.get("deliver_policy") == "last_per_subject":
        yield "begins with the last message of each subject, and passes over others"
    if config.get("replay_policy") == "original":
        yield "delivers at the pace at which messages were published (replay_policy)"
    if int(config.get("max_deliver") or -1) > 0:
        yield f"gives up a message after {config['max_deliver']} deliveries (max_deliver)"
    if int(config.get("inactive_threshold") or 0):
        yield "is deleted without pull requests for a while (inactive_threshold)"
    if 0 < durable.ack_wait_s < LEAST_ACK_WAIT_S:
        yield f"has an ack_wait of {durable.ack_wait_s:g} s; a chunk takes {LEAST_ACK_WAIT_S} s and more"
    if config.get("priority_policy", "none") != "none":
        yield "delivers to groups of clients (priority_policy), and an archive is in none"
    if config.get("backoff"):
        yield "has a backoff, which replaces ack_wait"
    if 0 < durable.max_ack_pending < min(spec.max_messages, LEAST_OUTSTANDING):
        yield (
            f"allows {durable.max_ack_pending:,} unacknowledged messages (max_ack_pending), and a chunk has up to "
            f"{spec.max_messages:,}: {min(spec.max_messages, LEAST_OUTSTANDING):,} at least"
        )
    if (spec.subjects or not fresh) and {*_filters(spec)} != {*durable.filters}:
        delivers, wanted = (", ".join(some) or "all subjects" for some in (durable.filters, spec.subjects))
        yield f"delivers {delivers}, not {wanted}"
    if fresh and durable.paused:
        yield f"is paused until {config.get('pause_until')}"
    if fresh and durable.outstanding:
        yield f"has {durable.outstanding:,} messages delivered and not acknowledged: let its client finish first"


def _too_small(workspace: Workspace, durable: Durable) -> Iterator[str]:
    """Yields the reasons why the durable cannot deliver every message that a stream may store."""
    most, least = int(durable.config.get("max_bytes") or 0), workspace.link.client.max_payload + FRAME_BYTES
    if 0 < most < least:
        yield f"gives a pull request {most:,} bytes at most (max_bytes), and a message may have {least:,}"


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return any(overlap(a, b) for a in one or (">",) for b in other or (">",))

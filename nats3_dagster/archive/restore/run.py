"""Run: the messages go from the chunks to the server as one backup, and the stream is compared with the archive.

Invariant: a restore that did not end, or whose stream is not what the archive has, leaves no stream; one that was
killed leaves a marked one, which the next restore of that name deletes. Until then the stream has no subject that
others publish to, and its consumers are paused: so nothing goes with it, and nothing is delivered of it.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from nats3_dagster.archive.restore.configuration import unfinished
from nats3_dagster.archive.restore.consumer_proof import check_consumers
from nats3_dagster.archive.restore.plan import RestorePlan, check_name
from nats3_dagster.archive.restore.proof import Proof, compare
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import SECOND_NS, format_time
from nats3_dagster.jetstream.consumers.paused import pause
from nats3_dagster.jetstream.read.reader import ReadSpec
from nats3_dagster.jetstream.restore.entries import compressed, consumer_entry, end, head, message_entries
from nats3_dagster.jetstream.restore.session import RestoreSession
from nats3_dagster.jetstream.restore.sourced import SourcedPositions, check_sources
from nats3_dagster.jetstream.streams import delete_stream, stream_state, update_stream
from nats3_dagster.model import SeqRange, StreamState
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# How long a run waits for another one that restores a stream of the same name, in seconds.
_TURN_S = 5.0
# Until when the consumers of a stream deliver nothing that is not proven yet; and for how many seconds they go on
# waiting where this process dies between the proof and its end.
_FOR_NOW, _AT_LAST_S = "2200-01-01T00:00:00Z", 60


@dataclass(frozen=True, slots=True)
class Restored:
    """A stream that was restored."""

    # As the server describes it.
    state: StreamState
    # Messages that were sent.
    messages: int
    # What the comparison with the archive said; None where it was left out.
    proof: Proof | None


def restore(
    workspace: Workspace, planned: RestorePlan, *, verify: bool = True, on_progress: Callable[[int], object] = int
) -> Restored:
    """Make the stream. `on_progress` is called with the number of messages that were sent.

    Raises WrongState if there is a stream of this name, SourceError when the server does not take or keep what is
    sent; LostMessages and StoreError of the archive. After an error there is no stream."""
    with workspace.catalog.locks.restoring(planned.stream, _TURN_S):
        _remove(workspace, planned.stream, logging.WARNING)
        try:
            planned, messages, last_seq, positions = _send(workspace, planned, on_progress)
            fault_point("restore.sent")
            proof = None
            if verify and not messages:
                proof = Proof(0, 0, {one.name: 0 for one in planned.consumers})
            elif verify:
                own = stream_state(workspace.link, planned.stream).incarnation
                proof = compare(workspace, planned, ReadSpec(own, SeqRange(1, last_seq)))
            check_consumers(workspace, planned, proof)
            check_sources(workspace.link, planned.stream, positions)
            fault_point("restore.proven")
            _pause(workspace, planned, format_time(time.time_ns() + _AT_LAST_S * SECOND_NS))
            update_stream(workspace.link, planned.config)
            fault_point("restore.named")
        except BaseException:
            with suppress(Nats3Error):
                _remove(workspace, planned.stream, logging.DEBUG)
            raise
        # From here on the stream is whole, whatever happens.
        _pause(workspace, planned, None)
        return Restored(stream_state(workspace.link, planned.stream), messages, proof)


def _remove(workspace: Workspace, stream: str, level: int) -> None:
    """Delete what a restore that was cut has left under this name, and log it so. Raises WrongState if another stream
    has it."""
    if check_name(workspace.link, stream):
        log.log(level, "Stream %s is what a restore left that did not end: it is deleted", stream)
        delete_stream(workspace.link, stream)


def _pause(workspace: Workspace, planned: RestorePlan, until: str | None) -> None:
    """Let the consumers deliver nothing until this time, or let them deliver; what was paused stays so."""
    now = format_time(time.time_ns())
    for one in planned.consumers:
        own = str(one.config.get("pause_until") or "")
        pause(workspace.link, planned.stream, one.name, own if own > (until or now) else until)


def _send(
    workspace: Workspace, planned: RestorePlan, on_progress: Callable[[int], object]
) -> tuple[RestorePlan, int, int, dict[str, int]]:
    """Send consumers and messages; the plan, with each consumer at its place in a stream that begins with the first
    message, and each source at the one after the last; the number of messages, the last sequence of the stream, and of
    each source. Raises OperatorError if there is no message."""
    batches = planned.batches(workspace)
    first = next(batches, None)
    if first is None and not planned.spec.empty:
        raise OperatorError("The selection has no message to restore", "Select others, or create the stream yourself")
    state = _state(planned, first)
    planned = replace(planned, consumers=tuple(one.from_first(state["first_seq"]) for one in planned.consumers))
    session = RestoreSession(workspace.link, unfinished(planned.config), state)
    session.send(compressed(head(state)))
    for one in planned.consumers:
        config = {**one.config, "pause_until": _FOR_NOW}
        session.send(compressed(consumer_entry(one.position, config, time.time_ns())))
    sourced, sent, last = SourcedPositions(planned.config), 0, 0
    for batch in chain([first] if first else [], batches):
        session.send(compressed(message_entries(batch)))
        sourced.add(batch)
        sent, last = sent + batch.num_rows, int(batch.column("seq")[-1].as_py())
        on_progress(sent)
        fault_point("restore.sending")
    session.send(compressed(end()))
    session.finish()
    planned = replace(planned, config=sourced.config())
    return planned, sent, max(last, planned.last_seq), sourced.positions()


def _state(planned: RestorePlan, first: pa.RecordBatch | None) -> dict[str, Any]:
    """The state that the backup describes. A server begins the stream at the first sequence, fills it up to the last
    one, and keeps room for the bytes. It refuses more messages than sequences; one without a message begins after the
    last one."""
    if first is None:
        seq, last, time = planned.last_seq + 1, planned.last_seq, format_time(0)
    else:
        seq, time = int(first.column("seq")[0].as_py()), format_time(int(first.column("time_ns")[0].as_py()))
        last = max(planned.last_seq, seq)
    return {
        "messages": min(planned.messages, last - seq + 1),
        "bytes": planned.payload_bytes,
        "first_seq": seq,
        "first_ts": time,
        "last_seq": last,
        "last_ts": time,
        "consumer_count": len(planned.consumers),
    }

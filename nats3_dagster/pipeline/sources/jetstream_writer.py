"""Writing to a stream: `df.write.format("jetstream")` and `df.writeStream.format("jetstream")`.

Invariant: what can be known of options, columns and stream is checked on the driver, before a row is written.
"""

import logging
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from nats3_dagster.errors import EngineError, OperatorError, TargetError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.publish.sink import REFUSALS, Refusal
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import StreamState
from nats3_dagster.model.quantities import parse_duration
from nats3_dagster.pipeline.sources.connection import CONNECTION, nats_options
from nats3_dagster.pipeline.sources.options import COUNT, FLAG, STREAM, Kind, Option, choice, not_given, parse_options
from nats3_dagster.pipeline.sources.sink_columns import check_columns
from nats3_dagster.pipeline.sources.sink_task import SinkPlan, Written, write_rows

log = logging.getLogger(__name__)
SINK = "jetstream"
MAX_PENDING, ACK_TIMEOUT_S, RETRY_S = 1000, 10, 60
# How many refusals an error or a line of the log has.
_SHOWN = 10
_NO_ID = re.compile(r"[\s:]")


def _seconds(text: str) -> int:
    if not (seconds := parse_duration(text.strip())):
        raise ValueError
    return seconds


def _id(text: str) -> str:
    if not text or _NO_ID.search(text) or len(text) > 100:
        raise ValueError
    return text


DURATION = Kind("duration", _seconds, "a duration from 1s on, like 30s or 2m")
ID = Kind("id", _id, "a text without white space and colons, of 100 characters at most")
_BOTH = (
    Option("stream", STREAM, "required", "The stream that takes the messages."),
    Option("expectedStream", FLAG, "true", "Whether each message has a header by which any other stream refuses it."),
    Option("rejects", choice("fail", "report"), "fail", "Whether refused rows fail the write, or are only logged."),
    Option("maxPending", COUNT, str(MAX_PENDING), "Messages without an acknowledgement that each task has at most."),
    Option("ackTimeout", DURATION, f"{ACK_TIMEOUT_S}s", "How long an acknowledgement may take."),
    Option("retryTimeout", DURATION, f"{RETRY_S}s", "How long a task tries to publish again what it could not."),
    Option("allowDoubles", FLAG, "false", "Whether to go on where the stream may have forgotten the ids of rows."),
)
WRITE = (
    *_BOTH,
    Option("writeId", ID, "a new one", "What the ids of rows without a msg_id begin with; not for streams."),
)
WRITE_STREAM = _BOTH


def writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "JetStreamWriter":
    """What `df.write.format("jetstream")` writes with. Raises OperatorError, SourceError."""
    values, plan, state = _planned(f"df.write.format({SINK!r})", WRITE, options, schema, overwrite)
    return JetStreamWriter(values, plan, state, "msg_id" in schema.names)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "JetStreamStreamWriter":
    """What `df.writeStream.format("jetstream")` writes with. Raises OperatorError, SourceError."""
    values, plan, _ = _planned(f"df.writeStream.format({SINK!r})", WRITE_STREAM, options, schema, overwrite)
    return JetStreamStreamWriter(values, plan)


class JetStreamWriter(DataSourceArrowWriter):
    """Writes a frame once."""

    def __init__(self, values: Mapping[str, Any], plan: SinkPlan, state: StreamState, has_ids: bool) -> None:
        self._rejects, self._doubles = values.get("rejects", "fail"), values.get("allowDoubles", False)
        self._plan, self._window_s = plan, window_s(state)
        self._write_id = values.get("writeId") or secrets.token_hex(8)
        self._has_ids = has_ids
        self._began = time.time()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish a partition, in its task. Raises SourceError, TargetError."""
        context = TaskContext.get()
        partition, attempt = (context.partitionId(), context.attemptNumber()) if context else (0, 0)
        late = time.time() - self._began
        if attempt and late > self._window_s and not self._doubles:
            raise TargetError(
                f"Spark starts a task again {late:.0f} s after the write began, and stream {self._plan.stream} knows "
                f"the ids of its messages for {self._window_s:g} s (duplicate_window): rows could be stored twice",
                "Nothing of this try was written. Raise duplicate_window of the stream, or write smaller partitions; "
                "with the option allowDoubles rows may be stored twice",
            )
        return write_rows(self._plan, f"{self._write_id}:{partition}", iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, after all tasks. Raises TargetError for refused rows."""
        _conclude(self._plan.stream, self._rejects, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, after a failure: what was written stays."""
        _warn(self._plan.stream, messages)


class JetStreamStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, values: Mapping[str, Any], plan: SinkPlan) -> None:
        self._rejects, self._plan = values.get("rejects", "fail"), plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish a partition of a batch, in its task. Raises EngineError, SourceError, TargetError."""
        context = TaskContext.get()
        # Both are those of the checkpoint: the same when the batch is written again after a restart.
        query, batch = (
            context.getLocalProperty(key) if context else None
            for key in ("sql.streaming.queryId", "streaming.sql.batchId")
        )
        if context is None or not query or batch is None:
            raise EngineError("Spark does not say which batch of which query this is", "Use Spark 4")
        return write_rows(self._plan, f"{query}:{batch}:{context.partitionId()}", iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, after all tasks of a batch. Raises TargetError for refused rows."""
        _conclude(self._plan.stream, self._rejects, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, after a failure: what was written stays, and is known when the batch is written again."""
        _warn(self._plan.stream, messages)


def window_s(state: StreamState) -> float:
    """Seconds for which the stream knows the id of a message."""
    return state.config.get("duplicate_window", 0) / SECOND_NS


def _planned(
    source: str, table: Sequence[Option], options: Mapping[str, str], schema: StructType, overwrite: bool
) -> tuple[dict[str, Any], SinkPlan, StreamState]:
    values = parse_options(source, (*table, *CONNECTION), options)
    if overwrite:
        raise OperatorError(
            "A stream is written to its end, and never over what it has",
            'Write with mode("append"), or stream with outputMode("append")',
        )
    if "stream" not in values:
        raise not_given(SINK, "stream")
    check_columns(SINK, schema)
    nats: NatsOptions = nats_options(source, values)
    with Link(nats) as link:
        state = stream_state(link, values["stream"])
    plan = SinkPlan(
        nats, state.name, values.get("expectedStream", True), values.get("maxPending", MAX_PENDING),
        values.get("ackTimeout", ACK_TIMEOUT_S), values.get("retryTimeout", RETRY_S),
    )  # fmt: skip
    _check_stream(state, plan, doubles=values.get("allowDoubles", False))
    return values, plan, state


def _check_stream(state: StreamState, plan: SinkPlan, *, doubles: bool) -> None:
    """Raises OperatorError for a stream that cannot be written to, or not without doubles."""
    config = state.config
    if config.get("sealed"):
        raise OperatorError(f"Stream {state.name} is sealed: it takes no more messages", "Write to another stream")
    if config.get("mirror"):
        origin = config["mirror"].get("name")
        raise OperatorError(
            f"Stream {state.name} is a mirror of {origin}: nobody can publish into it", f"Write to {origin}"
        )
    if not config.get("subjects"):
        raise OperatorError(
            f"Stream {state.name} captures no subjects: nobody can publish into it", "Give it subjects first"
        )
    if config.get("no_ack"):
        raise OperatorError(
            f"Stream {state.name} acknowledges nothing (no_ack), so what it has cannot be known", "Set no_ack to false"
        )
    needed = plan.ack_timeout_s + plan.retry_s
    if window_s(state) < needed and not doubles:
        raise OperatorError(
            f"Stream {state.name} knows the ids of its messages for {window_s(state):g} s (duplicate_window), and a "
            f"row may be published again {needed:g} s later (ackTimeout and retryTimeout): it could be stored twice",
            "Raise duplicate_window of the stream, or lower these options; with the option allowDoubles rows may be "
            "stored twice",
        )


def _conclude(stream: str, rejects: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    done = [message for message in messages if isinstance(message, Written)]
    refused = sum(each.refused for each in done)
    if not refused:
        return
    refusals = [refusal for each in done for refusal in each.refusals][:REFUSALS]
    what = f"Stream {stream} has {sum(each.messages for each in done)} of the rows, and {refused} were refused"
    if rejects == "report":
        log.warning("%s: %s", what, _listed(refusals, refused, REFUSALS))
        return
    raise TargetError(
        f"{what}: {_listed(refusals, refused, _SHOWN)}",
        "What was written stays. Correct these rows or the stream; with the option rejects=report refused rows are "
        "only logged",
    )


def _listed(refusals: Sequence[Refusal], refused: int, shown: int) -> str:
    more = f"; and {refused - shown} more" if refused > shown else ""
    return "; ".join(f"{refusal.subject[:200]!r}: {refusal.reason}" for refusal in refusals[:shown]) + more


def _warn(stream: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    done = [message for message in messages if isinstance(message, Written)]
    log.warning(
        "A write to stream %s failed; %d of its tasks wrote %d rows, which stay", stream, len(done),
        sum(each.messages for each in done),
    )  # fmt: skip

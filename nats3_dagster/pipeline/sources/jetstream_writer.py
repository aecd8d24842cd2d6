"""Writing to a stream: `df.write.format("jetstream")` and `df.writeStream.format("jetstream")`.

Invariant: what can be known of options, columns and stream is checked on the driver, before a row is written.
"""

import logging
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from nats3_dagster.errors import EngineError, OperatorError, SourceError, TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.publish.sink import REFUSALS, Refusal
from nats3_dagster.jetstream.publish.write_records import WriteRecords, ensure_records
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import StreamState
from nats3_dagster.model.quantities import parse_duration
from nats3_dagster.pipeline.pyspark_features import StreamArrowWriter
from nats3_dagster.pipeline.sources.connection import CONNECTION, nats_options
from nats3_dagster.pipeline.sources.options import COUNT, FLAG, STREAM, Kind, Option, choice, not_given, parse_options
from nats3_dagster.pipeline.sources.sink_columns import check_columns
from nats3_dagster.pipeline.sources.sink_task import SinkPlan, Written, write_rows
from nats3_dagster.pipeline.sources.write_lease import record_write
from nats3_dagster.pipeline.sources.write_part import WritePart, window_s

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
    Option("expectedStream", FLAG, "true", "Whether each message has a header that makes any other stream refuse it."),
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
    """Returns the writer of `df.write.format("jetstream")`. Raises OperatorError, SourceError."""
    run = secrets.token_hex(8)
    values, plan = _planned(f"df.write.format({SINK!r})", WRITE, options, schema, overwrite, run)
    return JetStreamWriter(values, plan, run)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "JetStreamStreamWriter":
    """Returns the writer of `df.writeStream.format("jetstream")`. Raises OperatorError, SourceError."""
    values, plan = _planned(f"df.writeStream.format({SINK!r})", WRITE_STREAM, options, schema, overwrite)
    return JetStreamStreamWriter(values, plan)


class JetStreamWriter(DataSourceArrowWriter):
    """Writes a frame once."""

    def __init__(self, values: Mapping[str, Any], plan: SinkPlan, run: str) -> None:
        self._rejects, self._plan, self._run = values.get("rejects", "fail"), plan, run
        self._write_id = values.get("writeId") or run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish a partition, in its task. Raises SourceError, TargetError."""
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        return write_rows(self._plan, WritePart(self._write_id, None, partition, self._run), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Ends the write on the driver, after all tasks. Raises TargetError for refused rows."""
        self._forget()
        _conclude(self._plan.stream, self._rejects, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Ends the write on the driver, after a failure: what was written stays."""
        self._forget()
        _warn(self._plan.stream, messages)

    def _forget(self) -> None:
        """Remove the records of a write whose id no other write has: no task of it begins any more."""
        if self._write_id != self._run:
            return
        try:
            with Link(self._plan.nats) as link:
                WriteRecords(link, self._plan.stream, self._write_id).forget()
        except SourceError as error:
            log.info("The records of a write to stream %s stay: %s", self._plan.stream, error)


class JetStreamStreamWriter(StreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, values: Mapping[str, Any], plan: SinkPlan) -> None:
        self._rejects, self._plan = values.get("rejects", "fail"), plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish a partition of a batch, in its task. Raises EngineError, SourceError, TargetError."""
        context = TaskContext.get()
        # Query and batch are those of the checkpoint: the same when the batch is written again after a restart. Spark
        # runs the jobs of each start of a query in a group of their own.
        query, batch, run = (
            context.getLocalProperty(key) if context else None
            for key in ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")
        )
        if context is None or not query or batch is None or not run:
            raise EngineError("Spark does not name the query and the batch", "Use Spark 4")
        return write_rows(self._plan, WritePart(query, int(batch), context.partitionId(), run), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Ends a batch on the driver, after all of its tasks. Raises TargetError for refused rows."""
        _conclude(self._plan.stream, self._rejects, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Ends a batch on the driver, after a failure: what was written stays, and is known when the batch is written
        again."""
        _warn(self._plan.stream, messages)


def _planned(
    source: str,
    table: Sequence[Option],
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,
    run: str | None = None,
) -> tuple[dict[str, Any], SinkPlan]:
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
            nats,
            state.name,
            values.get("expectedStream", True),
            values.get("maxPending", MAX_PENDING),
            values.get("ackTimeout", ACK_TIMEOUT_S),
            values.get("retryTimeout", RETRY_S),
            values.get("allowDoubles", False),
        )
        _check_stream(state, plan)
        ensure_records(link, state)
        if run and "writeId" not in values:
            record_write(link, state, run)
    return values, plan


def _check_stream(state: StreamState, plan: SinkPlan) -> None:
    """Raises OperatorError for a stream that cannot be written to, or not without doubles."""
    config = state.config
    if config.get("sealed"):
        raise OperatorError(f"Stream {state.name} is sealed: it takes no more messages", "Write to another stream")
    if config.get("mirror"):
        origin = config["mirror"].get("name")
        raise OperatorError(
            f"Stream {state.name} is a mirror of {origin}: it takes no messages from clients", f"Write to {origin}"
        )
    if not config.get("subjects"):
        raise OperatorError(
            f"Stream {state.name} captures no subjects: it takes no messages from clients", "Give it subjects first"
        )
    if config.get("no_ack"):
        raise OperatorError(
            f"Stream {state.name} acknowledges nothing (no_ack), so what it has cannot be known", "Set no_ack to false"
        )
    needed = plan.ack_timeout_s + plan.retry_s
    if window_s(state) < needed and not plan.doubles:
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
        "A write to stream %s failed; %d of its tasks wrote %d rows, which stay",
        stream,
        len(done),
        sum(each.messages for each in done),
    )

"""The streaming reader of a stream for PySpark with read limits (pyspark_features): batches have a largest size, and a
query of what is available now has an end."""

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from nats3_dagster.pipeline.sources.jetstream_stream import JetStreamStreamReader, Offset
from nats3_dagster.pipeline.sources.offset_witness import witness_of


class LimitedStreamReader(JetStreamStreamReader, SupportsTriggerAvailableNow):
    """Reads what a stream gets, in batches that PySpark says the beginning of."""

    _target: int | None = None  # the last sequence of a query that reads what is available now

    def latestOffset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, start: Offset, limit: ReadLimit
    ) -> Offset:
        seq = self._checked(start)
        state = self._state(self._reading.incarnation)
        self._prove(start, state)
        self._latest = self._offset(state.last_seq, None)
        last = state.last_seq if self._target is None else max(seq, min(self._target, state.last_seq))
        if isinstance(limit, ReadMaxRows):
            # What the stream no longer has does not count: a batch of it alone would be empty.
            last = min(last, max(seq, state.first_seq - 1) + limit.max_rows)
        if last <= seq:  # the very same: for Spark any other offset is one with new messages
            return start
        return self._offset(last, witness_of(self._connected(), state, last, start.get("witness")))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._values.get("maxMessagesPerTrigger")
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def reportLatestOffset(self) -> Offset | None:
        return self._latest

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._state(self._reading.incarnation).last_seq

"""Bounds of a batch: the sequences that options ask for, of the stream as it was when it was loaded."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.times import first_seq_at
from nats3_dagster.model import SeqRange, StreamState, clipped
from nats3_dagster.pipeline.sources.reading import Reading


def batch_bounds(reading: Reading, values: Mapping[str, Any], state: StreamState, loaded: datetime) -> SeqRange:
    """The sequences to read, an empty range (last below first) for none. `loaded`: what relative times count from.

    Raises OperatorError for a range that the stream has not got to, SourceError for one that it no longer has."""
    held = SeqRange(state.first_seq, state.last_seq)
    first, last = values.get("startSeq", held.first), values.get("endSeq", held.last)
    if "startTime" in values or "endTime" in values:
        with Link(reading.nats) as link:
            if "startTime" in values:
                first = max(first, first_seq_at(link, state.name, parse_time(values["startTime"], loaded)))
            if "endTime" in values:
                last = min(last, first_seq_at(link, state.name, parse_time(values["endTime"], loaded)) - 1)
    for name in ("startSeq", "endSeq"):
        if values.get(name, 0) > held.last:
            raise OperatorError(
                f"Stream {state.name} ends at sequence {held.last}, before {name} {values[name]}",
                f"Give a smaller {name}, or none for the stream's own end", field=name,
            )  # fmt: skip
    asked = SeqRange(first, last)
    gone = clipped([asked], SeqRange(1, held.first - 1))
    reading.lost("no longer has sequences", gone)
    reading.lost("has lost, with damaged blocks, sequences", clipped(state.damaged, asked))
    return SeqRange(max(first, held.first), last)

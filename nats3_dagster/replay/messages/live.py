"""Live: what a live replay leaves out or changes, so that the target's clients see what those of the source saw.

Invariant: a message is left out only if its own time to live (`Nats-TTL`) has ended. What it had displaced stays
displaced.
"""

import json
import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nats3_dagster.errors import TargetError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import last_payload
from nats3_dagster.model import StreamState
from nats3_dagster.subjects import decoded, matches

# As the server looks for it: any place after a line's end, this case, and white space before the value only.
_TTL = r"(?s)\r\nNats-TTL:[ \t]*(?P<value>[^\r\n]*)"
_TTL_VALUE = re.compile(rb"(\r\nNats-TTL:)[^\r\n]*")
_INCREMENT = re.compile(rb"(\r\nNats-Incr:)[ \t]*([+-]?\d+)[^\r\n]*")
# The shortest time to live that a server takes.
_SHORTEST = rb"\1 1s"
# Go's durations: `1h30m`, `1.5s`.
_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": SECOND_NS,
    "m": 60 * SECOND_NS,
    "h": 3600 * SECOND_NS,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_NEVER = np.iinfo(np.int64).max


def ttl_ns(text: str) -> int | None:
    """The value of a `Nats-TTL` in nanoseconds: seconds, or a duration as Go writes it. None for `never`, and for what
    is neither, which the target refuses."""
    if re.fullmatch(r"\d{1,9}", text):
        return int(text) * SECOND_NS
    if not re.fullmatch(rf"\+?(?:{_PART.pattern})+", text):
        return None
    return int(sum(float(number) * _UNITS_NS[unit] for number, unit in _PART.findall(text)))


class Live:
    """The messages of one live replay, in their order, over one connection to the targets.

    `targets` are the streams as they are when nothing is on its way to them; `now_ns` is the time since 1970."""

    def __init__(self, link: Link, targets: Sequence[StreamState], now_ns: Callable[[], int]) -> None:
        self._link, self._targets, self._now_ns = link, targets, now_ns
        self._limited = any(t.config.get("max_msgs_per_subject", -1) > 0 for t in targets)
        self._counters = [t for t in targets if t.config.get("allow_msg_counter")]
        # Subjects that an earlier message of this replay may have.
        self._seen = set[bytes]()
        # Where a target has messages from before, any subject may.
        self._fresh = all(t.last_seq == 0 for t in targets)
        # Of the target's counters, by subject.
        self._totals = dict[bytes, int]()

    def prepare(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """The messages to send, under their subjects in the target; and how many have ended by themselves. Raises
        TargetError for a counter that cannot be restored."""
        batch, expired = self._without_expired(batch)
        if self._counters and batch.num_rows:
            batch = self._counted(batch)
        return batch, expired

    def _without_expired(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        headers = batch.column("headers")
        ended = _ends_ns(headers, batch.column("time_ns").to_numpy()) < self._now_ns()
        if ended.any() and self._limited:
            # It displaced older messages of its subject, which would come back without it: it does so once more.
            subjects = batch.column("subject").to_pylist()
            displacing = np.zeros(len(ended), bool)
            for at, subject in enumerate(subjects):
                displacing[at] = ended[at] and (subject in self._seen or not self._fresh)
                if not ended[at] or displacing[at]:
                    self._seen.add(subject)
            ended &= ~displacing
            if displacing.any():
                short = [_TTL_VALUE.sub(_SHORTEST, h) for h in headers.filter(pa.array(displacing)).to_pylist()]
                headers = pc.replace_with_mask(headers, pa.array(displacing), pa.array(short, pa.binary()))
                batch = batch.set_column(batch.schema.get_field_index("headers"), "headers", headers)
        elif self._limited and self._fresh:
            self._seen.update(pc.unique(batch.column("subject")).to_pylist())
        if not ended.any():
            return batch, 0
        return batch.filter(pa.array(~ended)), int(ended.sum())

    def _counted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The increments of a counter, whose server adds them up and refuses a payload. Where messages before this one
        were never archived or are gone, its increment is what leads to the archived total."""
        headers = batch.column("headers").to_pylist()
        for at, (subject, block, data) in enumerate(
            zip(batch.column("subject").to_pylist(), headers, batch.column("data").to_pylist(), strict=True)
        ):
            total, found = _total(data), _INCREMENT.search(block or b"")
            if total is None or found is None:
                raise TargetError(
                    f"Message {batch.column('seq')[at]} is no counter's: it has no increment and total",
                    "Replay it into a stream that is not made for counters",
                )
            before = self._before(subject)
            if total - before != int(found[2]):
                headers[at] = _INCREMENT.sub(rb"\1 %+d" % (total - before), block)
            self._totals[subject] = total
        names, empty = batch.schema.names, pa.array([b""] * batch.num_rows, pa.binary())
        columns = dict(zip(names, batch.columns, strict=True))
        columns |= {"headers": pa.array(headers, pa.binary()), "data": empty}
        return pa.RecordBatch.from_pydict(columns)

    def _before(self, subject: bytes) -> int:
        """The counter's total in the target."""
        if subject not in self._totals:
            name = decoded(subject)
            stream = next((t for t in self._counters if any(matches(s, name) for s in t.subjects)), None)
            payload = None if self._fresh or stream is None else last_payload(self._link, stream.name, name)
            self._totals[subject] = (payload and _total(payload)) or 0
        return self._totals[subject]


def _ends_ns(headers: pa.Array, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the time when each message ends by itself, in nanoseconds since 1970; _NEVER for most."""
    ends = np.full(len(headers), _NEVER, np.int64)
    values = pc.struct_field(pc.extract_regex(headers, _TTL), "value")
    for at in np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)):
        ttl = ttl_ns(values[at].as_py().decode("utf-8", "replace").strip())
        if ttl:
            ends[at] = int(times_ns[at]) + ttl
    return ends


def _total(payload: bytes) -> int | None:
    """The value that a counter's message has: `{"val":"7"}`."""
    try:
        return int(json.loads(payload)["val"])
    except (ValueError, TypeError, KeyError):
        return None

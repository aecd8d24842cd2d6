"""The lease of a task that writes: which earlier tries of its rows there were, and until when it may send.

A stream knows the id of a message for its duplicate_window. A row may be sent by several tries: by a task that Spark
starts again, alone, with its stage or with its batch, also after the driver was restarted, or by two tasks at once.

Invariant: all sends of one row lie within the window, or the task that sends last fails. A try that may not be the
first ends within the window of the first send of any other; one that is alone has this confirmed again and again.
"""

import secrets
import time
from collections.abc import Mapping
from typing import Any

from nats3_dagster.errors import TargetError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.publish.write_records import WriteRecord, WriteRecords
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import StreamState
from nats3_dagster.pipeline.sources.write_part import WritePart, window_s

# The part of the window that is used: the leader that stores a message may have another clock than the one before.
_USED = 0.9
# The part of the window after which a task that is alone confirms it.
_CONFIRMED = 0.25
# How often a record is read and replaced while other tasks do the same.
_TRIES = 20
_WRITE = "write"  # the record of the whole write or batch; the others are named by their partitions
# Unlike time.monotonic it goes on while the machine sleeps.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock_s() -> float:
    """Seconds that have passed, also while this process or its machine stood still."""
    return time.clock_gettime(_CLOCK)


def record_write(link: Link, target: StreamState, run: str) -> None:
    """Record on the driver that a write begins whose id is its run's. A task that finds no record comes after its end.
    Raises SourceError."""
    WriteRecords(link, target.name, run).put(_WRITE, _body(target, 0, run=run, after_seq=target.last_seq), None)


class WriteLease:
    """The lease of one try of a part. `begin` comes before the first row is sent, `check` before each further ones, and
    `finish` when all have their answers; each raises TargetError where rows could be stored twice."""

    def __init__(self, nats: NatsOptions, stream: str, part: WritePart, *, doubles: bool) -> None:
        """`doubles`: whether rows may be stored twice. Then the try is recorded, and nothing refused."""
        self._nats, self._stream, self._part, self._doubles = nats, stream, part, doubles
        self._try = secrets.token_hex(8)
        self._link: Link | None = None
        self._window_s = float("inf")
        # By clock_s: when rows may have been sent first, where this try may not be the only one; and when it was last
        # confirmed that it is.
        self._first: float | None = None
        self._confirmed = 0.0
        self._first_ns = 0  # the same in nanoseconds of the server

    def __enter__(self) -> "WriteLease":
        return self

    def __exit__(self, *_: object) -> None:
        self._disconnect()

    @property
    def begun(self) -> bool:
        return self._confirmed > 0

    def begin(self) -> None:
        """Record the try, and find out what was recorded before."""
        self._state = self._look()
        self._began = clock_s()
        restarted_ns = self._record_run()
        self._record_try(restarted_ns)
        self._confirmed = self._began

    def check(self) -> None:
        if self._doubles:
            return
        if self._first is None and clock_s() - self._confirmed > self._window_s * _CONFIRMED:
            self._confirm()
        if self._first is not None and clock_s() > self._first + self._window_s * _USED:
            raise TargetError(
                f"Rows of {self._name} are sent by a second try, and the first one began more than "
                f"{self._window_s * _USED:g} s ago; stream {self._stream} knows the ids of its messages for "
                f"{self._window_s:g} s (duplicate_window): rows could be stored twice",
                f"What was written stays. {_RAISE}",
            )

    def check_repeat(self, sent: float) -> None:
        """Raises TargetError if rows of this try could be stored twice: before they are sent again, and when they have
        their answers. `sent`: when they were sent first, by clock_s."""
        if not self._doubles and clock_s() - sent > self._window_s * _USED:
            raise TargetError(
                f"Rows that were sent {clock_s() - sent:.0f} s ago have no answer, and stream {self._stream} knows the "
                f"ids of its messages for {self._window_s:g} s (duplicate_window): rows could be stored twice",
                f"This process stood still, or NATS was away. What was written stays. {_RAISE}",
            )

    def refresh(self) -> None:
        """Ask for the window again: it may have been shortened meanwhile."""
        if not self._doubles:
            self._look()

    def finish(self) -> None:
        if not self.begun:
            if self._part.batch is not None:  # without rows; the next batch looks for the record of this one
                self._state = self._look()
                self._began = clock_s()
                self._record_run()
            return
        if self._first is not None and not self._doubles:
            self.refresh()
            # The server forgets ids by its own clock, which may have been set meanwhile.
            age_s = (self._records.now_ns() - self._first_ns) / SECOND_NS
            self._first = min(self._first, clock_s() - age_s)
        self.check()

    def _record_run(self) -> int | None:
        """Record this run of the driver. Returns when the first run began, in nanoseconds of the server, if rows of the
        write or batch may have been sent by another one."""
        part, batch = self._part, self._part.batch or 0
        for _ in range(_TRIES):
            record = self._records.get(_WRITE)
            if record is None and part.key == part.run:
                raise self._ended()
            if record is None and batch and not self._doubles:
                raise TargetError(
                    f"Batch {batch} of the query has no record of the batches before it: what stream {self._stream} "
                    "has of this one cannot be known",
                    "Its records were deleted, or the query wrote to another stream before. Compare the stream with "
                    "the batch; to write it, start the query once with allowDoubles",
                )
            new: dict[str, Any] = self._body(run=part.run, after_seq=self._state.last_seq)
            if record and self._is_ours(record):
                if record.body["batch"] > batch:
                    if self._doubles:
                        return None
                    raise TargetError(
                        f"Batch {batch} of the query is to be written, and batch {record.body['batch']} was begun "
                        "before: rows could be stored twice",
                        "The checkpoint is an older copy, or two queries use it. Start the query with a new "
                        "checkpoint; with allowDoubles rows may be stored twice",
                    )
                if record.body["batch"] == batch:
                    if record.body["run"] == part.run:
                        return record.body.get("first_ns")
                    new |= {"first_ns": _first_ns(record), "after_seq": record.body["after_seq"]}
            self._records.put(_WRITE, new, record)
        raise self._contended()

    def _record_try(self, restarted_ns: int | None) -> None:
        part = str(self._part.partition)
        for _ in range(_TRIES):
            record = self._records.get(part)
            firsts = [] if restarted_ns is None else [restarted_ns]
            if record and self._is_ours(record) and record.body["batch"] == (self._part.batch or 0):
                if record.body["try"] == self._try:
                    return
                firsts.append(_first_ns(record))
            more = {"first_ns": min(firsts)} if firsts else {}
            if firsts and not self._doubles:
                asked = clock_s()
                age_s = (self._records.now_ns() - min(firsts)) / SECOND_NS
                self._first, self._first_ns = asked - age_s, min(firsts)
                if age_s > self._window_s * _USED:
                    raise self._too_late(age_s, restarted_ns is not None)
            self._records.put(part, self._body(**{"try": self._try}, **more), record)
        raise self._contended()

    def _confirm(self) -> None:
        """Have it confirmed that no other try of these rows was recorded. If one was, both end within the window."""
        for _ in range(_TRIES):
            asked = clock_s()
            part, write = self._records.get(str(self._part.partition)), self._records.get(_WRITE)
            if part is None or write is None:
                raise self._ended()
            ours = part.body["try"] == self._try and write.body["run"] == self._part.run
            if not ours or write.body["batch"] != (self._part.batch or 0):
                self._first, self._first_ns = self._began, _first_ns(part)
                return
            body = {**part.body, "first_ns": _first_ns(part)}
            if self._records.put(str(self._part.partition), body, part):
                self._confirmed = asked
                return
        raise self._contended()

    def _body(self, **more: Any) -> dict[str, Any]:
        return _body(self._state, self._part.batch or 0, **more)

    def _is_ours(self, record: WriteRecord) -> bool:
        """True if the record is of this stream, and not of an earlier one of its name."""
        return record.body.get("created_ns") == self._state.incarnation.created_ns

    @property
    def _name(self) -> str:
        batch = "" if self._part.batch is None else f" of batch {self._part.batch}"
        return f"partition {self._part.partition}{batch}"

    def _too_late(self, age_s: float, restarted: bool) -> TargetError:
        name = self._name
        after = ""
        if restarted and (record := self._records.get(_WRITE)):
            name = "this write" if self._part.batch is None else f"batch {self._part.batch}"
            after = f"Its rows are after sequence {record.body['after_seq']} there; compare them. "
        return TargetError(
            f"Spark writes {name} again {age_s:.0f} s after its first rows were sent, and stream {self._stream} knows "
            f"the ids of its messages for {self._window_s:g} s (duplicate_window): rows could be stored twice",
            f"Nothing of this try was written. {after}{_RAISE}",
        )

    def _ended(self) -> TargetError:
        return TargetError(
            f"The records of this write to stream {self._stream} are gone: it has ended, or they were deleted",
            "What was written stays. Look at the stream before you write again",
        )

    def _contended(self) -> TargetError:
        return TargetError(f"Other tasks write {self._name} at the same time", "Does another process use its id?")

    def _look(self) -> StreamState:
        """The target as it is now. The shortest window that was ever seen counts."""
        state = stream_state(self._connected(), self._stream)
        self._window_s = min(self._window_s, window_s(state))
        return state

    @property
    def _records(self) -> WriteRecords:
        return WriteRecords(self._connected(), self._stream, self._part.key)

    def _connected(self) -> Link:
        """The connection; a new one where the one before is closed for good."""
        if self._link is None or self._link.is_closed:
            self._disconnect()
            self._link = Link(self._nats).__enter__()
        return self._link

    def _disconnect(self) -> None:
        if self._link:
            self._link.__exit__(None, None, None)
            self._link = None


def _body(target: StreamState, batch: int, **more: Any) -> dict[str, Any]:
    return {"created_ns": target.incarnation.created_ns, "batch": batch, **more}


def _first_ns(record: WriteRecord) -> int:
    """Returns the time, in nanoseconds of the server, when the first rows of what the record is of may have been
    sent."""
    body: Mapping[str, Any] = record.body
    return body.get("first_ns") or record.time_ns


_RAISE = (
    "Raise duplicate_window of the stream, or write smaller partitions; with the option allowDoubles rows may be "
    "stored twice"
)

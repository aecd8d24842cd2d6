"""A task of a capture, in a worker: its ranges one after another.

Invariant: an hour that fails does not stop the hours after it, and every sequence of the task is in an outcome or of an
hour that is named as failed, unless the task ends in an error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nats3_dagster.archive.captures.job import CaptureJob
from nats3_dagster.archive.captures.read import Outcome, RangeCapture
from nats3_dagster.errors import Nats3Error, StreamChanged
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import SeqRange


@dataclass(frozen=True, slots=True)
class HourFailure:
    """An hour that a task did not capture completely."""

    hour: str
    # The JSON of the error, which goes through Spark.
    error: str


class CaptureTask:
    """Captures the ranges of one task; `outcomes()` yields what each gives."""

    def __init__(self, job: CaptureJob, ranges: Sequence[SeqRange], link: Link) -> None:
        self._job, self._ranges, self._link = job, ranges, link
        self._before = 0
        self._capturing: RangeCapture | None = None

    @property
    def messages(self) -> int:
        """The messages that were read so far."""
        return self._before + (self._capturing.messages if self._capturing else 0)

    def outcomes(self) -> Iterator[Outcome | HourFailure]:
        """Raises StreamChanged, which is no hour's fault; and the error of two hours in a row that fail alike: its
        cause is not in the hours, and a server that is down would be waited for once an hour."""
        before = ""
        for seqs in self._ranges:
            rest: SeqRange | None = seqs
            while rest:
                capturing = RangeCapture(self._job, rest, self._link)
                self._before, self._capturing = self.messages, capturing
                try:
                    yield from capturing.outcomes()
                    before, rest = "", None
                except StreamChanged:
                    raise
                except Nats3Error as error:
                    if error.what == before:
                        raise
                    before, failed = error.what, capturing.failed_hour
                    yield HourFailure(failed, error.to_json())
                    rest = self._after(failed, rest)

    def _after(self, hour: str, seqs: SeqRange) -> SeqRange | None:
        """The sequences of later hours; None if there are none."""
        following = next((first for key, first in self._job.hours if key > hour), seqs.last + 1)
        return SeqRange(following, seqs.last) if following <= seqs.last else None

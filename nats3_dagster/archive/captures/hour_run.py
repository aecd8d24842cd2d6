"""Runs hours; one that fails does not stop the rest.

Invariant: a run with a failed hour ends in an error that names the hour.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import OnProgress

T = TypeVar("T")
OnError = Callable[[str, Nats3Error], object]
# Shows the progress of a job while it runs; it is given the job's hours.
OnJob = Callable[[Sequence[str]], AbstractContextManager[OnProgress]]
# Failing hours that an error names with their reasons.
_NAMED = 3


class HourRun:
    """Hours to be done, and the errors of those that failed.

    Two hours in a row that fail alike end the run: the cause is not in the hours, and a server that is down would be
    waited for once an hour."""

    def __init__(self, hours: Sequence[str]) -> None:
        self.hours = tuple(hours)
        # Of the hours that failed, in the order in which they were tried.
        self.errors: dict[str, Nats3Error] = {}
        # Whether two in a row failed alike.
        self.is_general = False
        self._tried = 0
        self._before: str | None = None

    @property
    def untried(self) -> int:
        """The number of hours that were not tried when the run ended."""
        return len(self.hours) - self._tried

    def succeed(self) -> None:
        """Note that the next hour is done."""
        self._tried += 1
        self._before = None

    def fail(self, hour: str, error: Nats3Error, on_error: OnError) -> None:
        """Note that this hour failed, and call `on_error`; or that it was not tried, once the run has ended."""
        if self.is_general:
            return
        self._tried += 1
        self.errors[hour] = error
        on_error(hour, error)
        self.is_general = error.what == self._before
        self._before = error.what

    def results(self, perform: Callable[[str], T], on_error: OnError) -> Iterator[tuple[str, T]]:
        """Yields each hour that `perform` does, one after another, with what it returns. A Nats3Error of it is noted as
        the hour's; everything else goes through."""
        for hour in self.hours:
            if self.is_general:
                return
            try:
                result = perform(hour)
            except Nats3Error as error:
                self.fail(hour, error, on_error)
            else:
                self.succeed()
                yield hour, result

    def raise_errors(self) -> None:
        """Raises the error of the hours that failed, if any: of the kind, and with the next step, of the first. It has
        each cause once."""
        if not self.errors:
            return
        first = next(iter(self.errors.values()))
        if len(self.hours) == 1:
            raise first
        hours_by_cause: dict[str, list[str]] = {}
        for hour, error in list(self.errors.items())[:_NAMED]:
            hours_by_cause.setdefault(error.what, []).append(hour)
        named = "; ".join(f"{', '.join(hours)}: {cause}" for cause, hours in hours_by_cause.items())
        more = f"; and {len(self.errors) - _NAMED} more" if len(self.errors) > _NAMED else ""
        untried = f"; {self.untried} were not tried" if self.untried else ""
        what = f"{len(self.errors)} of {len(self.hours)} hours failed. {named}{more}{untried}"
        raise type(first)(what, first.hint) from first

"""Runs hours one by one; a failure does not stop the rest.

Invariant: a run with a failed hour ends in an error that names the hour.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from nats3_dagster.errors import Nats3Error

# Failing hours that an error names with their reasons.
_NAMED = 3


class HourRun:
    """Iterating gives the hours; each is to be done `with run.attempt(hour)`, which notes a Nats3Error of it.

    Two hours in a row that fail alike end the iteration: what ails them is not theirs, and a server that is down would
    be waited for once an hour."""

    def __init__(self, hours: Sequence[str]) -> None:
        self._hours = tuple(hours)
        # Of the hours that failed, in the order in which they were tried.
        self.errors: dict[str, Nats3Error] = {}
        # Whether two in a row failed alike, and how many hours were not tried then.
        self.is_general = False
        self.untried = 0

    def __iter__(self) -> Iterator[str]:
        before = ""
        for number, hour in enumerate(self._hours, 1):
            yield hour
            what = self.errors[hour].what if hour in self.errors else ""
            if what and what == before:
                self.is_general, self.untried = True, len(self._hours) - number
                return
            before = what

    @contextmanager
    def attempt(self, hour: str) -> Generator[None]:
        """Notes a Nats3Error as the hour's; everything else goes through."""
        try:
            yield
        except Nats3Error as error:
            self.errors[hour] = error

    def raise_errors(self) -> None:
        """Raises the error of the hours that failed, if any: of the kind, and with the next step, of the first."""
        if not self.errors:
            return
        first = next(iter(self.errors.values()))
        if len(self._hours) == 1:
            raise first
        named = "; ".join(f"{hour}: {error.what}" for hour, error in list(self.errors.items())[:_NAMED])
        more = f"; and {len(self.errors) - _NAMED} more" if len(self.errors) > _NAMED else ""
        untried = f"; {self.untried} were not tried" if self.untried else ""
        what = f"{len(self.errors)} of {len(self._hours)} hours failed. {named}{more}{untried}"
        raise type(first)(what, first.hint) from first

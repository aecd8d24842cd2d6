"""Runs hours one by one; a failure does not stop the rest.

Invariant: a run with a failed hour ends in an error that names the hour.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from nats3_dagster.errors import Nats3Error

T = TypeVar("T")
# Failing hours that an error names with their reasons.
_NAMED = 3


class HourRun:
    """Hours to be done by one function, and the errors of those that failed."""

    def __init__(self, hours: Sequence[str]) -> None:
        self._hours = tuple(hours)
        # Of the hours that failed, in the order in which they were tried.
        self.errors: dict[str, Nats3Error] = {}
        # Whether two in a row failed alike, and how many hours were not tried then.
        self.is_general = False
        self.untried = 0

    def results(
        self, perform: Callable[[str], T], on_error: Callable[[str, Nats3Error], object]
    ) -> Iterator[tuple[str, T]]:
        """Yields each hour that `perform` does, with what it returns. A Nats3Error of it is noted as the hour's, and
        `on_error` is called; everything else goes through.

        Two hours in a row that fail alike end the run: the cause is not in the hours, and a server that is down would
        be waited for once an hour."""
        before: str | None = None
        for number, hour in enumerate(self._hours, 1):
            try:
                result = perform(hour)
            except Nats3Error as error:
                self.errors[hour] = error
                on_error(hour, error)
                if error.what == before:
                    self.is_general, self.untried = True, len(self._hours) - number
                    return
                before = error.what
            else:
                before = None
                yield hour, result

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

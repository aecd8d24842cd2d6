"""A finding: one line of the doctor's report."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from nats3_dagster.errors import Nats3Error
from nats3_dagster.steps import Step

# `warn`: it works, and will cause trouble one day. `fail`: it does not work.
Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The subject of a check, its state, and the fix if it is not ok."""

    status: Status
    # settings, nats, postgres, clocks, store, tables, exports, rebuilds, java, spark or dagster.
    area: str
    what: str
    do: str | Step = ""


def findings(area: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yields the findings of the check; an error that it raises is a finding too, and ends it."""
    try:
        yield from check()
    except Nats3Error as error:
        yield Finding("fail", area, error.what, error.hint)

"""A finding: one line of the doctor's report.

The rule kept here: `ok`, `warn` (it works, and something will bite one day) or `fail` (it does not work); the last two
always say what to do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from nats3_dagster.errors import Nats3Error
from nats3_dagster.steps import Step

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`area` is nats, postgres, store, java or spark."""

    status: Status
    area: str
    what: str
    do: str | Step = ""


def found(area: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What the check finds; an error that it raises is a finding too, and ends it."""
    try:
        yield from check()
    except Nats3Error as error:
        yield Finding("fail", area, error.what, error.hint)

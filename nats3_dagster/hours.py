"""Hours: the UTC partition key `YYYY-MM-DD-HH:00` and its bounds.

Invariant: times are whole nanoseconds since 1970-01-01T00:00:00Z in plain integers, because JetStream's store times
have nanoseconds and `datetime` has not.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from nats3_dagster.errors import OperatorError

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
HOUR_NS = 60 * MINUTE_NS
# The last time that 64 bits hold.
LAST_NS = 2**63 - 1
# JetStream has no older messages: an earlier time is of a clock that was not set, as 1970 of a device without one.
FIRST_HOUR = "2020-01-01-00:00"
# The server's clock dates messages, and the host's clock ends hours: they may differ by this much.
CLOCKS_S = 30
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
# The year 1, which servers write for no time. An offset may lead before it.
_FIRST_NS = -62_135_596_800 * SECOND_NS
_KEY = re.compile(r"\d{4}-\d\d-\d\d-\d\d:00", re.ASCII)
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")


def hour_of(time_ns: int) -> str:
    """The key of the hour that holds `time_ns`."""
    return datetime.fromtimestamp(time_ns // HOUR_NS * 3600, UTC).strftime("%Y-%m-%d-%H:00")


def hour_start(hour: str) -> int:
    """First nanosecond of the hour. Raises OperatorError for an invalid key."""
    if not _KEY.fullmatch(hour):
        raise OperatorError(f"{hour!r} is not an hour", "Write it as YYYY-MM-DD-HH:00, in UTC")
    try:
        start = datetime.strptime(hour, "%Y-%m-%d-%H:00").replace(tzinfo=UTC)
    except ValueError as error:
        raise OperatorError(f"{hour!r} is not an hour", "No such date; write YYYY-MM-DD-HH:00, in UTC") from error
    return int(start.timestamp()) * SECOND_NS


def hour_bounds(hour: str) -> tuple[int, int]:
    """`[start, end)` of the hour in nanoseconds."""
    start = hour_start(hour)
    return start, start + HOUR_NS


def hours_between(first_ns: int, last_ns: int) -> Iterator[str]:
    """The keys of all hours that hold a time in `[first_ns, last_ns]`, ascending."""
    for start in range(first_ns // HOUR_NS * HOUR_NS, last_ns + 1, HOUR_NS):
        yield hour_of(start)


def parse_time(text: str, now: datetime | None = None) -> int:
    """Nanoseconds of an RFC 3339 time (`2026-11-21T07:00:00.123456789Z`), a date, an hour key, or now less a
    duration (`-90m`, `-2h`, `-1d`). Without an offset it is UTC. `now`: another time for that. Raises OperatorError."""
    if match := re.fullmatch(r"-(\d+)([smhd])", text):
        unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[match[2]]
        try:
            past = (now or datetime.now(UTC)) - timedelta(**{unit: int(match[1])})
        except (OverflowError, ValueError):
            raise OperatorError(f"{text!r} is not a time", "It lies before all times; write it like -2h") from None
        return int(past.timestamp() * 1e6) * 1000
    if _KEY.fullmatch(text):
        return hour_start(text)
    whole_day = re.fullmatch(r"\d{4}-\d\d-\d\d", text)
    if not (match := _RFC3339.fullmatch(f"{text}T00:00:00Z" if whole_day else text)):
        raise OperatorError(f"{text!r} is not a time", "Write it as 2026-11-21T07:00:00Z, 2026-11-21-07:00 or -2h")
    try:
        whole = datetime.fromisoformat(match[1] + (match[3] or "Z"))
    except ValueError as error:
        raise OperatorError(f"{text!r} is not a time", "No such date or time of day") from error
    time_ns = int(whole.timestamp()) * SECOND_NS + int((match[2] or "").ljust(9, "0"))
    if time_ns < _FIRST_NS:
        raise OperatorError(f"{text!r} is not a time", "It lies before the year 1")
    if time_ns > LAST_NS:
        raise OperatorError(f"{text!r} is not a time", f"Nanoseconds in 64 bits end at {format_time(LAST_NS)}")
    return time_ns


def format_time(time_ns: int) -> str:
    """RFC 3339 in UTC with nanoseconds: what `parse_time` reads back exactly."""
    seconds, fraction = divmod(time_ns, SECOND_NS)
    # Without a format and a zone, which take longer: a page of chunks has 300 times.
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()}.{fraction:09d}Z"

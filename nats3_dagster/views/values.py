"""Values of JSON documents: times, sizes and ratios."""

from datetime import UTC, datetime

from nats3_dagster.hours import format_time


def time_of(time_ns: int | None) -> str | None:
    """A time as JSON has it: RFC 3339 with nanoseconds."""
    return None if time_ns is None else format_time(time_ns)


def stamp_of(moment: datetime | None) -> str | None:
    """A time from Postgres as JSON has it."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="milliseconds")[:-len("+00:00")] + "Z"


def ratio(payload_bytes: int, stored_bytes: int) -> float | None:
    """How many times smaller the messages are in the store; None if nothing is stored."""
    return round(payload_bytes / stored_bytes, 2) if stored_bytes else None

"""Lateness of an archive without a new capture. It imports nothing: Dagster's definitions are made of it."""

# From a warning to a failure.
FAILS_AFTER_S = 24 * 3600


def late_after_s(max_age_s: int) -> tuple[int, int]:
    """Returns the seconds after which an archive without a new capture is late, and is in error, by its threshold of
    age. An hour more than that, because Dagster hears of an archive whose stream is idle once an hour; and a quarter of
    an hour for the capture itself."""
    late = max_age_s + 3600 + 900
    return late, late + FAILS_AFTER_S

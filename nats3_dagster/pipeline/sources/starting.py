"""The option `startingOffsets`: where a new streaming query begins."""

from nats3_dagster.hours import parse_time
from nats3_dagster.pipeline.sources.options import Kind


def _starting(text: str) -> str:
    text = text.strip()
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    if not (text.isascii() and text.isdecimal()):
        parse_time(text)
    elif not 1 <= int(text) < 1 << 63:
        raise ValueError
    return text


STARTING = Kind(
    "earliest, latest, sequence or time", _starting, "earliest, latest, a sequence from 1, or a time like -2h"
)

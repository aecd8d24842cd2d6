"""The registry of faults: each has a name, what it breaks, and a function that plays it on a trial."""

from collections.abc import Callable
from dataclasses import dataclass

from nats3_dagster_tests.faults.trial import Trial

Play = Callable[[Trial], None]
FAULTS: dict[str, "Fault"] = {}


@dataclass(frozen=True, slots=True)
class Fault:
    """A way to break a capture or a replay."""

    name: str
    # What is broken, in a line.
    breaks: str
    # Makes the workload, breaks something, ends it, and judges.
    play: Play
    # The store that it needs, `s3` or `file`; empty for either.
    store: str = ""
    # Whether it plays on the three servers.
    cluster: bool = False
    # Whether it needs a Spark session.
    spark: bool = False
    # The oldest nats-server that it can be played on.
    since: tuple[int, int] = (0, 0)
    # Whether the short selection of the test suite plays it.
    short: bool = False


def fault(
    name: str,
    breaks: str,
    *,
    store: str = "",
    cluster: bool = False,
    spark: bool = False,
    since: tuple[int, int] = (0, 0),
    short: bool = False,
) -> Callable[[Play], Play]:
    """Register the function under it."""

    def add(play: Play) -> Play:
        assert name not in FAULTS, name
        FAULTS[name] = Fault(name, breaks, play, store, cluster, spark, since, short)
        return play

    return add

"""`nats3 store set`: before and after, nothing to change, and what is refused."""

import pytest

from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

THERE = "its chunks are there, and its objects are looked for there"
INSTEAD = "Make another archive for it under another name; pause or delete this one, whose objects stay"


@pytest.fixture
def nats3(capfd: pytest.CaptureFixture[str], settings: Settings, wire: Wire, bucket: str) -> Command:
    """The command line, with an archive `ev` of a stream EV."""
    wire.create_stream("EV", "ev.>")
    command = Command(capfd)
    command.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    return command


def test_a_change_shows_before_and_after(nats3: Command) -> None:
    ran = nats3.ok("store", "set", "ev", "--max-messages", "5000", "--max-bytes", "1MiB", "--max-age", "5m")
    assert ran.out.splitlines() == [
        "archive       ev",
        "max messages  1,000,000 -> 5,000",
        "max bytes     64 MiB -> 1 MiB",
        "max age       30s -> 5m",
    ]
    # As it was given, and by words where 0 is none.
    given = ("--keep", "40h", "--compact-after", "90m", "--keep-bytes", "1GB", "--retry-delay", "1d")
    assert nats3.ok("store", "set", "ev", *given).out.splitlines()[1:] == [
        "compact after  never -> 1h30m",
        "keep           for ever -> 40h",
        "keep bytes     any number -> 1,000,000,000 bytes",
        "retry delay    0s -> 1d",
    ]
    lines = dict(line.split("  ", 1) for line in nats3.ok("store", "get", "ev").out.splitlines())
    shown = {name: lines[name].strip() for name in ("max age", "keep", "keep bytes", "compact after")}
    assert shown == {"max age": "5m", "keep": "40h", "keep bytes": "1,000,000,000 bytes", "compact after": "1h30m"}
    nats3.ok("store", "set", "ev", "--keep", "0", "--keep-bytes", "0", "--compact-after", "0")
    lines = dict(line.split("  ", 1) for line in nats3.ok("store", "get", "ev").out.splitlines())
    shown = {name: lines[name].strip() for name in ("keep", "keep bytes", "compact after")}
    assert shown == {"keep": "for ever", "keep bytes": "any number", "compact after": "never"}
    assert ran.err.startswith("Changed. Sensors follow at their next tick, captures with their next hour\nIf Dagster")
    ran = nats3.ok("store", "set", "ev", "--zstd-level", "1", "--max-age", "300", "-o", "json")
    assert ran.json["changes"] == [{"field": "zstd_level", "old": 3, "new": 1, "refused": None}]
    assert (ran.json["max_age_s"], ran.json["zstd_level"]) == (300, 1)
    again = nats3.ok("store", "set", "ev", "--zstd-level", "1", "-o", "json")
    assert again.json["changes"] == []
    assert again.err == "Nothing was changed: archive ev has this already\n"


def test_other_subjects_count_from_a_sequence_that_is_named(nats3: Command, wire: Wire) -> None:
    wire.publish([("ev.a", b"", b"x")] * 7)
    ran = nats3.ok("store", "set", "ev", "--subject", "ev.a", "--subject", "ev.b")
    assert ran.out.splitlines()[1] == "subjects  > -> ev.a, ev.b"
    assert ran.err.splitlines()[:2] == [
        "The new subjects count from sequence 8 of the stream on",
        "Changed. Sensors follow at their next tick, captures with their next hour",
    ]
    assert nats3.ok("store", "set", "ev", "--subject", "ev.b", "--subject", "ev.a", "-o", "json").json["changes"] == []
    assert nats3.ok("store", "set", "ev", "--subject", ">", "-o", "json").json["subjects"] == []


def test_what_is_refused(nats3: Command, bucket: str) -> None:
    before = nats3.ok("store", "list", "-o", "json").json
    assert (
        nats3.differences(
            [
                (
                    ("store", "set", "ev"),
                    "2 Error: There is nothing to change. Give a setting with its new value, like",
                ),
                (("store", "set", "evv", "--zstd-level", "1"), "2 Error: There is no archive evv. Did you mean ev?"),
                (("store", "set", "ev", "--max-bytes", "much"), "2 Error: Invalid value for '--max-bytes': 'much'"),
                (
                    ("store", "set", "ev", "--max-messages", "-1"),
                    "2 Error: max_messages is -1. Use 1 to 281,474,976,710,656",
                ),
                (
                    ("store", "set", "ev", "--zstd-level", "1", "--bucket", "other"),
                    f"2 Error: bucket of archive ev cannot change from {bucket} to other: {THERE}. {INSTEAD}",
                ),
                (
                    ("store", "set", "ev", "--stream", "OTHER"),
                    (
                        "2 Error: stream of archive ev cannot change from EV to OTHER: "
                        "what it has is counted by the sequences of"
                    ),
                ),
            ]
        )
        == []
    )
    assert nats3.ok("store", "list", "-o", "json").json == before

"""The result of a demo and its duration, for people and for programs."""

from dataclasses import dataclass

from nats3_dagster.defs.jobs.run_times import RunTimes
from nats3_dagster.dev.demo_names import Names
from nats3_dagster.documents.stack import Demo


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of the demo. The times of steps are wall times, process starts included, in seconds."""

    names: Names
    # The version of nats-server.
    server: str
    # Messages in the stream, and how many of their lines differ.
    messages: int
    distinct_lines: int
    # Of the archive: hours with messages, chunks, bytes of all messages and of all objects.
    hours: int
    chunks: int
    payload_bytes: int
    stored_bytes: int
    # Messages in the target stream.
    replayed: int
    # Messages that differ, or that only one of the streams has.
    mismatches: int
    publish_s: float
    capture_s: float
    replay_s: float
    compare_s: float
    # None where Dagster has not kept them.
    capture_times: RunTimes | None
    replay_times: RunTimes | None
    # From the first replayed message to the last one, by the target stream's own times.
    replay_messages_s: float

    @property
    def ok(self) -> bool:
        return self.mismatches == 0 and self.messages == self.replayed > 0


def as_rows(result: DemoResult) -> list[tuple[str, str]]:
    """The table that the demo prints."""
    names, first = result.names, Names(1)
    ratio = result.payload_bytes / max(result.stored_bytes, 1)
    of_hours = f"the {result.hours} hours (each a chunk)"
    of_replay = f"one Spark job ({result.replay_messages_s:.2f} s from its first message to its last)"
    left = "" if names == first else f" (the names of {first.stream} are taken; nothing of it was touched)"
    return [
        ("nats-server", result.server),
        ("stream", f"{names.stream}{left}"),
        ("archive", names.archive),
        ("replayed into", names.target),
        ("messages", f"{result.messages:,} ({result.distinct_lines:,} distinct log lines of this host)"),
        ("hours", str(result.hours)),
        ("chunks", str(result.chunks)),
        ("payload bytes", f"{result.payload_bytes:,}"),
        ("stored bytes", f"{result.stored_bytes:,} (ratio {ratio:.1f})"),
        ("publish", f"{result.messages:,} messages in {result.publish_s:.1f} s"),
        ("capture", _time(result.messages, result.capture_s, result.capture_times, of_hours)),
        ("replay", _time(result.replayed, result.replay_s, result.replay_times, of_replay)),
        ("compare", f"{result.messages:,} messages in {result.compare_s:.1f} s"),
        ("mismatches", str(result.mismatches)),
    ]


def document_of(result: DemoResult) -> Demo:
    """Returns the same for a program."""
    names, capture, replay = result.names, result.capture_times, result.replay_times
    return Demo.by_name(
        result,
        stream=names.stream,
        archive=names.archive,
        target=names.target,
        capture_dagster_s=capture and round(_dagster_s(result.capture_s, capture), 2),
        capture_spark_s=capture and capture.spark_s,
        capture_work_s=capture and capture.work_s,
        replay_dagster_s=replay and round(_dagster_s(result.replay_s, replay), 2),
        replay_spark_s=replay and replay.spark_s,
        replay_work_s=replay and replay.work_s,
    )


def _time(messages: int, seconds: float, times: RunTimes | None, work: str) -> str:
    """Returns the time that a step took, and its parts."""
    whole = f"{messages:,} messages in {seconds:.1f} s"
    if times is None:
        return f"{whole}, the start of Dagster and Spark included"
    dagster_s = _dagster_s(seconds, times)
    return f"{whole}: {times.work_s:.1f} s for {work}, {times.spark_s:.1f} s to start Spark, {dagster_s:.1f} s Dagster"


def _dagster_s(seconds: float, times: RunTimes) -> float:
    """Dagster's share of a step."""
    return seconds - times.spark_s - times.work_s

"""What a soak makes before it begins: streams with a past, archives of them, and what is made of the archives.

The past is what needs hours that have ended: seals, exports, compaction and retention have work from the first minute
on, and again when an hour ends while the soak runs.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster_tests.soak.streams import Stream, payload
from nats3_dagster_tests.soak.truth import ACKED, files_of, hash_of
from nats3_dagster_tests.support.wire import Wire

BUCKET, COPY = "archive", "copies"
# The archives, by the stream that each has: one of each, and a second one of EVENTS that keeps an hour alone.
ARCHIVES = {"events": "EVENTS", "kept": "EVENTS", "state": "STATE", "small": "SMALL"}
EXPORT, TARGET = "files", "FOLLOWED"
# The messages of each of the last hours. One task takes 100,000: the large one becomes two small chunks, to compact.
HOURS = (20_000, 120_000, 20_000)
_HOUR_NS = 3600 * 10**9


def make_streams(url: str, folder: Path, streams: tuple[Stream, ...]) -> int:
    """Streams whose messages of the last hours are there already, and are written down as acknowledged; the number of
    the first message to publish. All limits but that of STATE are wide: what is lost then was lost by us."""
    number = 0
    for stream in streams:
        kept = {"max_msgs_per_subject": stream.per_subject} if stream.per_subject else {}
        # At most what it keeps of each subject: a restore applies the limits.
        most = stream.per_subject * stream.subjects // len(HOURS) if stream.per_subject else max(HOURS)
        past = _Past(stream, number, [min(count, most) for count in HOURS])
        restore_stream(url, stream.name, [f"{stream.token}.*"], past, allow_direct=True, **kept)
        files_of(folder, stream.name)[0].write_bytes(past.records())
        number += len(past.rows)
    with Wire(url) as wire:
        wire.create_stream(TARGET, "followed.>", allow_direct=True)
    return number


class _Past:
    """The messages of the past of a stream, and what is written down of them."""

    def __init__(self, stream: Stream, first: int, counts: Sequence[int]) -> None:
        self._stream, self._first, self._counts = stream, first, counts
        self.rows: list[tuple[int, bytes, int]] = []

    def __iter__(self) -> Iterator[Past]:
        texts, hour = self._stream.texts(), time.time_ns() // _HOUR_NS - len(self._counts)
        for count in self._counts:
            for place in range(1, count + 1):
                n = len(self.rows)
                which = n % self._stream.subjects
                subject, data = self._stream.subject(which), payload(texts[n % len(texts)], self._first + n)
                self.rows.append((n + 1, hash_of(subject, data), which))
                when = hour * _HOUR_NS + place * (_HOUR_NS // (count + 1))
                yield Past(n + 1, when, subject.decode(), b"", data)
            hour += 1

    def records(self) -> bytes:
        rows = [(seq, int.from_bytes(digest, "little"), which) for seq, digest, which in self.rows]
        return np.array(rows, ACKED).tobytes()


def make_archives() -> None:
    """The archives, the export and the table."""
    for name, stream in ARCHIVES.items():
        options = {
            "events": ("--copy", COPY, "--compact-after", "1m"),
            "kept": ("--keep", "1h", "--prefix", "kept"),
            "state": ("--compact-after", "1m", "--prefix", "state"),
            "small": ("--compact-after", "1m", "--prefix", "small"),
        }[name]
        command("store", "create", "--name", name, "--stream", stream, "--bucket", BUCKET, "--create-bucket", *options)
    command("export", "create", "events", EXPORT, "--to", f"s3://{COPY}/files", "--format", "parquet")
    command("table", "create", "events")


def follow(postgres_url: str) -> str:
    """Starts the replay that follows; its id, by which its process is known."""
    options = ("--write-subject", "followed.>", "--poll-interval", "5s", "--yes", "--detach")
    command("load", "create", "--archive", "small", "--read-subject", "sm.>", *options)
    with psycopg.connect(postgres_url) as connection:
        ((replay_id,),) = connection.execute("select id from nats3.replay").fetchall()
    return str(replay_id)


def command(*words: str, timeout_s: float = 300) -> str:
    """What `nats3` prints. Raises CommandFailed."""
    argv = [str(Path(sys.executable).with_name("nats3")), *words, "--no-progress"]
    done = subprocess.run(
        argv, env=os.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout_s
    )
    if done.returncode:
        raise CommandFailed(f"nats3 {' '.join(words)}: exit status {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


class CommandFailed(Exception):
    """A command of nats3 that ended with another exit status than 0."""


def stream_state(url: str, stream: str) -> dict[str, Any]:
    """The state of a stream, by its server."""
    with Wire(url) as wire:
        return wire.state(stream)

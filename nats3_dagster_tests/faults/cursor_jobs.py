"""What processes of the cursor faults do: a program that reads an archive and saves how far it came; and what others do
to the archive meanwhile."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nats3_dagster import Archive
from nats3_dagster.archive.proof import repair, verify
from nats3_dagster.archive.source.observe import source_state
from nats3_dagster.archive.stored import removal
from nats3_dagster.fault_points import fault_point
from nats3_dagster.library import Read
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

END = b"end of the fault"
Row = tuple[int, int, str, bytes | None, bytes | None, bytes]


@dataclass(frozen=True, slots=True)
class Program:
    """How a program reads."""

    # The token is in this file; beside it with `.log` what the program saw and saved, line by line.
    file: Path
    # `message`: in one loop; `lazy`: the same, without `done`; `break`: in a loop that it leaves to save; `batch`.
    way: Literal["message", "lazy", "break", "batch"]
    # It saves after so many messages.
    every: int
    filters: tuple[str, ...]
    over_gaps: bool = False
    # It goes on into the stream, and ends with the message END.
    follow: bool = False


def read(archive: str, program: Program) -> int:
    """Read on from the saved token, or from the beginning; the messages."""
    log = os.open(program.file.with_suffix(".log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    seen = 0
    with Archive.open(archive) as opened:
        if program.file.exists():
            reading = opened.resume(program.file.read_text(), follow=program.follow)
        else:
            reading = opened.read(subjects=program.filters or None, over_gaps=program.over_gaps, follow=program.follow)
        os.write(log, b"begin\n")
        for rows in _given(reading, program):
            for row in rows:
                os.write(log, b"message %d %s\n" % (row[0], digest(row).encode()))
                fault_point("cursor.yielded")
                seen += 1
                if row[5] == END:
                    return seen
                if program.way == "lazy" and seen % program.every == 0:
                    _save(reading, program.file, log, uncounted=1)
                if program.way == "message" and seen % program.every == 0:
                    reading.done()
                    _save(reading, program.file, log)
            if program.way in ("batch", "break"):
                reading.done()
                _save(reading, program.file, log)
        if program.way in ("message", "lazy"):
            reading.done()
        _save(reading, program.file, log)
    return seen


def _given(reading: Read, program: Program) -> Iterator[Iterable[Row]]:
    """The messages, as often as the program saves."""
    if program.way == "batch":
        for batch in reading.batches():
            yield [
                (r["seq"], r["time_ns"], r["subject"], r["subject_bytes"], r["headers"], r["data"])
                for r in batch.to_pylist()
            ]
        return
    if program.way != "break":
        yield _rows(reading, None)
        return
    more = [0]
    while more:
        more = []
        yield _rows(reading, program.every, more)


def _rows(reading: Read, most: int | None, seen: list[int] | None = None) -> Iterator[Row]:
    for count, m in enumerate(reading, 1):
        if seen is not None:
            seen.append(m.seq)
        yield m.seq, m.time_ns, m.subject, m.subject_bytes, m.headers, m.data
        if count == most:
            break


def digest(row: Row) -> str:
    """The message as the judge knows it: time, subject, headers and payload."""
    _, time_ns, subject, exact, headers, data = row
    parts = (b"%d" % time_ns, exact or subject.encode(), headers or b"", data)
    return hashlib.sha256(b"\0\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _save(reading: Read, file: Path, log: int, uncounted: int = 0) -> None:
    """`uncounted`: how many messages the program has that the token does not count."""
    token = reading.token()
    os.write(log, b"saving %d\n" % uncounted)
    fault_point("cursor.saving")
    draft = file.with_suffix(".new")
    draft.write_text(token)
    draft.replace(file)
    fault_point("cursor.saved")
    os.write(log, b"saved\n")


# What others do


def repair_bad(archive: str) -> int:
    """Capture what is spoilt again, from the stream; the chunks."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        checked = verify.verify_chunks(workspace, verify.chunks_to_verify(workspace, row))
        planned = repair.plan_repair(workspace, row, [v for v in checked if v.error])
        return sum(r.done for r in repair.repair(workspace, row, source_state(workspace, row), planned))


def retire(archive: str, keys: list[str], recapture: bool = False) -> int:
    """Take the chunks of these objects out of the archive; with `recapture` the next capture takes them again."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        ids = [chunk.id for chunk in workspace.catalog.chunks.select(row) if chunk.meta.key in keys]
        return workspace.catalog.chunks.retire(row, ids, recapture=recapture)


def sweep() -> int:
    """Remove the objects of retired chunks; how many."""
    with Workspace(Settings.load()) as workspace:
        return removal.sweep(workspace).objects

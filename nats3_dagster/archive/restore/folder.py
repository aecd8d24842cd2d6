"""Folder: the planned stream as a backup of the server's own kind, which other programs restore.

It has `backup.json`, with configuration and state, and `stream.tar.s2`, with what a server from 2.15 sends and reads.
Later releases of the `nats` command name such a file `stream.arc.s2`: they read it under either name, and earlier ones
under this one only.

Invariant: the folder has all of the backup, on disk, or it is not there. It is written beside, under a name of its own,
and gets its name last.
"""

import json
import os
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.archive.restore.plan import RestorePlan
from nats3_dagster.errors import Conflict, EngineError, OperatorError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import format_time
from nats3_dagster.jetstream.codes import BESIDE
from nats3_dagster.jetstream.restore.entries import (
    compressed,
    consumer_entry,
    end,
    head,
    message_entries,
    padded,
)
from nats3_dagster.model.messages import exact_subjects
from nats3_dagster.temporary_folder import locked_folder
from nats3_dagster.workspace import Workspace

# Names of the files in the folder of a backup.
CONFIGURATION, MESSAGES = "backup.json", "stream.tar.s2"
# Bytes at the beginning of the file that are kept for the state, which is known last.
_HEAD = 4096


@dataclass(frozen=True, slots=True)
class Written:
    """A backup that was written."""

    folder: Path
    messages: int
    # Its state, as `backup.json` has it.
    state: Mapping[str, Any]


def check_folder(folder: Path) -> None:
    """Raises OperatorError unless a backup may be written there: it does not exist, or is an empty folder."""
    if folder.is_dir() and not folder.is_symlink():
        if any(folder.iterdir()):
            raise OperatorError(f"{folder} is not empty", "Choose a folder that does not exist yet, or is empty")
    elif folder.exists() or folder.is_symlink():
        raise OperatorError(f"{folder} is no folder", "Choose one that does not exist yet, or is empty")
    if not folder.absolute().parent.is_dir():
        raise OperatorError(f"There is no folder {folder.absolute().parent}", "Create it, or choose another folder")


def write_folder(
    workspace: Workspace, planned: RestorePlan, folder: Path, *, on_progress: Callable[[int], object] = int
) -> Written:
    """Write the backup of the planned stream. `on_progress` is called with the number of messages that were written.

    Raises OperatorError for a folder that is not empty, Conflict where another process writes it, EngineError where it
    cannot be written; LostMessages and StoreError of the archive. After an error there is no folder."""
    folder = folder.absolute()
    check_folder(folder)
    try:
        with _draft(folder) as draft:
            messages, state = _write(workspace, planned, draft, on_progress)
            fault_point("backup.written")
            _sync(draft)
            draft.rename(folder)  # which an empty folder may have
            _sync(folder.parent)
    except OSError as error:
        raise EngineError(
            f"{folder} cannot be written: {error.strerror}", "Make room, or choose another folder; nothing was left"
        ) from error
    return Written(folder, messages, state)


def _write(
    workspace: Workspace, planned: RestorePlan, draft: Path, on_progress: Callable[[int], object]
) -> tuple[int, dict[str, Any]]:
    """Writes both files; the number of messages, and the state. Raises OperatorError if there is no message."""
    batches = planned.batches(workspace)
    first = next(batches, None)
    if first is None:
        raise OperatorError("The selection has no message", "Select others")
    first_seq, first_ns = first.column("seq")[0].as_py(), first.column("time_ns")[0].as_py()
    messages = size = last_seq = last_ns = 0
    with (draft / MESSAGES).open("xb") as out:
        out.write(bytes(_HEAD))
        for one in planned.consumers:
            placed = one.from_first(first_seq)
            out.write(compressed(consumer_entry(placed.position, placed.config, one.observed_ns)))
        for batch in chain([first], batches):
            out.write(compressed(message_entries(batch)))
            messages, size = messages + batch.num_rows, size + _stored_bytes(batch, planned.config)
            last_seq, last_ns = batch.column("seq")[-1].as_py(), batch.column("time_ns")[-1].as_py()
            on_progress(messages)
            fault_point("backup.writing")
        out.write(compressed(end()))
        state = {
            "messages": messages,
            "bytes": size,
            "first_seq": first_seq,
            "first_ts": format_time(first_ns),
            "last_seq": max(last_seq, planned.last_seq),
            "last_ts": format_time(last_ns),
            "consumer_count": len(planned.consumers),
        }
        out.seek(0)
        out.write(padded(compressed(head(state)), _HEAD))
        out.flush()
        os.fsync(out.fileno())
    with (draft / CONFIGURATION).open("x", encoding="utf-8") as out:
        json.dump({"config": dict(planned.config), "state": state}, out, indent=2, ensure_ascii=False)
        out.flush()
        os.fsync(out.fileno())
    return messages, state


def _stored_bytes(batch: pa.RecordBatch, config: Mapping[str, Any]) -> int:
    """Returns the bytes that a store of the stream's kind needs for the messages."""
    each, block = BESIDE["memory" if config.get("storage") == "memory" else "file"]
    subjects, headers = exact_subjects(batch), batch.column("headers")
    names = pc.take(pc.binary_length(subjects.dictionary), subjects.indices)
    lengths = (names, pc.binary_length(headers), pc.binary_length(batch.column("data")))
    # Header blocks that are empty need no bytes, as those that are not there.
    blocks = pc.sum(pc.greater(lengths[1], 0)).as_py() or 0
    return sum(pc.sum(each_one).as_py() or 0 for each_one in lengths) + each * batch.num_rows + block * blocks


@contextmanager
def _draft(folder: Path) -> Generator[Path]:
    """A folder beside, for this process alone: without what a process left there that was killed. It is removed at the
    end, unless it got another name. Raises Conflict, OSError."""
    draft = folder.with_name(f".{folder.name}.nats3")
    try:
        with locked_folder(draft):
            try:
                for left in draft.iterdir():
                    left.unlink()
                yield draft
            except BaseException:
                with suppress(OSError):
                    shutil.rmtree(draft)
                raise
    except BlockingIOError:
        raise Conflict(f"Another process writes {folder}", "Wait for it, or choose another folder") from None


def _sync(folder: Path) -> None:
    """Has the names in a folder written to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

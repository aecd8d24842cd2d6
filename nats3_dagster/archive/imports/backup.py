"""A backup in a folder, as `nats stream backup` writes it: `backup.json`, and one file with the messages.

The file has the form of the server that made it: `NATSARC1` since 2.15, blocks of a file store in a tar before. Only a
server reads it.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model.imported import ImportedBackup
from nats3_dagster.model.stream import check_stream_name

# Names of the files. Releases of the `nats` command name the messages by the form that they have.
_CONFIGURATION, _MESSAGES = "backup.json", ("stream.arc.s2", "stream.tar.s2")
# Bytes that `backup.json` may have: a configuration with all subjects that a stream can have.
_MOST = 8 << 20
_PIECE = 1 << 20
# The content of the later form begins with it, and its compression leaves it as it is, within 64 bytes.
_MAGIC, _WITHIN = b"NATSARC1", 64


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup. Its file is not read yet: only a server can tell that it is whole."""

    folder: Path
    # The file with the messages.
    file: Path
    # The stream's, as `backup.json` has them.
    config: Mapping[str, Any]
    state: Mapping[str, Any]
    described: ImportedBackup
    # The store time of the first message, in nanoseconds since 1970.
    first_ns: int
    # True if messages may have a time to live of their own: a server leaves out those that have ended, of the form of
    # servers from 2.15, and no others.
    may_end: bool

    @property
    def stream(self) -> str:
        return self.config["name"]


def read_backup(folder: Path, *, on_read: Callable[[int, int], object] = max) -> Backup:
    """The backup in a folder. `on_read` is called with the bytes that were read for its digest, and all. Raises
    OperatorError for a folder that is none."""
    try:
        return _read(folder, on_read)
    except OSError as error:
        raise OperatorError(f"{error.filename or folder} cannot be read: {error.strerror}", _HINT) from error


_HINT = "Name the folder that has backup.json and the file with the messages"


def _read(folder: Path, on_read: Callable[[int, int], object]) -> Backup:
    if not folder.is_dir():
        raise OperatorError(f"There is no folder {folder}", _HINT)
    files = [folder / name for name in _MESSAGES if (folder / name).is_file()]
    if len(files) != 1 or not (folder / _CONFIGURATION).is_file():
        what = "has both stream.arc.s2 and stream.tar.s2" if len(files) > 1 else "is no backup of a stream"
        raise OperatorError(f"{folder} {what}", _HINT)
    with (folder / _CONFIGURATION).open("rb") as file:
        text = file.read(_MOST + 1)
    try:
        document: dict[str, dict[str, Any]] = json.loads(text) if len(text) <= _MOST else {}
        config, state = {**document["config"]}, {**document["state"]}
        first_seq, last_seq, messages = (int(state[name]) for name in ("first_seq", "last_seq", "messages"))
        first_ns = parse_time(str(state["first_ts"])) if messages else 0
        check_stream_name(str(config["name"]))
    except (ValueError, TypeError, KeyError, OperatorError):
        # One that was cut is empty.
        raise OperatorError(
            f"{folder / _CONFIGURATION} does not say what it is a backup of", "Was the backup cut? Take it again"
        ) from None
    if messages < 1:
        raise OperatorError(f"The backup in {folder} has no message", "There is nothing to archive")
    digest = _digest(text, files[0], on_read)
    described = ImportedBackup(digest=digest, first_seq=first_seq, last_seq=last_seq, messages=messages)
    with files[0].open("rb") as file:
        may_end = bool(config.get("allow_msg_ttl")) and _MAGIC in file.read(_WITHIN)
    return Backup(folder, files[0], config, state, described, first_ns, may_end)


def _digest(text: bytes, file: Path, on_read: Callable[[int, int], object]) -> str:
    digest, size, read = hashlib.sha256(text), file.stat().st_size, 0
    with file.open("rb") as content:
        while piece := content.read(_PIECE):
            digest.update(piece)
            read += len(piece)
            on_read(read, size)
    return digest.hexdigest()

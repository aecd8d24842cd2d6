"""Download: a chunk's object as a file, proven before the file appears.

Invariant: a fetched file is whole and as it was written, or it does not exist; no file is ever overwritten.
"""

import errno
import os
import secrets
from pathlib import Path

from nats3_dagster.archive.stored.any_bucket import from_any_bucket
from nats3_dagster.chunks import open_chunk
from nats3_dagster.errors import EngineError, OperatorError
from nats3_dagster.model import Chunk
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace


def fetch(workspace: Workspace, chunk: Chunk) -> memoryview:
    """The object's bytes, proven by size, hash and identity. Raises StoreError, ObjectMissing or ChunkError."""

    def read(bucket: Bucket) -> memoryview:
        data = bucket.get(chunk.meta.key)
        open_chunk(data, chunk.meta)
        return data

    return from_any_bucket(chunk, workspace.bucket, read)


def download(workspace: Workspace, chunk: Chunk, to: Path | None = None) -> Path:
    """Write the object to the file `to`, or under its own name into that folder (by default the working directory); the
    file. Raises OperatorError if there is a file already or no folder, EngineError if it cannot be written, and as
    `fetch`."""
    file = to or Path()
    if file.is_dir():
        file /= chunk.meta.key.rpartition("/")[2]
    if not file.parent.is_dir():
        raise OperatorError(f"There is no folder {file.parent}", "Create it, or choose another file")
    if file.exists():  # asked first: an object may be large
        raise _exists(file)
    data = fetch(workspace, chunk)
    try:
        _publish(file, data)
    except FileExistsError:
        raise _exists(file) from None
    except OSError as error:
        raise EngineError(f"{file} cannot be written: {error.strerror}", "Choose another file") from error
    return file


def _publish(file: Path, data: memoryview) -> None:
    """Raises FileExistsError, OSError."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, file)  # unlike a rename, it fails where a file is
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS) or file.exists():
                raise
            draft.rename(file)  # a file system without hard links
    finally:
        draft.unlink(missing_ok=True)


def _exists(file: Path) -> OperatorError:
    return OperatorError(f"{file} exists already", "Choose another file, or remove it first")

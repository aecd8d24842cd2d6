"""A new file, durable and at once: how a `file://` store gets an object.

Invariant: when `create` returns, the file survives a power cut whole under its name, and before that nothing is there
under that name. obstore's local store gives the second and not the first: it never calls fsync, and the catalog would
list a chunk that is gone.
"""

import errno
import os
import time
from pathlib import Path
from threading import get_ident

from nats3_dagster.errors import StoreError


def create(root: Path, key: str, data: memoryview) -> bool:
    """Write `data` as `root/key`; False when there is a file already, whatever it holds. Raises OSError.

    A process killed meanwhile leaves `<name>#<digits>` beside it, which no listing shows."""
    path = root.joinpath(*key.split("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    created = not path.exists() and _publish(path, data)
    if not created:
        _sync(path)  # its writer may have died between the two steps
    _sync_folders(root, path)
    return created


def replace(root: Path, key: str, data: memoryview) -> None:
    """Write `data` as `root/key`, in the place of what is there. Raises OSError."""
    path = root.joinpath(*key.split("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(draft := _draft(path), data)
    draft.replace(path)
    _sync_folders(root, path)


def move(root: Path, source: str, target: str) -> None:
    """Replaces another file by an own file. Raises OSError."""
    old, new = (root.joinpath(*key.split("/")) for key in (source, target))
    new.parent.mkdir(parents=True, exist_ok=True)
    old.replace(new)
    _sync_folders(root, new)
    _prune(root, old)


def remove(root: Path, key: str) -> None:
    """Remove a file if it is there, and the folders that are empty without it. Raises OSError."""
    path = root.joinpath(*key.split("/"))
    path.unlink(missing_ok=True)
    _prune(root, path)


def _prune(root: Path, path: Path) -> None:
    for folder in path.parents:
        if folder == root:
            return
        try:
            folder.rmdir()
        except OSError:  # not empty, or gone
            return


def _sync_folders(root: Path, path: Path) -> None:
    folder = path.parent
    while True:
        _sync(folder)
        if folder == root:
            return
        folder = folder.parent


def _draft(path: Path) -> Path:
    return path.with_name(f"{path.name}#{os.getpid()}{get_ident()}{time.monotonic_ns()}")


def _write(draft: Path, data: memoryview) -> None:
    with draft.open("xb", buffering=0) as file:
        rest = data
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


def _publish(path: Path, data: memoryview) -> bool:
    draft = _draft(path)
    try:
        _write(draft, data)
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                raise StoreError(
                    "The store's file system has no hard links, which make a new file appear at once",
                    "Choose a folder on a local disk, or an S3 store",
                ) from error
            raise
        return True
    finally:
        draft.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

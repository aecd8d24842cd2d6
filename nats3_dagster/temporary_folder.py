"""Folders for one process: a temporary one, which goes also where an interrupt comes while it is made, and one of a
name that is known.

Invariant: from before a temporary folder exists there is code that removes it. tempfile's makes the folder first: an
interrupt between the two steps leaves it.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Generator[Path]:
    """A folder for this user alone, removed at the end. `parent`: None for the system's usual place. Raises OSError."""
    folder = Path(parent or tempfile.gettempdir(), f"{prefix}{secrets.token_hex(8)}")
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked_folder(folder: Path) -> Generator[None]:
    """Keeps a folder for this process, which may give it another name or remove it; it is made where there is none.
    Raises BlockingIOError while another process has it, OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The process that had it may have taken it away since.
        if not folder.exists() or not os.path.samestat(folder.stat(), os.fstat(handle)):
            raise BlockingIOError
        yield
    finally:
        os.close(handle)

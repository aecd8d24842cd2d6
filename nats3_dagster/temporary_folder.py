"""A temporary folder that goes also where an interrupt comes while it is made.

Invariant: from before the folder exists there is code that removes it. tempfile's makes the folder first: an interrupt
between the two steps leaves it.
"""

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

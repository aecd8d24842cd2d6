"""Folders and files of the embedded stack: readable by their owner only, whatever the umask says.

Logs and configurations of servers hold addresses and logins, and the data is the user's.
"""

import os
from pathlib import Path
from typing import IO

# What processes of the stack may not give to others.
UMASK = 0o077


def make_folder(folder: Path) -> None:
    """Creates the folder, and those above it, with mode 0700; an existing own folder gets this mode. Raises OSError."""
    for missing in reversed([part for part in folder.parents if not part.exists()]):
        _make(missing)
    _make(folder)
    folder.chmod(0o700)


def make_home(home: Path) -> None:
    """The same for the folder of a stack, but one that is there keeps its mode: it may be shared. Raises OSError."""
    if not home.is_dir():
        make_folder(home)


def open_private(path: Path, mode: str) -> IO[bytes]:
    """Open a file to be written in binary, with mode 0600. Raises OSError."""
    file = open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
    os.fchmod(file.fileno(), 0o600)
    return file


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600. Raises OSError."""
    with open_private(path, "wb") as file:
        file.write(text.encode())


def _make(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)

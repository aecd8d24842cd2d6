"""Processes of their own: work that goes on when the command that started it has ended."""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from nats3_dagster.settings import home
from nats3_dagster.settings.private import make_folder, open_private


def log_of(replay_id: str) -> Path:
    """Returns the file to which the detached process of a replay writes, on the machine that started it."""
    return home() / "logs" / f"load-{replay_id}.log"


def start_detached(command: Sequence[str], log: Path) -> int:
    """Start `nats3 <command>` in a session of its own, its output appended to `log`; its process id.

    It has no file of this process but the log, and no terminal: it neither keeps a server's port nor ends with it."""
    make_folder(log.parent)
    with open_private(log, "ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "nats3_dagster.cli", *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            close_fds=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    # A server lives longer than what it starts, which would stay as a zombie.
    threading.Thread(target=process.wait, name=f"wait for {process.pid}", daemon=True).start()
    return process.pid

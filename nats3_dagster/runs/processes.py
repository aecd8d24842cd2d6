"""Processes of their own: work that goes on when the command that started it has ended."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from nats3_dagster.settings import home


def log_of(replay_id: str) -> Path:
    """Where the detached process of a replay writes, on the machine that started it."""
    return home() / "logs" / f"load-{replay_id}.log"


def start_detached(command: Sequence[str], log: Path) -> int:
    """Start `nats3 <command>` in a session of its own, its output appended to `log`; its process id."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "nats3_dagster.cli", *command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    # Nobody waits for it, and Popen would warn of that.
    process.returncode = 0
    return process.pid
